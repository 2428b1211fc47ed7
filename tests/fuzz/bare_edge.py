"""The collection edge without a network: connections fed by hand, an appender in memory that is slow as told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from hookline.collect.counters import Counters
from hookline.collect.decode import LINGER_SECONDS_MAX, STALLED_ANSWER_SECONDS_MAX
from hookline.collect.http.clients import Clients
from hookline.collect.http.connection import Connection
from hookline.collect.http.downloads import Downloads
from hookline.collect.intake import Intake
from hookline.journal.record import Record
from hookline.settings import Settings
from tests.unit.collect.wire import KEY, SNAPSHOT, request


class Pipe(asyncio.Transport):
    """The edge's end of a connection: what was written to it, and whether it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = self.half_closed = self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes for the client."""
        assert not self.closed, "written after the end"
        assert not self.half_closed, "written after the end of what is said"
        self.written += data

    def can_write_eof(self) -> bool:
        """Sockets can."""
        return True

    def write_eof(self) -> None:
        """The edge has no more to say."""
        self.half_closed = True

    def close(self) -> None:
        """The edge is done."""
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self.closed

    def pause_reading(self) -> None:
        """The edge wants no more for now."""
        self.paused = True

    def resume_reading(self) -> None:
        """The edge wants more."""
        self.paused = False


class BareEdge:
    """One edge; ``talk`` is a connection from beginning to end, ``records`` what all of them stored."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.counters = Counters()
        self._now = 0.0
        self._waiting: list[Callable[[BaseException | None], None]] = []
        self._soon: list[Callable[[], object]] = []
        self._intake = Intake(self, self.counters, lambda: self._now, Downloads(Settings()), loop=lambda: self)
        self._intake.set_snapshot(SNAPSHOT)
        self._clients = Clients(self.counters, lambda: self._now)

    def append_soon(self, records: list[Record], done: Callable[[BaseException | None], None]) -> None:
        """Keep the records; they are durable at the next ``_settle``."""
        self.records += records
        self._waiting.append(done)

    def call_soon(self, callback: Callable[[], object], /) -> None:
        """As an event loop does; its next turn is the next ``_settle``."""
        self._soon.append(callback)

    def call_later(self, delay: float, callback: Callable[[], object], /) -> None:
        """As an event loop does, at once."""
        self._soon.append(callback)

    def talk(self, pieces: list[bytes], random: Random | None = None, ending: str = "eof") -> bytes:
        """Feed pieces (with ``random``, some before earlier ones are answered), end, and return what was written."""
        asyncio._set_running_loop(self)  # type: ignore[arg-type]  # a refused body is read on a little later
        try:
            return self._talk(pieces, random, ending)
        finally:
            asyncio._set_running_loop(None)

    def _talk(self, pieces: list[bytes], random: Random | None, ending: str) -> bytes:
        pipe = Pipe()
        connection = Connection(self._clients, self._intake)
        connection.connection_made(pipe)
        for piece in filter(None, pieces):  # an event loop never brings nothing
            if pipe.closed:
                break
            if pipe.paused or random is None or random.random() < 0.5:
                self._settle(random)
            assert not pipe.paused, "reads no more although everything is answered"
            connection.data_received(piece)
        self._end(connection, pipe, ending, random)
        assert self.counters.buffered_bytes == 0
        assert self.counters.open_connections == 0
        return bytes(pipe.written)

    def store(self, body: bytes) -> Record | None:
        """Return the event of a batch of one as it is stored, None where it is refused."""
        self.records.clear()
        self.talk([request("/v1/batch", body, KEY)])
        return next((record for record in self.records if record.rejection is None), None)

    def _end(self, connection: Connection, pipe: Pipe, ending: str, random: Random | None) -> None:
        if ending == "lost":
            pipe.closed = True
            connection.connection_lost(ConnectionResetError())
            self._settle(random)
            return
        self._settle(random)
        if ending == "eof" and not pipe.closed and not connection.eof_received():
            pipe.closed = True
        for _ in range(3):  # idle or late, then lingering: none may outlive its deadlines
            if not pipe.closed:
                self._now += 620.0 + STALLED_ANSWER_SECONDS_MAX + LINGER_SECONDS_MAX
                self._clients.sweep()
        assert pipe.closed, "outlived every deadline"
        connection.connection_lost(None)

    def _settle(self, random: Random | None) -> None:
        while self._waiting or self._soon:
            while self._soon:
                self._soon.pop(0)()
            if self._waiting:
                self._waiting.pop(random.randrange(len(self._waiting)) if random else 0)(None)
