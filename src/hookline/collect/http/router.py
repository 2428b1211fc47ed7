"""The collection paths: an exact table, so that no spelling of a path reaches anything by surprise.

Only slashes may be repeated: a host that was given with one at its end makes SDKs post to ``//v1/batch``.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from hookline.collect.http.sdk_files import BUNDLES
from hookline.collect.limits import BATCH_BYTES_MAX, EVENT_BYTES_MAX
from hookline.journal.record import MessageType


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
