"""The healthy receiver of the crash report; writes one line per request: its X-Message-Id, and when it came (seconds of
the machine's monotonic clock).

Runs as ``python bench/crash/sink.py PORT LOG LAST``.

The line is written before the answer, so a request whose answer the service never saw counts as received. LAST gets
the id of the last request of each connection that ended. From SIGUSR1 to SIGUSR2, it answers 503
and writes nothing down: it fails.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import cast

import uvloop

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
FAILED = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


class Sink(asyncio.Protocol):
    """One connection of the service."""

    log: int
    last_log: int
    fails = False

    def __init__(self) -> None:
        self.buffer = b""
        self.last = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to answer on."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        """Read whole requests, write their ids down, answer them."""
        self.buffer += data
        ids: list[bytes] = []
        requests = 0
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            lines = self.buffer[:end].split(b"\r\n")[1:]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
            size = end + 4 + int(headers[b"content-length"])
            if len(self.buffer) < size:
                break
            self.buffer = self.buffer[size:]
            requests += 1
            if (
                not self.fails and b"x-hookline-replay" not in headers
            ):  # a replay repeats on purpose, and makes good no loss
                ids.append(headers[b"x-message-id"])
        if ids:
            at = b" %.6f\n" % time.monotonic()
            os.write(self.log, at.join(ids) + at)
            self.last = ids[-1] + b"\n"
        if requests:
            self.transport.write((FAILED if self.fails else OK) * requests)

    def connection_lost(self, error: Exception | None) -> None:
        """Write down what may have been in flight."""
        if self.last:
            os.write(self.last_log, self.last)


async def main() -> None:
    """Serve until killed."""
    Sink.log, Sink.last_log = (os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for path in sys.argv[2:4])
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, setattr, Sink, "fails", True)
    loop.add_signal_handler(signal.SIGUSR2, setattr, Sink, "fails", False)
    server = await loop.create_server(Sink, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
