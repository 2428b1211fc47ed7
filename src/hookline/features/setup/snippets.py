"""Give the lines to paste that send a first event to a source, for each place where SDKs run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from html import escape
from typing import NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from hookline.connections.model import BATCH_BYTES_MAX
from hookline.settings import Settings, parse_listen

_LOADER = """<script>
  (function (key, host) {
    var analytics = window.analytics = window.analytics || [];
    if (analytics.invoked) return;
    analytics.invoked = true;
    analytics._writeKey = key;
    analytics._cdn = host;
    "identify track page screen group alias reset ready on once off setAnonymousId".split(" ").forEach(function (call) {
      analytics[call] = function () {
        window.analytics.push([call].concat(Array.prototype.slice.call(arguments)));
      };
    });
    var script = document.createElement("script");
    script.async = true;
    script.src = %s;
    document.head.appendChild(script);
  })(%s, %s);
  analytics.page();
</script>"""

_NEXT = """import { AnalyticsBrowser } from '@segment/analytics-next'

const analytics = AnalyticsBrowser.load({ writeKey: %s, cdnURL: %s })
analytics.track('Signed Up', { plan: 'pro' })"""

_RUDDER = """import { RudderAnalytics } from '@rudderstack/analytics-js/bundled'

const analytics = new RudderAnalytics()
analytics.load(%s, %s, { configUrl: %s })
analytics.track('Signed Up', { plan: 'pro' })"""


def browser(write_key: str, url: str) -> str:
    """analytics.js from this server, which asks nobody else for anything."""
    script = f"{url}/analytics.js/v1/{quote(write_key, safe='')}/analytics.min.js"
    return _LOADER % (in_script(script), in_script(write_key), in_script(url))


def next_js(write_key: str, url: str) -> str:
    """Segment's library for websites that bundle it; the address of its settings says where events go."""
    return _NEXT % (double_quoted(write_key), double_quoted(url))


def rudder_js(write_key: str, url: str) -> str:
    """RudderStack's SDK in its bundled form, which loads no plugins from RudderStack."""
    return _RUDDER % (double_quoted(write_key), double_quoted(url), double_quoted(url))


def pixel(write_key: str, url: str) -> str:
    """Return an event for each time that a picture is looked at."""
    query = urlencode({"writeKey": write_key, "userId": "u1", "event": "Email Opened", "properties.subject": "Hello"})
    return f'<img src="{escape(f"{url}/v1/pixel/track?{query}")}" width="1" height="1" alt="">'


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


_PYTHON = """# The library is in Hookline's repository: install it from a checkout.
import hookline_client as analytics

analytics.init(%s, {"endpoint": %s})
analytics.track("u1", "Signed Up", {"plan": "pro"})
analytics.flush()"""

_SEGMENT_PYTHON = """import segment.analytics as analytics

analytics.write_key = %s
analytics.host = %s
analytics.track("u1", "Signed Up", {"plan": "pro"})
analytics.flush()"""

_NODE = """import { Analytics } from '@segment/analytics-node'

const analytics = new Analytics({ writeKey: %s, host: %s })
analytics.track({ userId: 'u1', event: 'Signed Up', properties: { plan: 'pro' } })
await analytics.closeAndFlush()"""

_PHP = """use Segment\\Segment;

Segment::init(%s, ['host' => %s%s]);
Segment::track(['userId' => 'u1', 'event' => 'Signed Up', 'properties' => ['plan' => 'pro']]);
Segment::flush();"""

_GO = """client, err := analytics.NewWithConfig(%s, analytics.Config{
	Endpoint: %s,
})
if err != nil {
	log.Fatal(err)
}
defer client.Close()
client.Enqueue(analytics.Track{
	UserId:     "u1",
	Event:      "Signed Up",
	Properties: analytics.NewProperties().Set("plan", "pro"),
})"""

_RUBY = """require 'segment/analytics'
require 'uri'

%shookline = URI(%s)
analytics = Segment::Analytics.new(
  write_key: %s, host: hookline.host, port: hookline.port, path: "#{hookline.path}/v1/import"
)
analytics.track(user_id: 'u1', event: 'Signed Up', properties: { plan: 'pro' })
analytics.flush"""

_JAVA = """Analytics analytics = Analytics.builder(%s)
    .endpoint(%s)
    .build();
analytics.enqueue(TrackMessage.builder("Signed Up").userId("u1").properties(Map.of("plan", "pro")));
analytics.flush();"""


def curl(write_key: str, url: str) -> str:
    """Return one event from a shell."""
    event = '{"userId": "u1", "event": "Signed Up", "properties": {"plan": "pro"}}'
    return f"curl -u {shlex.quote(write_key + ':')} {shlex.quote(url + '/v1/track')} \\\n  -d '{event}'"


def python(write_key: str, url: str) -> str:
    """Hookline's own library."""
    return _PYTHON % (double_quoted(write_key), double_quoted(url))


def segment_python(write_key: str, url: str) -> str:
    """Segment's library for Python."""
    return _SEGMENT_PYTHON % (double_quoted(write_key), double_quoted(url))


def node(write_key: str, url: str) -> str:
    """Segment's library for Node.js."""
    return _NODE % (double_quoted(write_key), double_quoted(url))


