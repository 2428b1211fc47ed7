"""Request heads that were judged before: an SDK sends the same one, to the byte, with nearly every request.

A head is remembered only when the strict parser took it whole, with nothing unusual in it. A request in one piece with
exactly such a head, and exactly its Content-Length of body, needs no second parsing.
"""

from __future__ import annotations

from typing import NamedTuple

from hookline.collect.exchange import Exchange, Headers, Line
from hookline.collect.router import Route
from hookline.connections.model import Source

HEADS_KEPT = 1_024
HEAD_BYTES_KEPT = 2 * 1024
HEAD_END = b"\r\n\r\n"

_UNUSUAL = frozenset((b"expect", b"upgrade", b"transfer-encoding", b"traceparent"))


class KnownHead(NamedTuple):
    """What one head came to."""

    method: bytes
    path: bytes
    query: bytes
    headers: Headers
    route: Route
    source: Source | None
    gzipped: bool
    body_bytes_max: int
    body_bytes: int

    def exchange(self, line: Line) -> Exchange:
        """A new request with this head."""
        method, path, query, headers, route, source, gzipped, body_bytes_max, _ = self
        return Exchange(line, method, path, query, headers, route, source, gzipped, body_bytes_max)


class KnownHeads:
    """Heads by their bytes; to be emptied when sources or write keys change."""

    __slots__ = ("_heads", "get")

    def __init__(self) -> None:
        self._heads: dict[bytes, KnownHead] = {}
        self.get = self._heads.get

    def forget(self) -> None:
        """The judgements no longer hold."""
        self._heads.clear()

    def remember(self, data: bytes, exchange: Exchange, body_bytes: int) -> None:
        """Keep the head of a request that came as ``data``, if there is nothing unusual in it."""
        end = len(data) - body_bytes
        ordinary = (
            exchange.verdict is None
            and exchange.route is not None
            and not (exchange.close or exchange.legacy or _UNUSUAL & exchange.headers.keys())
            and exchange.headers.get(b"content-length") == b"%d" % body_bytes
            and len(HEAD_END) < end <= HEAD_BYTES_KEPT
            and data.find(HEAD_END) + len(HEAD_END) == end
        )
        if not ordinary or exchange.route is None:
            return
        if len(self._heads) >= HEADS_KEPT:
            self._heads.clear()
        self._heads[data[:end]] = KnownHead(
            exchange.method,
            exchange.path,
            exchange.query,
            exchange.headers,
            exchange.route,
            exchange.source,
            exchange.gzipped,
            exchange.body_bytes_max,
            body_bytes,
        )
