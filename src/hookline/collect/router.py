"""The collection paths: an exact table, so that no spelling of a path reaches anything by surprise."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from hookline.collect.limits import BATCH_BYTES_MAX, EVENT_BYTES_MAX
from hookline.journal.record import MessageType


class Kind(Enum):
    """What a path is for."""

    SINGLE = auto()
    BATCH = auto()
    TELEMETRY = auto()
    ALIVE = auto()
    READY = auto()


class Route(NamedTuple):
    """A path's purpose; ``type`` is set for single calls, ``code_too_large`` is told past ``body_bytes_max``."""

    kind: Kind
    type: MessageType | None = None
    body_bytes_max: int = BATCH_BYTES_MAX
    code_too_large: str = "batch_too_large"

    @property
    def collects(self) -> bool:
        """Whether browsers and SDKs post here."""
        return self.kind in (Kind.SINGLE, Kind.BATCH, Kind.TELEMETRY)


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


def _table() -> dict[bytes, Route]:
    routes = {
        f"/v1/{name}": Route(Kind.SINGLE, type_, EVENT_BYTES_MAX, "event_too_large") for name, type_ in _SINGLES.items()
    }
    routes.update({f"/v1/{name}": Route(Kind.BATCH) for name in ("batch", "import", "b")})
    routes["/v1/m"] = Route(Kind.TELEMETRY)
    routes["/healthz"] = Route(Kind.ALIVE)
    routes["/readyz"] = Route(Kind.READY)
    return {spelling.encode(): route for path, route in routes.items() for spelling in (path, path + "/")}


ROUTES: dict[bytes, Route] = _table()
"""Every path, with and without one trailing slash."""


def split(target: bytes) -> tuple[bytes, bytes]:
    """A request target's path and query; nothing is decoded."""
    path, _, query = target.partition(b"?")
    return path, query
