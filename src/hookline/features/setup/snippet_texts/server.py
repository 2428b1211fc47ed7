"""Lines for servers: our own Python library and the SDKs of other languages, each with its host changed."""

from __future__ import annotations

import shlex

from hookline.features.setup.snippet_texts.quoting import double_quoted, needs_tls, single_quoted, without_scheme

_PYTHON = """import hookline_client as analytics

analytics.init(%s, {"endpoint": %s})
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
