"""Many receivers in one thread, each on a port of its own that comes and goes: down, it refuses connections.

A berth's socket is bound all the time, so nobody else gets its port; it listens while the berth is up.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from urllib.parse import unquote

from hookline.bench.service import hold
from hookline.connections.receiver_url import BAD_PORTS
from tests.service.waiting import WAIT_SECONDS

PORTS = range(10_000, 20_000)
"""Below those of ``free_port`` and those that the kernel gives to clients."""
BACKLOG = 512
TICK_SECONDS = 0.01

Answer = tuple[int, float]
"""Status, and after how many seconds."""


class Arrival:
    """One request: where, what, with which token, when it was read and when it was answered (monotonic seconds)."""

    __slots__ = ("answered_at", "at", "berth", "message_id", "status", "token")

    def __init__(self, berth: int, message_id: str, token: str, at: float) -> None:
        self.berth = berth
        self.message_id = message_id
        self.token = token
        self.at = at
        self.status = 0
        self.answered_at = 0.0


class Harbour:
    """A context manager; every berth is down at first. ``answer`` says how a request is answered."""

    def __init__(self, berths: int, answer: Callable[[Arrival], Answer] = lambda arrival: (200, 0.0)) -> None:
        self.answer = answer
        self.arrivals: list[Arrival] = []
        self.stall_seconds = 0.0
        """The longest time for which this thread was kept from running: what it says of moments is as inexact."""
        self._sockets = list(islice(_bound(), berths))
        self._open: list[set[asyncio.Transport]] = [set() for _ in range(berths)]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Harbour:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)
        for each in self._sockets:
            each.close()

    def url(self, berth: int = 0) -> str:
        """A berth's address for a webhook."""
        return f"http://127.0.0.1:{self._sockets[berth].getsockname()[1]}/hook"

    def taken(self, berth: int = 0) -> list[str]:
        """The messageIds that a berth has accepted, in their order."""
        found = list(self.arrivals)
        return [each.message_id for each in found if each.berth == berth and 200 <= each.status < 300]

    def up(self, berths: Sequence[int] = (0,)) -> None:
        """Accept connections from now on."""
        self._soon(self._raise, berths)

    def down(self, berths: Sequence[int] = (0,)) -> None:
        """Refuse connections from now on, and close those that are open."""
        self._soon(self._lower, berths)

    def _soon(self, act: Callable[[Sequence[int]], None], berths: Sequence[int]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (act(berths), done.set()))
        assert done.wait(WAIT_SECONDS), "the harbour does not answer"

    def _raise(self, berths: Sequence[int]) -> None:
        for berth in berths:
            self._sockets[berth].listen(BACKLOG)
            self._loop.add_reader(self._sockets[berth], self._accept, berth)

    def _lower(self, berths: Sequence[int]) -> None:
        for berth in berths:
            self._loop.remove_reader(self._sockets[berth])
            self._sockets[berth].shutdown(socket.SHUT_RDWR)  # it listens no more and keeps its port
            for transport in list(self._open[berth]):
                transport.close()  # what was answered leaves before

    def _accept(self, berth: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                raw, _ = self._sockets[berth].accept()
                raw.setblocking(False)
                made = self._loop.connect_accepted_socket(lambda: _Ship(self, berth, self._open[berth]), raw)
                self._loop.create_task(made)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._tick(time.monotonic())
        self._loop.run_forever()

    def _tick(self, due: float) -> None:
        now = time.monotonic()
        self.stall_seconds = max(self.stall_seconds, now - due)
        self._loop.call_later(TICK_SECONDS, self._tick, now + TICK_SECONDS)


class _Ship(asyncio.Protocol):
    """One connection."""

    def __init__(self, harbour: Harbour, berth: int, open_ones: set[asyncio.Transport]) -> None:
        self._harbour = harbour
        self._berth = berth
        self._open = open_ones
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._open.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while not self._transport.is_closing() and b"\r\n\r\n" in self._unread:
            head, _, rest = self._unread.partition(b"\r\n\r\n")
            lines = (line.partition(": ") for line in head.decode("latin-1").split("\r\n")[1:])
            headers = {name.lower(): value for name, _, value in lines}
            length = int(headers["content-length"])
            if len(rest) < length:
                return
            self._unread = rest[length:]
            arrival = Arrival(
                self._berth, unquote(headers["x-message-id"]), headers.get("authorization", ""), time.monotonic()
            )
            self._harbour.arrivals.append(arrival)
            status, seconds = self._harbour.answer(arrival)
            if seconds:
                asyncio.get_running_loop().call_later(seconds, self._answer, arrival, status)
            else:
                self._answer(arrival, status)

    def _answer(self, arrival: Arrival, status: int) -> None:
        if self._transport.is_closing():
            return
        arrival.answered_at, arrival.status = time.monotonic(), status
        self._transport.write(b"HTTP/1.1 %d Reply\r\nContent-Length: 0\r\n\r\n" % status)


def _bound() -> Iterator[socket.socket]:
    # By number: a port that the kernel chose is given back when the socket listens no more.
    for port in random.sample(PORTS, len(PORTS)):
        made = None if port in BAD_PORTS else hold(port)
        if made is not None:
            made.setblocking(False)
            yield made
