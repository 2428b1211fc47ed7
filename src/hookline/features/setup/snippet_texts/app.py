"""Lines for apps: the SDKs fetch their settings and send their events where they are told, over https."""

from __future__ import annotations

from urllib.parse import urlsplit

from hookline.features.setup.snippet_texts.quoting import double_quoted, for_kotlin, needs_tls, without_scheme

_SWIFT = """%slet configuration = Configuration(writeKey: %s)
    .apiHost(%s)
    .cdnHost(%s)
let analytics = Analytics(configuration: configuration)
analytics.track(name: "Signed Up", properties: ["plan": "pro"])"""

_KOTLIN = """%sval analytics = Analytics(%s, applicationContext) {
    apiHost = %s
    cdnHost = %s
}
analytics.track("Signed Up", buildJsonObject { put("plan", "pro") })"""

_REACT_NATIVE = """import { createClient } from '@segment/analytics-react-native'

const analytics = createClient({
  writeKey: %s,
  proxy: %s,
  cdnProxy: %s,
  useSegmentEndpoints: true,%s
})
analytics.track('Signed Up', { plan: 'pro' })"""


def swift(write_key: str, url: str) -> str:
    """Segment's library for iOS, macOS, tvOS and watchOS."""
    host = double_quoted(without_scheme(url) + "/v1")
    return _SWIFT % (needs_tls(url, "//"), double_quoted(write_key), host, host)


def kotlin(write_key: str, url: str) -> str:
    """Segment's library for Android."""
    host = for_kotlin(without_scheme(url) + "/v1")
    return _KOTLIN % (needs_tls(url, "//"), for_kotlin(write_key), host, host)


def react_native(write_key: str, url: str) -> str:
    """Segment's library for React Native; it takes http when it is told to."""
    place = double_quoted(url + "/v1")
    insecure = "" if urlsplit(url).scheme == "https" else "\n  allowInsecureProxy: true,"
    return _REACT_NATIVE % (double_quoted(write_key), place, place, insecure)
