"""Clients that send a byte a second, beside all the other tests of a service: the service's patience is in its limits,
and half a minute of it need not be waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType

from tests.service.collect.raw_socket import RawSocket

DRIP_SECONDS = 1.0
END_SECONDS = 120.0


class SlowClient(threading.Thread):
    """One connection that drips after ``start`` until it is answered or closed."""

    def __init__(self, port: int, start: bytes) -> None:
        super().__init__(daemon=True)
        self.status: int | None = None
        """Of the answer; None while there is none, and when it was closed without one."""
        self.seconds = 0.0
        """How long it was let drip."""
        self._port = port
        self._start = start
        self._leaves = threading.Event()

    def run(self) -> None:
        """Drip."""
        begun = time.monotonic()
        with RawSocket(self._port, DRIP_SECONDS) as raw:
            raw.write(self._start)
            while not self._leaves.is_set():
                try:
                    answer = raw.answer()
                except TimeoutError:
                    raw.write(b"a")
                else:
                    self.status = answer.status if answer else None
                    break
        self.seconds = time.monotonic() - begun

    def wait(self) -> SlowClient:
        """Wait until it was answered or closed."""
        self.join(END_SECONDS)
        assert not self.is_alive(), "never closed"
        return self

    def leave(self) -> None:
        """End it if it drips still."""
        self._leaves.set()
        self.join(END_SECONDS)


class SlowClients:
    """A context manager around some."""

    def __init__(self, port: int, starts: Sequence[bytes]) -> None:
        self.each = [SlowClient(port, start) for start in starts]

    def __enter__(self) -> SlowClients:
        for client in self.each:
            client.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self.each:
            client.leave()
