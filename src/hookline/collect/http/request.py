"""One request: its head read and checked, what of a known head is remembered, and the exchange that waits for its turn
to be answered."""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

import msgspec

from hookline.collect.decode import HEAD_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX
from hookline.collect.http.clients import Address
from hookline.collect.http.router import Route
from hookline.connections.model import Source
from hookline.remembered import Remembered

Headers = dict[bytes, bytes]
"""The few headers that are looked at, names in lower case."""


class Line(Protocol):
    """The connection an exchange belongs to, and whose it is."""

    address: Address | None

    @property
    def peer(self) -> str:
        """Return the address at its other end, empty when it is gone."""

    def flush(self) -> None:
        """Write every answer whose turn has come."""

    def turn_of(self, who: object) -> object:
        """Return in whose turn the newest request is taken: that of those before it which are not answered."""


class Exchange(msgspec.Struct, eq=False):
    """Hold what is known of one request. A struct, because one is made for every request and that has to be quick.

    ``verdict`` is an answer settled before the body has been read. ``legacy`` is HTTP/1.0: a connection that lives on
    must be said to. ``unread``: the client may still be sending when the answer is written.
    """

    line: Line
    method: bytes
    path: bytes
    query: bytes
    headers: Headers
    route: Route | None = None
    source: Source | None = None
    gzipped: bool = False
    body_bytes_max: int = 0
    verdict: bytes | None = None
    answer: bytes | None = None
    legacy: bool = False
    close: bool = False
    unread: bool = False
    continue_due: bool = False

    def respond(self, answer: bytes) -> None:
        """Give the answer; it is written once all earlier requests of the connection have theirs."""
        self.answer = answer
        self.line.flush()

    def wire(self, answer: bytes) -> bytes:
        """Return the answer as this client has to get it."""
        if self.method == b"HEAD":
            answer = answer[: answer.index(b"\r\n\r\n") + 4]
        if self.close:
            return answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        if self.legacy:
            return answer.replace(b"\r\n", b"\r\nConnection: keep-alive\r\n", 1)
        return answer


WANTED = frozenset(
    (
        b"host",
        b"content-length",
        b"transfer-encoding",
        b"authorization",
        b"content-encoding",
        b"expect",
        b"upgrade",
        b"traceparent",
        b"x-write-key",
    )
)
"""The headers that are looked at; there may be only one of each."""
LISTS = frozenset((b"accept-encoding", b"if-none-match", b"origin", b"forwarded", b"x-forwarded-for", b"x-ip-policy"))
"""Those of which several make one list (RFC 9110 5.3)."""

_HOST = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)
_HOSTS_BYTES_MAX = 64 * 1024
_HOST_BYTES_MAX = 512
_LENGTH_DIGITS_MAX = 20
_HEADER_FRAME_BYTES = len(": \r\n")


class RequestHead:
    """A request's head as it comes in; one object serves all requests of a connection in turn."""

    __slots__ = ("_fields", "bytes", "headers", "target")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: a connection that rests keeps nothing of the request before."""
        self.bytes = 0
        self.target = b""
        self.headers: Headers = {}
        self._fields: list[tuple[bytes, bytes]] = []

    def extend_target(self, piece: bytes) -> bool:
        """Take in a piece of the request target; False when it is too long."""
        self.bytes += len(piece)
        self.target += piece
        return self.bytes <= TARGET_BYTES_MAX

    def add(self, name: bytes, value: bytes) -> bool:
        """Take in one header; False when there are too many, or too long ones, before the head has ended."""
        self.bytes += len(name) + len(value) + _HEADER_FRAME_BYTES
        self._fields.append((name, value))
        return self.bytes <= HEAD_BYTES_MAX and len(self._fields) <= HEADERS_MAX

    def judge(self, version: str) -> str | None:
        """Settle ``headers``; return the code that refuses the request, if any."""
        headers = self.headers
        duplicated = False
        for name, value in self._fields:
            name = name.lower()
            if name in WANTED:
                duplicated = duplicated or name in headers
                headers[name] = value.rstrip(b" \t")
            elif name in LISTS:
                headers[name] = headers[name] + b"," + value if name in headers else value
        return "malformed_request" if duplicated else self._fault(version)

    def _fault(self, version: str) -> str | None:
        if version != "1.1" and version != "1.0":
            return "malformed_request" if version == "0.9" else "http_version_not_supported"
        host = self.headers.get(b"host")
        if (host is None and version == "1.1") or (host is not None and not _is_host(host)):
            return "malformed_request"
        if len(self.headers.get(b"content-length", b"")) > _LENGTH_DIGITS_MAX:
            return "malformed_request"  # zeros in front: llhttp takes any number of them, Python's int does not
        coding = self.headers.get(b"transfer-encoding")
        if coding is not None and (coding.lower() != b"chunked" or version == "1.0"):
            return "malformed_request"
        return None if self.target.startswith(b"/") else self._fault_of_absolute()

    def _fault_of_absolute(self) -> str | None:
        """Take a target in absolute form, as a proxy's client sends it, for its path and host (RFC 9112 3.2.2)."""
        found = _ABSOLUTE.match(self.target)
        if found is None or not _is_host(found[1]):
            return "malformed_request"
        self.headers[b"host"] = found[1]
        path = self.target[found.end() :]
        self.target = path if path.startswith(b"/") else b"/" + path
        return None


def _find_is_host(host: bytes) -> bool:
    return _HOST.fullmatch(host) is not None


_is_host = Remembered(_find_is_host, _HOSTS_BYTES_MAX, _HOST_BYTES_MAX).__getitem__


HEADS_KEPT = 1_024
HEAD_BYTES_KEPT = 2 * 1024
HEAD_END = b"\r\n\r\n"

_UNUSUAL = frozenset((b"expect", b"upgrade", b"transfer-encoding", b"traceparent"))


class KnownHead(NamedTuple):
    """Hold what one head came to."""

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
        """Return a new request with this head."""
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
