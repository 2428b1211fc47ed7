"""Ready-to-paste lines that send a first event to a source, in whatever its SDK is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from hookline.connections.model import BATCH_BYTES_MAX
from hookline.features.setup import snippet_texts
from hookline.settings import Settings, parse_listen

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
    """Where events come from, and the lines for it."""

    title: str
    snippets: list[Snippet]


class _Sdk(NamedTuple):
    title: str
    install: str
    text: Callable[[str, str], str]
    batch_bytes: int = 0


_SDKS = {
    "curl": _Sdk("curl", "", snippet_texts.curl),
    "browser": _Sdk("Browser", "", snippet_texts.browser),
    "pixel": _Sdk("Pixel", "", snippet_texts.pixel),
    "rudder-js": _Sdk(
        "RudderStack JS", "npm install @rudderstack/analytics-js", snippet_texts.rudder_js, BATCH_BYTES_MAX
    ),
    "python": _Sdk("Python", "pip install hookline-client", snippet_texts.python),
    "node": _Sdk("Node.js", "npm install @segment/analytics-node", snippet_texts.node),
    "php": _Sdk("PHP", "composer require segmentio/analytics-php", snippet_texts.php),
    "go": _Sdk("Go", "go get github.com/segmentio/analytics-go/v3", snippet_texts.go),
    "ruby": _Sdk("Ruby", "gem install analytics-ruby", snippet_texts.ruby),
    "java": _Sdk("Java, Kotlin", 'implementation("com.segment.analytics.java:analytics:+")', snippet_texts.java),
    "swift": _Sdk(
        "iOS", '.package(url: "https://github.com/segmentio/analytics-swift", from: "1.0.0")', snippet_texts.swift
    ),
    "android": _Sdk("Android", 'implementation("com.segment.analytics.kotlin:android:+")', snippet_texts.kotlin),
    "react-native": _Sdk("React Native", "npm install @segment/analytics-react-native", snippet_texts.react_native),
}
_PLACES = {
    "web": ("In a web page", ("browser", "pixel", "rudder-js")),
    "server": ("On a server", ("curl", "python", "node", "php", "go", "ruby", "java")),
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
