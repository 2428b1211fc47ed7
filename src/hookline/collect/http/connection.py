"""One client's connection, reading half: HTTP/1.1 taken strictly and within bounds, one exchange per request.

llhttp (through httptools) does the parsing and refuses what could be smuggled; ``request_head`` adds what it does not.
What a request means is the intake's business.
"""

from __future__ import annotations

import asyncio
import math

import httptools

from hookline.collect import decode
from hookline.collect.http.answers import BY_CODE
from hookline.collect.http.clients import Clients
from hookline.collect.http.request import (
    BODY,
    CLOSING,
    HEAD,
    HEAD_END,
    IDLE,
    Exchange,
    KnownHead,
    Outbound,
    RequestHead,
)
from hookline.collect.http.router import split
from hookline.collect.intake import Intake
from hookline.telemetry.log import logger

_CR = 0x0D
_LF = 0x0A
_WRONG_VERSION = ("Invalid HTTP version", "Pause on PRI/Upgrade")


class Connection(Outbound):
    """The transport's protocol and the parser's callbacks."""

    __slots__ = (
        "_after_cr",
        "_body",
        "_chunks",
        "_exchange",
        "_fed_bytes",
        "_head",
        "_held",
        "_intake",
        "_is_reading_soon",
        "_ordinal",
        "_parser",
        "_reserved_bytes",
        "_shared_bytes",
        "_size",
        "_whole",
    )

    def __init__(self, clients: Clients, intake: Intake) -> None:
        super().__init__(clients)
        self._intake = intake
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._head = RequestHead()
        self._ordinal = 0
        self._after_cr = False
        """Whether the last thing heard is a CR between requests: an empty line there is passed over (RFC 9112 2.2)."""
        self._fed_bytes = self._shared_bytes = self._size = self._chunks = self._reserved_bytes = 0
        self._exchange: Exchange | None = None
        self._held = b""
        """What was received and waits until answers are no longer behind; the transport is paused meanwhile."""
        self._is_reading_soon = False
        self._body: bytes | bytearray = b""
        self._whole: bytes | None = None
        """What was received while idle: if it turns out to be one whole request, its head may be remembered."""

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection in, or say that there are too many."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        if not self._clients.enter(self, peer[0] if peer else ""):
            self._refuse("too_many_connections")
            transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget everything; answers that come later go nowhere."""
        self._parser = None  # the parser holds this object: without this the pair would wait for the collector
        self._release()
        self._hold(b"")
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Feed the parser and hold what came of it against the bounds."""
        self._whole = None
        if self._phase == IDLE and not self._queue:
            end = data.find(HEAD_END) + len(HEAD_END)
            intake = self._intake
            known = intake.known_heads.get(data[:end])
            if known is not None and len(data) - end == known.body_bytes and intake.takes:
                self._take_known(known, data[end:])
                return
            self._whole = data
        elif self._phase == CLOSING:
            self._discard(len(data))
            return
        if len(data) <= decode.FEED_BYTES or self._is_one(data):
            self._read(data)
        else:
            self._read_in_parts(data)
        if len(self._queue) >= decode.PIPELINED_MAX:
            self._pause_reading()

    def eof_received(self) -> bool:
        """Return the client will send no more; answer what it has asked."""
        if self._phase == HEAD or self._phase == BODY:
            self._refuse("incomplete_body" if self._phase == BODY else "malformed_request", unread=False)
        else:
            self.drain()
        return bool(self._queue)

    def expire(self) -> None:
        """Close: with 408 when a request is late, without a word when nothing was asked."""
        if (self._phase == HEAD or self._phase == BODY) and not self._writing_paused:
            self._refuse("request_timeout")
        else:
            super().expire()

    # The parser's side. It goes on calling to the end of what it was fed, also after a refusal.

    def on_message_begin(self) -> None:
        """A request line begins."""
        if self._phase == IDLE:
            self._phase = HEAD
            self._ordinal += 1
            self._fed_bytes = self._shared_bytes = self._size = self._chunks = self._dropped_bytes = 0
            self.deadline = self._clients.now + decode.HEADERS_SECONDS_MAX

    def on_url(self, piece: bytes) -> None:
        """A piece of the request target."""
        if self._phase == HEAD:
            within = self._head.extend_target(piece)
            if not within:
                self._refuse("headers_too_large")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; trailers are passed over."""
        if self._phase == HEAD:
            within = self._head.add(name, value)
            if not within:
                self._refuse("headers_too_large")

    def on_headers_complete(self) -> None:
        """Settle what the head alone decides."""
        parser = self._parser
        if self._phase != HEAD or parser is None:
            return
        version, method = parser.get_http_version(), parser.get_method()
        code = self._head.judge(version)
        if code is None and method == b"CONNECT":
            code = "malformed_request"  # a path is no target for it, and llhttp takes no further request after one
        if code is not None:
            self._refuse(code)
            return
        path, query = split(self._head.target)
        exchange = Exchange(self, method, path, query, self._head.headers)
        exchange.legacy = version == "1.0"
        self._exchange = exchange
        self._queue.append(exchange)
        self._phase = BODY
        self.deadline = self._clients.now + decode.BODY_SECONDS_MAX
        self._intake.screen(exchange)
        behind = self._writing_paused or len(self._queue) > decode.PIPELINED_MAX
        if behind and exchange.route is not None and exchange.route.fetched:
            exchange.verdict = BY_CODE["overloaded"]  # else all the files it does not read would wait in memory
            self._answer_unread(exchange)
        else:
            self._settle_length(exchange)

    def on_chunk_header(self) -> None:
        """A chunk of a body whose length is not known begins."""
        self._chunks += 1

    def on_body(self, piece: bytes) -> None:
        """Keep a piece of the body while it is within its limit; past it, read on without keeping any, then close.

        Who sends is answered once all is read: many look for no answer before, and what is closed before that is
        reported as a failure of ours by what stands in between (RFC 9112 9.6).
        """
        exchange = self._exchange
        if self._phase != BODY or exchange is None:
            return
        self._size += len(piece)
        if exchange.verdict is None:
            if self._size <= exchange.body_bytes_max:
                self._gather(piece)
                return
            self._too_large(exchange)
        if self._size > exchange.body_bytes_max + decode.DRAIN_BYTES_MAX:
            if self._size > self._clients.refused_body_bytes_max:
                self._answer_unread(exchange)
            else:
                self.deadline = min(self.deadline, self._clients.now + decode.LINGER_SECONDS_MAX)
                self._drop(len(piece))

    def on_message_complete(self) -> None:
        """The request is whole: hand it on."""
        parser, exchange = self._parser, self._exchange
        if self._phase != BODY or exchange is None or parser is None:
            return
        if b"upgrade" in exchange.headers and parser.should_upgrade():
            return  # llhttp has passed over the body; see _decline_upgrade
        body = bytes(self._body)
        self._exchange = None
        self._release()
        if self.unproven:
            self._clients.prove(self)
        self._clients.counters.body_bytes += self._size
        if not self._writing_paused:  # whoever leaves answers unread has a deadline already
            self.deadline = math.inf
        if self._clients.draining or not parser.should_keep_alive():
            exchange.close = True
            self._phase = CLOSING
        else:
            self._phase = IDLE
        if self._whole is not None:
            self._intake.known_heads.remember(self._whole, exchange, len(body))
            self._whole = None
        if exchange.verdict is not None:
            exchange.let_go()
            exchange.respond(exchange.verdict)
        else:
            self._intake.take(exchange, body)

    # Private.

    @property
    def _missing_bytes(self) -> int:
        """Return how many bytes the body that is being read still needs; 0 when that is not known."""
        if self._phase != BODY or self._exchange is None:
            return 0
        return max(0, int(self._exchange.headers.get(b"content-length", 0)) - self._size)

    def _is_one(self, data: bytes) -> bool:
        """Return whether nothing can be behind the request that is being read, or begins here."""
        if self._phase == BODY:
            return self._missing_bytes >= len(data)
        # Without a CR behind the first head there is no second one.
        return self._whole is not None and data.find(_CR, data.find(HEAD_END) + len(HEAD_END)) < 0

    def _read_in_parts(self, data: bytes) -> None:
        """Read on until too many requests are unanswered, or answers unread; hold the rest until that is over.

        The rest waits for the next turn of the loop as well once many requests have ended in this one.
        """
        ordinal, start = self._ordinal, 0
        while start < len(data):
            is_behind = self._writing_paused or len(self._queue) >= decode.PIPELINED_MAX
            is_enough = is_behind or self._ordinal - ordinal >= decode.PIPELINED_MAX
            if is_enough and self._phase == IDLE:  # a request that has begun has a deadline
                self._pause_reading()
                self._hold(data[start:])
                if not is_behind:
                    self._resume_reading()
                return
            if self._phase == CLOSING:
                break
            part_bytes = self._part_bytes(data, start)
            self._read(data[start : start + part_bytes])
            start += part_bytes
        self._hold(b"")

    def _part_bytes(self, data: bytes, start: int) -> int:
        """Return how much of what was received to read before looking again: one head, or what is left of a body."""
        if self._phase == BODY:
            return self._missing_bytes or decode.FEED_BYTES
        end = data.find(HEAD_END, start, start + decode.FEED_BYTES)
        return decode.FEED_BYTES if end < 0 else end + len(HEAD_END) - start

    def _hold(self, data: bytes) -> None:
        grown_bytes, self._held = len(data) - len(self._held), data
        if grown_bytes and self.address is not None and not self._clients.buffer(self.address, grown_bytes):
            self._refuse("overloaded")

    def _resume_reading(self) -> None:
        if not self._held:
            super()._resume_reading()
        elif not self._is_reading_soon:
            self._is_reading_soon = True
            asyncio.get_running_loop().call_soon(self._read_held)

    def _read_held(self) -> None:
        self._is_reading_soon = False
        if self._writing_paused or len(self._queue) >= decode.PIPELINED_MAX // 2:
            return
        data = self._held
        if data:
            self._read_in_parts(data)
        if not self._held:
            super()._resume_reading()

    def _read(self, data: bytes) -> None:
        ordinal, was_idle = self._ordinal, self._phase == IDLE
        if was_idle and data[0] == _LF and not self._after_cr:
            self._refuse("malformed_request")  # llhttp would pass over a bare LF here
            return
        self._feed(data)
        self._after_cr = self._phase == IDLE and data[-1] == _CR
        if self._phase == HEAD or self._phase == BODY:
            if self._ordinal == ordinal or (was_idle and self._ordinal == ordinal + 1):
                self._fed_bytes += len(data)
            else:
                self._shared_bytes = len(data)  # how much of it is this request's, nobody says
            self._hold_to_bounds()

    def _take_known(self, known: KnownHead, body: bytes) -> None:
        """Do what the parser's callbacks come to, for a whole request whose head they have judged before."""
        exchange = known.exchange(self)
        self._ordinal += 1
        self._queue.append(exchange)
        if self.unproven:
            self._clients.prove(self)
        self._clients.counters.body_bytes += len(body)
        if self._clients.draining:
            exchange.close = True
            self._phase = CLOSING
        self.deadline = math.inf
        self._intake.take(exchange, body)

    def _feed(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            return
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._phase == BODY:
                self._decline_upgrade()
                self._feed(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            logger().error("connection_failed", exc_info=error.__context__ or error)
            self.abort()
        except httptools.HttpParserError as error:
            wrong_version = str(error).startswith(_WRONG_VERSION)
            self._refuse("http_version_not_supported" if wrong_version else "malformed_request")

    def _decline_upgrade(self) -> None:
        # Java's client offers h2c on every POST, and a server may ignore it (RFC 9110 7.8); llhttp cannot. A fresh
        # parser is told the body's framing alone; its head callbacks are passed over, because the phase is BODY.
        headers = self._head.headers
        headers.pop(b"upgrade", None)
        self._parser = httptools.HttpRequestParser(self)
        if b"transfer-encoding" in headers:
            framing = b"Transfer-Encoding: chunked"
        else:
            framing = b"Content-Length: " + headers.get(b"content-length", b"0")
        self._feed(b"POST / HTTP/1.1\r\nConnection: close\r\n" + framing + b"\r\n\r\n")

    def _settle_length(self, exchange: Exchange) -> None:
        length = int(exchange.headers.get(b"content-length", 0))
        if exchange.verdict is None and length > exchange.body_bytes_max:
            self._too_large(exchange)
        expect = exchange.headers.get(b"expect")
        if expect is not None and not exchange.legacy:
            if expect.lower() != b"100-continue":
                exchange.verdict = BY_CODE["expectation_failed"]
            if exchange.verdict is not None:
                self._answer_unread(exchange)
            else:
                exchange.continue_due = True
                self.flush()
        elif length > max(self._clients.refused_body_bytes_max, exchange.body_bytes_max + decode.DRAIN_BYTES_MAX):
            self._answer_unread(exchange)

    def _gather(self, piece: bytes) -> None:
        # Most bodies come in one piece. A list of pieces would let two-byte chunks cost forty bytes each.
        if not self._body:
            self._body = piece
        elif isinstance(self._body, bytearray):
            self._body += piece
        else:
            self._body = bytearray(self._body) + piece

    def _too_large(self, exchange: Exchange) -> None:
        assert exchange.route is not None, "a request without a route has a verdict"
        exchange.verdict = BY_CODE[exchange.route.code_too_large]
        self._body = b""

    def _answer_unread(self, exchange: Exchange) -> None:
        if exchange.verdict is not None:
            self._phase = CLOSING
            exchange.close = exchange.unread = True
            exchange.let_go()
            self.deadline = self._clients.now + decode.STALLED_ANSWER_SECONDS_MAX
            exchange.respond(exchange.verdict)

    def _refuse(self, code: str, unread: bool = True) -> None:
        if self._phase == CLOSING:
            return
        exchange = self._exchange
        if exchange is None:
            exchange = Exchange(self, b"", b"", b"", {})
            self._queue.append(exchange)
        self._exchange = None
        self._phase = CLOSING
        self._release()
        exchange.close = True
        exchange.unread = unread
        exchange.let_go()
        self.deadline = self._clients.now + decode.STALLED_ANSWER_SECONDS_MAX
        exchange.respond(exchange.verdict or BY_CODE[code])

    def _hold_to_bounds(self) -> None:
        if self._phase == HEAD:
            if self._fed_bytes > decode.HEAD_BYTES_MAX + decode.HEAD_FRAME_BYTES_MAX:
                self._refuse("headers_too_large")
            else:
                self._reserve(self._fed_bytes + self._shared_bytes)
            return
        framing = self._fed_bytes - self._size - self._chunks * decode.CHUNK_FRAME_BYTES
        if framing > decode.CHUNK_OVERHEAD_BYTES_MAX + decode.HEAD_BYTES_MAX:
            self._refuse("malformed_request")
            return
        self._reserve(self._head.bytes + len(self._body))

    def _reserve(self, held_bytes: int) -> None:
        grown_bytes = held_bytes - self._reserved_bytes
        self._reserved_bytes = held_bytes
        assert self.address is not None, "a connection that was not taken in reads nothing"
        if not self._clients.buffer(self.address, grown_bytes):
            self._refuse("overloaded")

    def _release(self) -> None:
        """Let go of the request that is being read."""
        self._body = b""
        self._head.forget()
        if self._reserved_bytes and self.address is not None:
            self._clients.buffer(self.address, -self._reserved_bytes)
        self._reserved_bytes = 0
