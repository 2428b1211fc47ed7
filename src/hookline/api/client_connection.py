"""Hold one client's connection to control: uvicorn's own, with bounds on what it lacks them for.

Everything here happens before anybody is known to call: how much of a request is kept while it arrives, how long it may
take, and who has to go when there are too many connections. What a request means is the application's business.
"""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from http import HTTPStatus
from typing import Any, Literal

import httptools

from hookline.api.problem import MEDIA_TYPE, Problem, render
from hookline.client_address import HandedOn, network_of

if "uvicorn" not in sys.modules and (found := importlib.util.find_spec("uvicorn")) is not None:
    sys.modules["uvicorn"] = importlib.util.module_from_spec(found)

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import Server, ServerState

setattr(sys.modules["uvicorn"], "Config", Config)  # noqa: B010 - a module has no such field to a type checker

__all__ = ["Config", "HttpToolsProtocol", "Server", "ServerState"]


CONNECTIONS_MAX = 512
HEAD_BYTES_MAX = 32 * 1024
"""Target, names and values, trailers of the body included, and four bytes per line; proxies in front take no more."""
LINES_MAX = 100
SILENT_BYTES_MAX = 64 * 1024
"""Of what the parser keeps or passes over without a word: the beginning of a line, empty lines, chunk extensions."""
PIPELINED_MAX = 16
"""Requests of one connection that wait for the answer to another one; browsers send none before they have it."""

HEAD_SECONDS_MAX = 10.0
BODY_SECONDS_MAX = 30.0
BODY_BYTES_PER_SECOND_MIN = 64 * 1024
"""A body may take longer than that if it arrives so fast: a connections file may have 18 MB."""
UNREAD_SECONDS_MAX = 30.0
"""How long a client may take nothing of an answer."""
LINGER_SECONDS_MAX = 2.0
"""How long what a refused client still sends is read and dropped, so that it can see its answer."""

Reason = Literal["malformed", "head_too_large", "too_slow", "shed", "full"]
"""Why a connection was ended that nobody asked to end; ``shed`` made room for another one."""


class Turn(Enum):
    """Whom the connection waits for: the client, for a head or the rest of a body, or us."""

    HEAD = 0
    BODY = 1
    OURS = 2
    IDLE = 3
    REFUSED = 4


_RESET = struct.pack("ii", 1, 0)
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))

MALFORMED = Problem(400, "malformed_request", "This is not an HTTP request, or it has an unusual form.")
TOO_LARGE = Problem(
    431, "head_too_large", f"The request's head is too large: {LINES_MAX} lines, {HEAD_BYTES_MAX // 1024} KB in all."
)
TOO_SLOW = Problem(408, "request_timeout", "The request took too long to arrive: 10 s for the head, 30 s for the body.")
FULL = Problem(503, "too_many_connections", f"All {CONNECTIONS_MAX} connections are in use; try again in a moment.")


class _TooLarge(Exception):
    """Raised within the parser, which ends with it."""


