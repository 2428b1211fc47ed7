"""One request and its answer: the head read and checked, the exchange that waits for its turn, and the writing half
of a connection, which answers in the order of the requests and loses none at its end.

What of a head is known from the request before is remembered.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from typing import NamedTuple, Protocol, cast

import msgspec

from hookline.collect.decode import (
    DROP_BYTES_MAX,
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    HEADERS_SECONDS_MAX,
    LINGER_SECONDS_MAX,
    PIPELINED_MAX,
    STALLED_ANSWER_SECONDS_MAX,
    TARGET_BYTES_MAX,
)
from hookline.collect.http.answers import CONTINUE
from hookline.collect.http.clients import Address, Clients
from hookline.collect.http.router import Route
from hookline.connections.model import Source
from hookline.remembered import Remembered

Headers = dict[bytes, bytes]
"""The few headers that are looked at, names in lower case."""
NO_HEADERS: Headers = {}


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

    @property
    def head_bytes(self) -> int:
        """Return how much of the head is kept."""
        return len(self.path) + len(self.query) + sum(map(len, self.headers.values()))

    def let_go(self) -> None:
        """Keep nothing of the head: it may be 64 KB, and the answer may be long in coming."""
        self.path = self.query = b""
        self.headers = NO_HEADERS

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
        b"x-write-key",
    )
)
"""The headers that are looked at; there may be only one of each."""
LISTS = frozenset(
    (
        b"accept-encoding",
        b"if-none-match",
        b"origin",
        b"forwarded",
        b"x-forwarded-for",
        b"x-ip-policy",
        b"upgrade",
        b"traceparent",
    )
)
"""Those of which several make one list (RFC 9110 5.3). Two of ``traceparent`` are none, but refuse no event."""

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
                value = value.rstrip(b" \t")
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


# Where the connection is in what it reads.
IDLE, HEAD, BODY, CLOSING = range(4)


class Outbound(asyncio.Protocol):
    """Holds the transport, the exchanges that await their turn, and the deadline on the clients' clock."""

    __slots__ = (
        "_clients",
        "_dropped_bytes",
        "_peer",
        "_phase",
        "_queue",
        "_reading_paused",
        "_transport",
        "_turn",
        "_unread_bytes",
        "_writing_paused",
        "address",
        "deadline",
        "unproven",
    )

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._transport: asyncio.Transport | None = None
        self._queue: deque[Exchange] = deque()
        self._phase = IDLE
        self._reading_paused = self._writing_paused = False
        self._dropped_bytes = self._unread_bytes = 0
        self.address: Address | None = None
        self.unproven = True
        self._peer: str | None = None
        self._turn: object = None
        self.deadline = clients.now + HEADERS_SECONDS_MAX

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hold the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Forget everything; answers that come later go nowhere."""
        self._note_unread(0)
        self._transport = None
        self._phase = CLOSING
        self._queue.clear()
        self._clients.leave(self)

    @property
    def peer(self) -> str:
        """Return the address at the other end, an IPv4 one as such; empty when it is gone."""
        if self._peer is None:
            found = self._transport.get_extra_info("peername") if self._transport is not None else None
            self._peer = found[0].removeprefix("::ffff:").partition("%")[0] if isinstance(found, tuple) else ""
        return self._peer

    def pause_writing(self) -> None:
        """The client does not read its answers: read no more of its requests, and not for long."""
        self._writing_paused = True
        self._count_unread()
        self.deadline = min(self.deadline, self._clients.now + STALLED_ANSWER_SECONDS_MAX)
        self._pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._writing_paused = False
        self._note_unread(0)
        if self._phase == IDLE:
            self.deadline = math.inf
        self._rest()
        self._resume_reading()

    def turn_of(self, who: object) -> object:
        """Return in whose turn the newest request is taken: that of those before it, so that none passes another."""
        if len(self._queue) <= 1:
            self._turn = None
        self._turn = self._turn or who
        return self._turn

    def flush(self) -> None:
        """Write every answer whose turn has come."""
        transport, queue = self._transport, self._queue
        if transport is None or transport.is_closing():
            return
        while queue:
            exchange = queue[0]
            answer = exchange.answer
            if answer is None:
                if exchange.continue_due:
                    exchange.continue_due = False
                    transport.write(CONTINUE)
                break
            queue.popleft()
            self._clients.counters.requests[answer[9:12]] += 1
            if exchange.close or exchange.legacy or exchange.method == b"HEAD":
                answer = exchange.wire(answer)
            transport.write(answer)
            if self._writing_paused and not self._count_unread():
                return
            if exchange.close:
                queue.clear()
                self._finish(exchange.unread)
                return
        self._rest()
        if self._reading_paused:
            self._resume_reading()

    @property
    def is_idle(self) -> bool:
        """Return whether it has been served and asks for nothing."""
        return self._phase == IDLE and not (self.unproven or self._queue or self._writing_paused)

    @property
    def is_sending(self) -> bool:
        """Return whether a request of it has begun and is not whole."""
        return self._phase in (HEAD, BODY)

    def read_on(self) -> None:
        """Read the next part of what is dropped."""
        self._resume_reading()

    def drain(self) -> None:
        """Close after the answers that are owed; a request being read is still answered."""
        if self._phase == IDLE:
            if self._queue:
                self._phase = CLOSING
                self._queue[-1].close = True
            else:
                self._finish(unread=False)

    def expire(self) -> None:
        """Close what is idle, or already closing and late."""
        if self._phase == IDLE and not self._writing_paused:
            self._finish(unread=False)
        else:
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def _count_unread(self) -> bool:
        """Account for what the client has left unread; close and return False when that is too much."""
        transport = self._transport
        if transport is not None and not self._note_unread(transport.get_write_buffer_size()):
            transport.abort()  # there is no way to say anything to a client that reads nothing
        return transport is not None and not transport.is_closing()

    def _note_unread(self, unread_bytes: int) -> bool:
        """Account for answers that wait to be read; False when there are too many."""
        grown_bytes, self._unread_bytes = unread_bytes - self._unread_bytes, unread_bytes
        return not grown_bytes or self.address is None or self._clients.buffer(self.address, grown_bytes)

    def _rest(self) -> None:
        # Nothing is owed: from now on the client may be idle.
        if self._phase == IDLE and not self._queue and not self._writing_paused:
            self.deadline = self._clients.idle_until

    def _finish(self, unread: bool) -> None:
        transport = self._transport
        self._phase = CLOSING
        if transport is None:
            return
        if unread and transport.can_write_eof():
            # Closing on unread data would reset the connection and could take the answer with it.
            self.deadline = self._clients.now + LINGER_SECONDS_MAX
            transport.write_eof()
            self._resume_reading()
        else:
            self.deadline = self._clients.now + STALLED_ANSWER_SECONDS_MAX
            transport.close()

    def _discard(self, data_bytes: int) -> None:
        if self._dropped_bytes + data_bytes > self._clients.refused_body_bytes_max:
            self._pause_reading()  # until its time is over: who writes no further may still look for the answer
        else:
            self._drop(data_bytes)

    def _drop(self, data_bytes: int) -> None:
        before = self._dropped_bytes
        self._dropped_bytes += data_bytes
        if self._dropped_bytes // DROP_BYTES_MAX != before // DROP_BYTES_MAX:
            self._pause_reading()
            self._clients.wait_to_drop(self)

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        ready = not self._writing_paused and len(self._queue) < PIPELINED_MAX // 2
        if self._reading_paused and ready and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = False
            self._transport.resume_reading()
