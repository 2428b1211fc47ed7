"""Ready-to-paste lines that send a first event to a source: curl, and the SDKs people already have."""

from __future__ import annotations

import json
import shlex
from typing import NamedTuple
from urllib.parse import urlsplit

from hookline.settings import Settings, parse_listen

WILDCARD_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Snippet(NamedTuple):
    """Text to paste; ``install`` is the line that gets the library, empty when there is none."""

    id: str
    title: str
    install: str
    text: str


def of_source(write_key: str, url: str) -> list[Snippet]:
    """The lines for one write key. The key is quoted for each language: it may hold any printable character."""
    return [
        Snippet("curl", "curl", "", _curl(write_key, url)),
        Snippet("python", "Python", "pip install segment-analytics-python", _python(write_key, url)),
        Snippet("javascript", "JavaScript", "npm install @segment/analytics-node", _javascript(write_key, url)),
    ]


def collect_url(settings: Settings) -> str:
    """Where events are sent to: the public address, else the one listened on."""
    if settings.collect.public_url:
        return settings.collect.public_url.rstrip("/")
    return url_of(settings.collect.listen)


def url_of(listen: str) -> str:
    """The address of a listening socket as this machine reaches it."""
    host, port = parse_listen(listen)
    host = WILDCARD_HOSTS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _curl(write_key: str, url: str) -> str:
    event = '{"userId": "u1", "event": "Signed Up", "properties": {"plan": "pro"}}'
    return f"curl -u {shlex.quote(write_key + ':')} {shlex.quote(url + '/v1/track')} \\\n  -d '{event}'"


def _python(write_key: str, url: str) -> str:
    return "\n".join(
        (
            "import segment.analytics as analytics",
            "",
            f"analytics.write_key = {json.dumps(write_key)}",
            f"analytics.host = {json.dumps(url)}",
            'analytics.track("u1", "Signed Up", {"plan": "pro"})',
            "analytics.flush()",
        )
    )


def _javascript(write_key: str, url: str) -> str:
    return "\n".join(
        (
            "import { Analytics } from '@segment/analytics-node'",
            "",
            f"const analytics = new Analytics({{ writeKey: {json.dumps(write_key)}, host: {json.dumps(url)} }})",
            "analytics.track({ userId: 'u1', event: 'Signed Up', properties: { plan: 'pro' } })",
            "await analytics.closeAndFlush()",
        )
    )


def host_of(url: str) -> str:
    """The host of a receiver URL, for people; the URL itself may hold a token in its path."""
    try:
        return urlsplit(url).netloc or url
    except ValueError:
        return url
