"""All open connections of the edge: how many there may be, the clock that closes slow ones, and the end of them all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from hookline.collect.counters import Counters
from hookline.collect.limits import BUFFERED_BYTES_MAX, CONNECTIONS_MAX


class Client(Protocol):
    """One open connection; ``deadline`` is when it expires on the clients' clock."""

    deadline: float

    def expire(self) -> None:
        """The deadline has passed: answer what is due and close."""

    def drain(self) -> None:
        """Close as soon as what has been asked is answered."""

    def abort(self) -> None:
        """Close now."""


class Clients:
    """The open connections. ``now`` is a coarse clock, advanced by ``sweep``: no timer object per request."""

    def __init__(
        self,
        counters: Counters,
        clock: Callable[[], float],
        connections_max: int = CONNECTIONS_MAX,
        buffered_bytes_max: int = BUFFERED_BYTES_MAX,
    ) -> None:
        self.counters = counters
        self.now = clock()
        self.draining = False
        self._clock = clock
        self._open: set[Client] = set()
        self._connections_max = connections_max
        self._buffered_bytes_max = buffered_bytes_max
        self._emptied = asyncio.Event()

    def enter(self, client: Client) -> bool:
        """Take a new connection in; False when there are too many."""
        counters = self.counters
        counters.connections += 1
        if self.draining or len(self._open) >= self._connections_max:
            counters.refused_connections += 1
            return False
        self._open.add(client)
        counters.open_connections = len(self._open)
        return True

    def leave(self, client: Client) -> None:
        """Forget a connection; harmless when it is not known."""
        self._open.discard(client)
        self.counters.open_connections = len(self._open)
        if not self._open:
            self._emptied.set()

    def buffer(self, body_bytes: int) -> bool:
        """Account for bytes of unfinished bodies (negative: given back); False when there are too many."""
        self.counters.buffered_bytes += body_bytes
        return self.counters.buffered_bytes <= self._buffered_bytes_max

    def sweep(self) -> None:
        """Advance the clock and expire every connection whose deadline has passed."""
        self.now = now = self._clock()
        for client in [client for client in self._open if client.deadline <= now]:
            client.expire()

    async def drain(self, seconds_max: float) -> None:
        """Let every connection finish what it has been asked; abort those that take longer than ``seconds_max``."""
        self.draining = True
        self._emptied.clear()
        for client in list(self._open):
            client.drain()
        if self._open:
            try:
                await asyncio.wait_for(self._emptied.wait(), seconds_max)
            except TimeoutError:
                for client in list(self._open):
                    client.abort()