def php(write_key: str, url: str) -> str:
    """Segment's library for PHP; releases from 3.5 on speak https, whatever ``ssl`` says."""
    ssl = "" if url.startswith("https:") else ", 'ssl' => false"
    return _PHP % (single_quoted(write_key), single_quoted(without_scheme(url)), ssl)


def go(write_key: str, url: str) -> str:
    """Segment's library for Go."""
    return _GO % (double_quoted(write_key), double_quoted(url))


def ruby(write_key: str, url: str) -> str:
    """Segment's library for Ruby."""
    return _RUBY % (needs_tls(url, "#"), single_quoted(url), single_quoted(write_key))


def java(write_key: str, url: str) -> str:
    """Segment's library for Java, which Kotlin uses on servers as well."""
    return _JAVA % (double_quoted(write_key), double_quoted(url))


def double_quoted(text: str) -> str:
    """For JavaScript, Python, Go, Java and Swift, where no other character means anything within quotes."""
    return json.dumps(text)


def in_script(text: str) -> str:
    """For JavaScript within HTML, where ``</script>`` would end it."""
    return double_quoted(text).replace("<", "\\u003c")


def single_quoted(text: str) -> str:
    """For PHP and Ruby, whose double quotes would look for variables."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def for_kotlin(text: str) -> str:
    """For Kotlin, whose double quotes look for variables, too."""
    return double_quoted(text).replace("$", "\\$")


def without_scheme(url: str) -> str:
    """Host, port and path, as SDKs want it that write the scheme themselves."""
    return url.partition("://")[2] or url


def needs_tls(url: str, comment: str) -> str:
    """Return a line that says so, for SDKs that write https themselves; empty where that is right."""
    return (
        ""
        if urlsplit(url).scheme == "https"
        else f"{comment} This SDK uses https only: put a proxy with TLS in front of {url}.\n"
    )


WILDCARD_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Snippet(NamedTuple):
    """Text to paste; ``install`` is the line that gets the library, empty when there is none.

    ``batch_bytes`` is how large its batches get, 0 where that is no more than every source takes.
    """

    id: str
    title: str
    install: str
    text: str
    batch_bytes: int = 0


class Place(NamedTuple):
    """A place that events come from, and the lines to paste there."""

    title: str
    snippets: list[Snippet]


class _Sdk(NamedTuple):
    title: str
    install: str
    text: Callable[[str, str], str]
    batch_bytes: int = 0


_SDKS = {
    "curl": _Sdk("curl", "", curl),
    "browser": _Sdk("Browser", "", browser),
    "next-js": _Sdk("analytics-next", "npm install @segment/analytics-next", next_js),
    "pixel": _Sdk("Pixel", "", pixel),
    "rudder-js": _Sdk("RudderStack JS", "npm install @rudderstack/analytics-js", rudder_js, BATCH_BYTES_MAX),
    "python": _Sdk("Python", "pip install ./clients/python", python),
    "segment-python": _Sdk("Python, Segment’s", "pip install segment-analytics-python", segment_python),
    "node": _Sdk("Node.js", "npm install @segment/analytics-node", node),
    "php": _Sdk("PHP", "composer require segmentio/analytics-php", php),
    "go": _Sdk("Go", "go get github.com/segmentio/analytics-go/v3", go),
    "ruby": _Sdk("Ruby", "gem install analytics-ruby", ruby),
    "java": _Sdk("Java, Kotlin", 'implementation("com.segment.analytics.java:analytics:+")', java),
    "swift": _Sdk("iOS", '.package(url: "https://github.com/segmentio/analytics-swift", from: "1.0.0")', swift),
    "android": _Sdk("Android", 'implementation("com.segment.analytics.kotlin:android:+")', kotlin),
    "react-native": _Sdk("React Native", "npm install @segment/analytics-react-native", react_native),
}
_PLACES = {
    "web": ("In a web page", ("browser", "next-js", "pixel", "rudder-js")),
    "server": ("On a server", ("curl", "python", "segment-python", "node", "php", "go", "ruby", "java")),
    "mobile": ("In an app", ("swift", "android", "react-native")),
}
_FEW = ("curl", "python", "node")


def snippet(id: str, write_key: str, url: str) -> Snippet:
    """Return the lines for one SDK and one write key."""
    title, install, text, batch_bytes = _SDKS[id]
    return Snippet(id, title, install, text(write_key, url), batch_bytes)


def few_of_source(write_key: str, url: str) -> list[Snippet]:
    """Return the lines that anybody can try at once."""
    return [snippet(id, write_key, url) for id in _FEW]


def places_of_source(write_key: str, url: str, type_: str) -> list[Place]:
    """Return the lines for every SDK, the places that fit the source's type first."""
    kinds = sorted(_PLACES, key=lambda kind: kind != type_)
    return [Place(title, [snippet(id, write_key, url) for id in ids]) for title, ids in map(_PLACES.__getitem__, kinds)]


def collect_url(settings: Settings) -> str:
    """Return where events are sent to: the public address, else the one listened on."""
    if settings.collect.public_url:
        return settings.collect.public_url.rstrip("/")
    return url_of(settings.collect.listen)


def url_of(listen: str) -> str:
    """Return the address of a listening socket as this machine reaches it."""
    host, port = parse_listen(listen)
    host = WILDCARD_HOSTS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def host_of(url: str) -> str:
    """Return the host of a receiver URL, for people; the URL itself may hold a token in its path."""
    try:
        return urlsplit(url).netloc or url
    except ValueError:
        return url
