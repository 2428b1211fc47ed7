"""One HTTP/1.1 connection to a receiver: a request out, an answer in, bounded in time and size.

Callbacks only: no task, future or timer per request; the sender's sweep ends what takes too long. The status line
decides the outcome; the body is read to its end only so that the connection can be used again.
"""

from __future__ import annotations

import asyncio
import fcntl
import math
import re
import select
import ssl
import sys
import termios
from collections import deque
from random import uniform
from time import monotonic
from typing import Protocol, cast

import httptools

from hookline.deliver.send.answers import (
    BODY_BYTES_MAX,
    END_OF_HEAD,
    END_OF_HEAD_BYTES_MAX,
    HEAD_BYTES_MAX,
    HEAD_KEPT_BYTES,
    PlainAnswers,
    RequestBatch,
    is_whole,
    own_head,
)
from hookline.deliver.send.client_certificate import tls_reason
from hookline.deliver.send.exchange import Exchange
from hookline.deliver.send.port import Answer, Failure, Opaque, Sink
from hookline.deliver.send.resolver import same_address
from hookline.deliver.send.tls import Sessions
from hookline.outcomes.outcome import Outcome, of_status, to_number

ANSWER_KEPT_BYTES = 2 * 1024
INTERIM_ANSWERS_MAX = 10
REST_SECONDS_MAX = 45.0
"""The connection to an origin that was used last rests for so long, unless its receiver closes sooner: no longer than
the youngest age at which one ends."""
SPARE_REST_SECONDS = 4.0
"""Others beside it are needed at busy moments only; common servers close at 5 s."""
AGES_FROM = 0.75
"""Of the greatest age, the least that a connection gets: not all that were made together end together."""
RESTED_SECONDS = 0.05
"""One that was idle for longer is looked at before it takes a request: what has come meanwhile is nobody's answer.
Those that are used again at once, as nearly all are under load, are spared the look."""

_FRAMED = re.compile(rb"\n(?:content-length|transfer-encoding):", re.IGNORECASE)
_RETRY_AFTER = re.compile(rb"\nretry-after:[ \t]*([^\r\n]{1,64})", re.IGNORECASE)


class Home(Protocol):
    """Hold what a connection asks of the pool that it belongs to."""

    sink: Sink
    answers: PlainAnswers[Connection]
    idle: deque[Connection]
    age_seconds: float
    plain_answer: bytes
    plain_answer_status: int
    sessions: Sessions

    def is_plain(self, data: bytes) -> bool:
        """Return whether it is a whole, ordinary 2xx answer."""

    def note_keep_alive(self, head: bytes) -> None:
        """Note how long the receiver says that it keeps an idle connection."""

    def send_afresh(self, token: Opaque, batch: RequestBatch, request: bytes) -> object:
        """Send on another connection a request that the receiver cannot have taken."""

    def wait_for_body(self, connection: Connection) -> None:
        """Keep a connection whose answer is complete but for its body, or close it where too many are so."""

    def body_came(self, connection: Connection) -> None:
        """Note that the body has come too, if it was waited for."""

    def forget(self, connection: Connection) -> None:
        """Let go of a connection that was closed."""

    def lost(self, connection: Connection) -> None:
        """Let go of a connection that the other end closed, if not we."""