class Clients:
    """All connections of the server; a sweep once a second ends those that take too long."""

    def __init__(
        self, refused: Counter[str], idle_seconds_max: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.refused = refused
        self.idle_seconds_max = idle_seconds_max
        self.seconds_max = {
            Turn.HEAD: HEAD_SECONDS_MAX,
            Turn.IDLE: idle_seconds_max + HEAD_SECONDS_MAX,  # uvicorn ends it sooner, unless something arrives
            Turn.REFUSED: LINGER_SECONDS_MAX,
        }
        self.are_leaving = False
        """Whether every answer is its connection's last."""
        self.clock = clock
        self._connections: set[ClientConnection] = set()

    def connect(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> ClientConnection:
        """Return the protocol of a new connection, as uvicorn asks for one."""
        return ClientConnection(self, config, server_state, app_state, _loop)

    def enter(self, connection: ClientConnection) -> None:
        """Take a connection in. When there are too many, one that is waited for makes room.

        It is the one that is waited for longest of the address that has most, so that nobody's silence keeps others
        out. Those that we serve stay.
        """
        self._connections.add(connection)
        if len(self._connections) <= CONNECTIONS_MAX:
            return
        per_network = Counter(each.network for each in self._connections)
        waited_for = [each for each in self._connections if each.is_waited_for and each is not connection]
        if waited_for:
            max(waited_for, key=lambda each: (per_network[each.network], -each.since)).end("shed")
        else:
            connection.refuse(FULL, "full")

    def leave(self, connection: ClientConnection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)

    def sweep(self) -> None:
        """End what takes too long."""
        now = self.clock()
        for connection in list(self._connections):
            connection.hold_to_time(now)


class ClientConnection(HttpToolsProtocol):
    """The transport's protocol and the parser's callbacks; what is not here is uvicorn's."""

    def __init__(
        self,
        clients: Clients,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.network = ""
        self.since = 0.0
        self._clients = clients
        self._turn = Turn.HEAD
        self._is_head = False
        self._is_declining = False
        """Whether what is parsed is the head of an offered upgrade, or stands for it."""
        self._head_bytes = self._lines = self._silent_bytes = self._body_bytes = self._unread_bytes = 0
        self._unread_since = 0.0

    @property
    def is_waited_for(self) -> bool:
        """Return whether it is the client's turn: to send something, or to read what it was answered."""
        return self._turn is not Turn.OURS or self.flow.write_paused

    # The transport's side.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection in."""
        super().connection_made(transport)
        if isinstance(transport, HandedOn):
            self.client = transport.peer  # uvicorn asks the socket itself
        self.network = network_of(self.client[0]) if self.client else ""
        self.since = self._clients.clock()
        self._clients.enter(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Forget everything: the exchange holds this object, and both would wait for the collector."""
        super().connection_lost(error)
        self._clients.leave(self)
        self.pipeline.clear()
        self.cycle = self.scope = self.headers = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Feed the parser and hold what it keeps against the bounds."""
        if self._turn is Turn.REFUSED:
            return
        self._unset_keepalive_if_required()
        self._silent_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _TooLarge):
                self.refuse(TOO_LARGE, "head_too_large")
            else:
                self.refuse(MALFORMED, "malformed")
            return
        if self._silent_bytes > SILENT_BYTES_MAX:
            self.refuse(TOO_LARGE, "head_too_large")

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade()
            self._feed(data[upgrade.args[0] :])  # no deeper than requests may be pipelined

    def _decline_upgrade(self) -> None:
        # Java's client offers h2c with its calls, and a server may ignore that (RFC 9110 7.8). llhttp cannot: it would
        # take the body for the next request. A fresh parser is given the body's framing alone, and goes on behind it.
        framing = [header for header in self.headers if header[0] in _FRAMING]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        self._feed(b"POST / HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % header for header in framing) + b"\r\n")

    # The parser's side.

    def on_message_begin(self) -> None:
        """A request line begins."""
        if self._is_declining:
            return
        self._is_head = True
        self._silent_bytes = self._head_bytes = self._lines = self._body_bytes = 0
        super().on_message_begin()
        if self._turn is Turn.IDLE:
            self._take_turn(Turn.HEAD)

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        if self._is_head:
            self._count(len(url))
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One line of the head; trailers are passed over, or they would stand for what a proxy in front has checked."""
        self._lines += 1
        self._count(len(name) + len(value) + 4)
        if self._is_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A head is whole."""
        if self._is_declining:
            self._is_declining = False
            return
        if len(self.pipeline) >= PIPELINED_MAX:
            raise _TooLarge
        self._silent_bytes = 0
        self._is_head = False
        self._is_declining = self.parser.should_upgrade()
        super().on_headers_complete()
        if self._clients.are_leaving:
            self.cycle.keep_alive = False
        self._take_turn(Turn.BODY)

    def on_chunk_header(self) -> None:
        """A chunk begins."""
        self._silent_bytes = 0

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._silent_bytes = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        if self._is_declining:
            return  # llhttp has passed over the body
        self._silent_bytes = 0
        super().on_message_complete()
        self._take_turn(Turn.IDLE if self.cycle.response_complete else Turn.OURS)

    def _count(self, size: int) -> None:
        self._silent_bytes = 0
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES_MAX or self._lines > LINES_MAX:
            raise _TooLarge

    # The answers' side.

    def on_response_complete(self) -> None:
        """An answer is written; when its request was not whole, the rest of that is still waited for."""
        if self._turn is Turn.OURS and not self.pipeline:
            self._take_turn(Turn.IDLE)
        super().on_response_complete()

    def hold_to_time(self, now: float) -> None:
        """End the connection if the client takes too long."""
        unread = self.transport.get_write_buffer_size()
        if unread < self._unread_bytes or not self._unread_bytes:
            self._unread_since = now
        self._unread_bytes = unread
        if unread:
            if now - self._unread_since > UNREAD_SECONDS_MAX:
                self.end("too_slow")
        elif self._is_late(now):
            answers = self._turn is Turn.BODY or (self._turn is Turn.HEAD and self._head_bytes + self._silent_bytes)
            if answers and not (self.cycle and self.cycle.response_started and not self.cycle.response_complete):
                self.refuse(TOO_SLOW, "too_slow")
            else:
                self.end("too_slow")

    def _is_late(self, now: float) -> bool:
        if self._turn is Turn.BODY:
            if self.flow.read_paused:
                return False  # it is we who do not read
            return now - self.since > BODY_SECONDS_MAX + self._body_bytes / BODY_BYTES_PER_SECOND_MIN
        seconds_max = self._clients.seconds_max.get(self._turn)
        return seconds_max is not None and now - self.since > seconds_max

    def _take_turn(self, turn: Turn) -> None:
        self._turn, self.since = turn, self._clients.clock()

    # Ending.

    def refuse(self, problem: Problem, reason: Reason) -> None:
        """Answer with a problem and close, where that cannot be taken for the answer to another request."""
        exchange = self.cycle if self._turn is Turn.BODY else None
        if self._turn is Turn.OURS or self.pipeline or (exchange is not None and exchange.response_started):
            self.end(reason)
            return
        if exchange is not None:  # it waits for a body that does not come
            exchange.disconnected = True
            exchange.message_event.set()
        self._clients.refused[reason] += 1
        self._unset_keepalive_if_required()
        body = render(problem, "")
        head = f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.write_eof()
        self._take_turn(Turn.REFUSED)

    def end(self, reason: Reason) -> None:
        """Close without a word; what was not read is not kept for later."""
        if self._turn is not Turn.REFUSED:
            self._clients.refused[reason] += 1
        self._clients.leave(self)  # at once: of many that arrive together, each needs a place of its own
        if self.transport.get_write_buffer_size():
            with suppress(OSError):
                self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()
