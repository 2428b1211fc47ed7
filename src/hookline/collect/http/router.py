"""Route the collection paths by an exact table, so that no spelling of a path reaches anything by surprise, and hold
the files that SDKs fetch as finished answers.

Only slashes may be repeated: a host that was given with one at its end makes SDKs post to ``//v1/batch``.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from enum import Enum, auto
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from hookline.collect.decode import BATCH_BYTES_MAX, EVENT_BYTES_MAX
from hookline.collect.http import answers
from hookline.journal.record import MessageType

_GZIP_LEVEL = 9
_TAG_BYTES = 12
_TAG = re.compile(rb'(?:W/)?"([^"]*)"')
_GZIP = re.compile(
    rb"(?:^|,)[ \t]*(?:x-)?gzip[ \t]*(?:;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*)?(?:,|\Z)", re.IGNORECASE
)
"""gzip in an Accept-Encoding, with how much it is wanted."""


class Document:
    """One body with its type and its caching; ``packed`` is for what is worth compressing.

    The answers are made once and shared: a client that asks a thousand times at once costs a thousand references.
    """

    __slots__ = ("_packed", "_plain", "_unchanged")

    def __init__(self, media_type: str, caching: str, body: bytes, *, packed: bool = False) -> None:
        tag = blake2b(body, digest_size=_TAG_BYTES).hexdigest().encode()
        shared = b"Cache-Control: %b\r\n" % caching.encode() + answers.FETCH_HEADERS
        shared += b"Vary: Accept-Encoding\r\n" if packed else b""
        head = b"Content-Type: %b\r\nX-Content-Type-Options: nosniff\r\n" % media_type.encode() + shared
        self._plain = self._packed = _answer(head, tag, body)
        self._unchanged = {tag: _unchanged(shared, tag)}
        if packed:
            tag += b"-gzip"
            head += b"Content-Encoding: gzip\r\n"
            self._packed = _answer(head, tag, gzip.compress(body, _GZIP_LEVEL, mtime=0))
            self._unchanged[tag] = _unchanged(shared, tag)

    def answer(self, headers: Mapping[bytes, bytes]) -> bytes:
        """Return the answer to a GET with these headers."""
        held = headers.get(b"if-none-match")
        if held is not None:
            for tag in _TAG.findall(held):
                if tag in self._unchanged:
                    return self._unchanged[tag]
        return self._packed if _takes_gzip(headers.get(b"accept-encoding", b"")) else self._plain


def _answer(head: bytes, tag: bytes, body: bytes) -> bytes:
    return b'HTTP/1.1 200 OK\r\n%bETag: "%b"\r\nContent-Length: %d\r\n\r\n%b' % (head, tag, len(body), body)


def _unchanged(shared: bytes, tag: bytes) -> bytes:
    return b'HTTP/1.1 304 Not Modified\r\n%bETag: "%b"\r\n\r\n' % (shared, tag)


def _takes_gzip(accepted: bytes) -> bool:
    found = _GZIP.search(accepted)
    return found is not None and (found[1] is None or float(found[1]) > 0)


FOLDER = Path(__file__).parent.parent / "analytics_next"
BUNDLES = tuple(sorted(path.name for path in FOLDER.glob("*.bundle.*.js")))
"""What the SDK loads when it needs it; a name holds the hash of what is in the file."""

HOSTS = (
    (b'"api.segment.io/v1"', b"$hookline.api"),
    (b'"https://cdn.segment.com"', b"$hookline.base"),
    (b'"https://cdn.segment.com/', b'$hookline.base+"/'),
    (b'"https://cdnjs.cloudflare.com/', b'$hookline.base+"/cdnjs/'),
)
"""The literals of standalone.js that name a host it may send something to or load something from."""

_MEDIA_TYPE = "text/javascript; charset=utf-8"
_SCRIPT_CACHING = "public, max-age=3600"
_BUNDLE_CACHING = "public, max-age=31536000, immutable"

# `_cdn` is where the SDK looks for settings and bundles; it finds the place by itself only behind https.
_HEAD = b"""/*! %b %b (%b), from its npm package; $hookline stands for Segment's hosts. */
(function ($hookline) {
"""
_TAIL = b"""
})((function () {
  var script = document.currentScript;
  var found = script && /^(https?:.*)\\/analytics\\.js\\/v1\\//.exec(script.src);
  var base = found ? found[1] : location.origin;
  var named = document.querySelector("script[data-global-segment-analytics-key]");
  var name = (named && named.dataset.globalSegmentAnalyticsKey) || "analytics";
  var analytics = (window[name] = window[name] || []);
  analytics._cdn = analytics._cdn || base;
  return { base: base, api: base.replace(/^https?:\\/\\//, "") + "/v1" };
})());
"""


@cache
def analytics_js() -> Document:
    """Return the SDK itself."""
    package = json.loads((FOLDER / "package.json").read_bytes())
    head = _HEAD % tuple(package[key].encode() for key in ("name", "version", "license"))
    script = (FOLDER / "standalone.js").read_bytes()
    for literal, ours in HOSTS:
        script = script.replace(literal, ours)
    return Document(_MEDIA_TYPE, _SCRIPT_CACHING, head + script + _TAIL, packed=True)


@cache
def bundle(name: str) -> Document:
    """Return one of ``BUNDLES``."""
    return Document(_MEDIA_TYPE, _BUNDLE_CACHING, (FOLDER / name).read_bytes(), packed=True)


class Kind(Enum):
    """Say what a path is for."""

    SINGLE = auto()
    BATCH = auto()
    TELEMETRY = auto()
    PIXEL = auto()
    SETTINGS = auto()
    SOURCE_CONFIG = auto()
    SCRIPT = auto()
    BUNDLE = auto()
    ALIVE = auto()
    READY = auto()


class Route(NamedTuple):
    """A path's purpose; ``type`` is set for one event, ``code_too_large`` is told past ``body_bytes_max``.

    ``maker`` is whom settings are for, as browser SDKs that descend from Segment's call it.
    """

    kind: Kind
    type: MessageType | None = None
    body_bytes_max: int = BATCH_BYTES_MAX
    code_too_large: str = "batch_too_large"
    maker: str = "Segment.io"

    @property
    def collects(self) -> bool:
        """Return whether browsers and SDKs post here."""
        return self.kind in (Kind.SINGLE, Kind.BATCH, Kind.TELEMETRY)

    @property
    def fetched(self) -> bool:
        """Return whether browsers and SDKs get something here."""
        return self.kind in (Kind.PIXEL, Kind.SETTINGS, Kind.SOURCE_CONFIG, Kind.SCRIPT, Kind.BUNDLE)


_SINGLES: dict[str, MessageType] = {
    "identify": "identify",
    "track": "track",
    "page": "page",
    "screen": "screen",
    "group": "group",
    "alias": "alias",
    "i": "identify",
    "t": "track",
    "p": "page",
    "s": "screen",
    "g": "group",
    "a": "alias",
}


_RUDDER_PIXELS = ("track", "page")
_SEGMENT, _JUNE, _JITSU = "/v1", "/sdk", ("/api/s", "/api/s/s2s")
"""Where each maker's SDKs post to: June's are Segment's under another name."""
SERVER_ONLY = b"/api/s/s2s/"
"""Jitsu's path for servers: a browser's address is never meant there."""

_SLASHES = re.compile(rb"/{2,}")


def _table() -> dict[bytes, Route]:
    routes: dict[str, Route] = {}
    for name, type_ in _SINGLES.items():
        single = Route(Kind.SINGLE, type_, EVENT_BYTES_MAX, "event_too_large")
        routes[f"{_SEGMENT}/{name}"] = routes[f"{_JUNE}/{name}"] = single
        if name == type_:
            routes.update({f"{folder}/{name}": single for folder in _JITSU})
    for folder in (_SEGMENT, _JUNE):
        routes.update({f"{folder}/{name}": Route(Kind.BATCH) for name in ("batch", "import", "b")})
        routes[f"{folder}/m"] = Route(Kind.TELEMETRY)
    routes["/beacon/v1/batch"] = Route(Kind.BATCH)
    for type_ in _SINGLES.values():
        pixel = Route(Kind.PIXEL, type_, EVENT_BYTES_MAX, "event_too_large")
        routes[f"/v1/pixel/{type_}"] = pixel
        if type_ in _RUDDER_PIXELS:
            routes[f"/pixel/v1/{type_}"] = pixel
    routes["/sourceConfig"] = Route(Kind.SOURCE_CONFIG)
    routes["/healthz"] = Route(Kind.ALIVE)
    routes["/readyz"] = Route(Kind.READY)
    table = {spelling.encode(): route for path, route in routes.items() for spelling in (path, path + "/")}
    table.update({f"/analytics-next/bundles/{name}".encode(): Route(Kind.BUNDLE) for name in BUNDLES})
    return table


ROUTES: dict[bytes, Route] = _table()
"""Every path that holds no write key, with and without one trailing slash where calls go."""

_SETTINGS = {
    "/v1/projects/": Route(Kind.SETTINGS),
    "/projects/": Route(Kind.SETTINGS),
    "/customerio/v1/projects/": Route(Kind.SETTINGS, maker="Customer.io Data Pipelines"),
    "/june/v1/projects/": Route(Kind.SETTINGS, maker="june.so"),
}
"""An SDK does not say whose it is, so the address that it is given has to."""

KEYED: tuple[tuple[bytes, bytes, Route], ...] = (
    *(
        (before.encode(), behind, route)
        for before, route in _SETTINGS.items()
        for behind in (b"/settings", b"/settings/")
    ),
    (b"/analytics.js/v1/", b"/analytics.min.js", Route(Kind.SCRIPT)),
)
"""What stands before and behind the write key in a path that holds one."""


def keyed(path: bytes) -> tuple[Route, bytes] | None:
    """Return the route of a path that holds a write key, and the key as it is written there."""
    for before, behind, route in KEYED:
        if path.startswith(before) and path.endswith(behind) and len(path) > len(before) + len(behind):
            return route, path[len(before) : -len(behind)]
    return None


def with_single_slashes(path: bytes) -> bytes:
    """Return a path with one slash wherever it has several."""
    return _SLASHES.sub(b"/", path)


def split(target: bytes) -> tuple[bytes, bytes]:
    """Return a request target's path and query; nothing is decoded."""
    path, _, query = target.partition(b"?")
    return path, query
