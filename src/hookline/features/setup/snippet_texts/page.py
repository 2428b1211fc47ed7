"""Lines for web pages and e-mails: analytics.js as this server has it, RudderStack's SDK, and pixels."""

from __future__ import annotations

from html import escape
from urllib.parse import quote, urlencode

from hookline.features.setup.snippet_texts.quoting import double_quoted, in_script

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

_RUDDER = """import { RudderAnalytics } from '@rudderstack/analytics-js/bundled'

const analytics = new RudderAnalytics()
analytics.load(%s, %s, { configUrl: %s })
analytics.track('Signed Up', { plan: 'pro' })"""


def browser(write_key: str, url: str) -> str:
    """analytics.js from this server, which asks nobody else for anything."""
    script = f"{url}/analytics.js/v1/{quote(write_key, safe='')}/analytics.min.js"
    return _LOADER % (in_script(script), in_script(write_key), in_script(url))


def rudder_js(write_key: str, url: str) -> str:
    """RudderStack's SDK in its bundled form, which loads no plugins from RudderStack."""
    return _RUDDER % (double_quoted(write_key), double_quoted(url), double_quoted(url))


def pixel(write_key: str, url: str) -> str:
    """Return an event for each time that a picture is looked at."""
    query = urlencode({"writeKey": write_key, "userId": "u1", "event": "Email Opened", "properties.subject": "Hello"})
    return f'<img src="{escape(f"{url}/v1/pixel/track?{query}")}" width="1" height="1" alt="">'