class Connection(asyncio.Protocol):
    """A connection and at most one request on it."""

    __slots__ = (
        "_answer",
        "_complete",
        "_head",
        "_head_done",
        "_interim",
        "_keep_alive",
        "_parser",
        "_received",
        "_status",
        "_untaken",
        "batch",
        "checked_address",
        "idle_since",
        "old_at",
        "peer_address",
        "pool",
        "request",
        "task",
        "token",
        "transport",
        "watch",
    )

    def __init__(self, pool: Home, watch: Exchange | None = None) -> None:
        self.pool = pool
        self.watch = watch
        """Who sees all of the only exchange on it."""
        self._parser: httptools.HttpResponseParser | None = None
        self.transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] | None = None
        self.batch: RequestBatch | None = None
        """What the request left with; None while nothing is asked."""
        self.token: Opaque | None = None
        """The request's; None once its result is told."""
        self.request = b""
        self.idle_since = 0.0
        self.checked_address = ""
        """The receiver's."""
        self.peer_address = ""
        """The one that the socket leads to: the same, or a proxy's."""
        self.old_at = math.inf
        """From when on it takes no other request."""
        self._untaken = False
        self._head_done = False
        self._received = 0

    def begin(self, token: Opaque, batch: RequestBatch, request: bytes) -> None:
        """Take the first request; it is written when the connection is made."""
        self.token = token
        self.batch = batch
        self.request = request

    def _begin_parsing(self, first: bytes) -> httptools.HttpResponseParser:
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)  # as RFC 9112 section 2.2 lets us
        self._status = 0
        self._head_done = self._complete = self._keep_alive = False
        self._interim = 0
        self._answer = bytearray()  # bytes would be copied for each of the tiny chunks that a receiver may send
        self._head: bytes | bytearray = first
        return self._parser

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request that waited, but only if the socket really leads to the address that was checked."""
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if self.token is None or peer is None or not same_address(peer[0], self.peer_address):
            self.transport.abort()
        else:
            self.old_at = monotonic() + self.pool.age_seconds * uniform(AGES_FROM, 1.0)
            if self.watch is not None:
                self.watch.asked()
            if self.watch is not None or (self.batch is not None and self.batch.whole):
                self.read_whole()
            self.transport.write(self.request)

    def read_whole(self) -> None:
        """Take no answer for so plain that its body is of no interest."""
        self._begin_parsing(b"")

    def data_received(self, data: bytes) -> None:
        """Read a piece of the answer."""
        batch = self.batch
        if batch is None:  # nothing was asked: whatever this is, the connection cannot be trusted any more
            self.close()
            return
        pool = self.pool
        if self._parser is None and (data == pool.plain_answer or pool.is_plain(data)):
            answers = pool.answers
            if batch is not answers.batch:
                answers.begin(batch, pool.plain_answer_status, pool.idle)
            answers.tokens.append(self.token)
            answers.resting.append(self)
            self.batch = self.token = None
            self.idle_since = answers.at_seconds
        else:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        """Read a piece of an answer that is not ordinary, or not whole."""
        if self.watch is not None:
            self.watch.received(data)
        parser = self._parser
        if parser is None:
            parser = self._begin_parsing(data)
        elif not self._head_done:
            if not isinstance(self._head, bytearray):
                self._head = bytearray(self._head)
            self._head += data
        seen_before = max(0, self._received - END_OF_HEAD_BYTES_MAX + 1)  # the head's end may be cut in two
        self._received += len(data)
        if (
            self._received > HEAD_BYTES_MAX
            and not self._head_done
            and END_OF_HEAD.search(self._head, seen_before, HEAD_BYTES_MAX) is None
        ):
            self._fail(Outcome.BAD_RESPONSE, "the answer's head is too long")
            return
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._broken(error)
            return
        if self._complete:
            self._answered(reusable=self._keep_alive)
        elif self._head_done:
            whole = self.batch.whole if self.batch is not None else 0
            if self._received > HEAD_BYTES_MAX + max(BODY_BYTES_MAX, whole):
                self._answered(reusable=False)
            elif self.token is not None and 200 <= self._status < 300 and not whole:
                self._report()  # the outcome is known; the rest of the body only frees the connection
                self.pool.wait_for_body(self)
        elif self._received > HEAD_BYTES_MAX or self._interim > INTERIM_ANSWERS_MAX:
            self._fail(Outcome.BAD_RESPONSE, "the answer's head is too long")

    def eof_received(self) -> None:
        """Note, on a kept connection, whether the receiver had closed before anything of the request reached it.

        Its end says up to where it had what we sent: if that is nothing of the request, then nobody has taken it. One
        that ends with its answer, as over TLS, is not kept.
        """
        if self.token is None:
            self.pool.answers.forget(self)
        elif self.idle_since and not self._received:
            self._untaken = self._unacknowledged_bytes() >= len(self.request)

    def connection_lost(self, error: Exception | None) -> None:
        """The receiver closed: the end of an answer, a request to send again, or a failure."""
        self.pool.lost(self)
        self.transport = None
        if self.token is not None:
            self._ended_early(error)
        # The parser knows us as we know it: without this an endless head would stay until the next garbage collection.
        self._parser = None
        self._head = b""
        if self.watch is not None:
            self.watch.ended.set()

    def _ended_early(self, error: Exception | None) -> None:
        if self._head_done and not self._is_cut:
            self._report()
        elif self._untaken:
            self.pool.send_afresh(*self._release())
        else:
            # TLS 1.3 says only now that a client certificate is wanted.
            if isinstance(error, ssl.SSLError):
                self._fail(Outcome.TLS_REFUSED, tls_reason(error))
            else:
                why = error or "end of stream"
                when = "in the middle of" if self._head_done else "before"
                self._fail(
                    Outcome.CONNECTION_FAILED,
                    f"connection closed {when} an answer ({why}); the request may have been taken",
                )

    # httptools callbacks

    def on_headers_complete(self) -> None:
        """Note the status; interim answers are only counted."""
        assert self._parser is not None
        self._status = self._parser.get_status_code()
        if self._status < 200:
            self._interim += 1
        else:
            self._head_done = True
        if self.watch is not None:
            self.watch.head_ended()

    def on_body(self, body: bytes) -> None:
        """Keep the beginning of a failure's answer."""
        if self.watch is not None:
            self.watch.received_body(body)
        batch = self.batch
        if batch is not None and batch.whole:
            if len(self._answer) < batch.whole:
                self._answer += body[: batch.whole - len(self._answer)]
        elif not 200 <= self._status < 300 and len(self._answer) < ANSWER_KEPT_BYTES:
            self._answer += body[: ANSWER_KEPT_BYTES - len(self._answer)]

    def on_message_begin(self) -> None:
        """A second answer to one request means that the connection is out of step; the first one stands."""
        if self._complete:
            raise ValueError("more than one answer")

    def on_message_complete(self) -> None:
        """The answer's body has ended too."""
        if self._head_done:
            self._complete = True
            assert self._parser is not None
            self._keep_alive = self._parser.should_keep_alive()  # here only: the parser forgets it on return

    # results

    def expire(self, error: str = "no answer within the time limit") -> None:
        """The time for the exchange is over: report what is known and close."""
        if self.token is not None:
            if self._head_done and not (self.batch is not None and self.batch.whole):
                self._report()
            else:
                self._fail(Outcome.TIMED_OUT, error, is_unsent=self.transport is None)
        self.close()

    def refuse(self, outcome: Outcome, error: str) -> None:
        """The connection could not be made."""
        self._fail(outcome, error, is_unsent=True)

    @property
    def is_silent(self) -> bool:
        """Return whether nothing, not even the end, has come that the event loop has yet to read."""
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket"), select.POLLIN)  # type: ignore[union-attr]
        return not poll.poll(0)

    def _unacknowledged_bytes(self) -> int:
        """Return how much of what was written the receiver's system has not confirmed; 0 when that cannot be told."""
        transport = self.transport
        assert transport is not None
        try:
            number = transport.get_extra_info("socket").fileno()
            queued = fcntl.ioctl(number, termios.TIOCOUTQ, bytes(4))
        except (OSError, ValueError):
            return 0
        return transport.get_write_buffer_size() + int.from_bytes(queued, sys.byteorder)

    def retire(self) -> None:
        """Take no other request: the answer under way is read to its end, then the connection closes."""
        if self.batch is None:
            self.close()
        elif self._parser is None:
            self._begin_parsing(b"")  # which looks at the age when the answer is whole; ordinary ones skip that

    def close(self) -> None:
        """Drop the connection, whatever state it is in."""
        self.batch = None
        self.pool.forget(self)
        if self.task is not None:
            self.task.cancel()
        if self.transport is not None:
            self.transport.abort()
        if self.watch is not None:
            self.watch.ended.set()

    def _keep(self, now: float) -> None:
        """Wait in the pool for the next request."""
        self.batch = None
        self.request = b""  # a batch's, which may be large; those of plain answers end with the next request
        self.idle_since = now
        self.pool.idle.append(self)

    def _answered(self, *, reusable: bool) -> None:
        token, batch, status = self.token, self.batch, self._status
        assert batch is not None
        now = monotonic()
        milliseconds = int((now - batch.began) * 1000)
        answer = self._whole_answer() if batch.whole else None
        failure = None if 200 <= status < 300 or answer is not None else self._failure()
        self.token = None
        if self.watch is not None:
            reusable = False
        if reusable and now < self.old_at and self.transport is not None and not self.transport.is_closing():
            self.pool.note_keep_alive(bytes(self._head))
            self._parser = None
            self._head = b""
            self._head_done = False
            self._received = 0
            self.pool.body_came(self)
            self._keep(now)
        else:
            self.close()
        if token is not None and answer is not None:
            self.pool.sink.answered_whole(token, batch.target, answer, milliseconds)
        elif token is not None:
            self.pool.sink.answered(token, batch.target, status, milliseconds, failure)

    @property
    def _is_cut(self) -> bool:
        """Return whether the head promises a success whose body, which is read whole to judge it, has not come whole.

        A refusal stands by its status: it may also say how long to wait.
        """
        return (
            self.batch is not None
            and self.batch.whole > 0
            and not self._complete
            and 200 <= self._status < 300
            and _FRAMED.search(own_head(self._head)) is not None
        )

    def _whole_answer(self) -> Answer:
        return Answer(self._status, own_head(self._head).decode("latin-1"), bytes(self._answer))

    def _report(self) -> None:
        token, batch, _ = self._release()
        if batch.whole:
            answer, milliseconds = self._whole_answer(), int((monotonic() - batch.began) * 1000)
            self.pool.sink.answered_whole(token, batch.target, answer, milliseconds)
            return
        failure = None if 200 <= self._status < 300 else self._failure()
        milliseconds = int((monotonic() - batch.began) * 1000)
        self.pool.sink.answered(token, batch.target, self._status, milliseconds, failure)

    def _failure(self) -> Failure:
        head = own_head(self._head)
        found = _RETRY_AFTER.search(head)
        answer = self._answer.decode("utf-8", "replace")
        retry_after = found[1] if found else None
        return Failure(
            of_status(self._status), self._status, answer, retry_after, head[:HEAD_KEPT_BYTES].decode("latin-1")
        )

    def _broken(self, error: Exception) -> None:
        assert self._parser is not None
        if not self._head_done and 200 <= self._parser.get_status_code() < 600 and is_whole(self._head):
            # Such as two lengths that differ: what was answered is plain, only where it ends is not.
            self._status = self._parser.get_status_code()
            self._head_done = True
        if self._head_done and self.token is not None and not self._is_cut:
            self._report()
        if self.token is not None:
            self._fail(Outcome.BAD_RESPONSE, f"not a valid HTTP answer ({type(error).__name__})")
        self.close()

    def _fail(self, outcome: Outcome, error: str, *, is_unsent: bool = False) -> None:
        token, batch, _ = self._release()
        self.close()
        milliseconds = int((monotonic() - batch.began) * 1000)
        result, failure = to_number(outcome, None), Failure(outcome, None, error, is_unsent=is_unsent)
        self.pool.sink.answered(token, batch.target, result, milliseconds, failure)

    def _release(self) -> tuple[Opaque, RequestBatch, bytes]:
        token, batch, request = self.token, self.batch, self.request
        assert token is not None
        assert batch is not None
        self.token = None
        self.request = b""
        return token, batch, request
