"""The writing half of a connection: answers in the order of the requests, and an end that loses none of them."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import cast

from hookline.collect.decode import (
    DROP_BYTES_MAX,
    HEADERS_SECONDS_MAX,
    LINGER_SECONDS_MAX,
    PIPELINED_MAX,
    STALLED_ANSWER_SECONDS_MAX,
)
from hookline.collect.http.answers import CONTINUE
from hookline.collect.http.clients import Address, Clients
from hookline.collect.http.request import Exchange

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
        self._dropped_bytes = 0
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
        self.deadline = min(self.deadline, self._clients.now + STALLED_ANSWER_SECONDS_MAX)
        self._pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._writing_paused = False
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
