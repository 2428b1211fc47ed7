"""The benchmark's receiver: answers every POST with 200 and writes down when each numbered event arrived.

Runs as ``python -m hookline.bench.receiver PORT LEDGER SECRET [HOST]``; written for speed, so that it is not what is
measured.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import sys
import time
from pathlib import Path
from typing import cast

import uvloop

from hookline.bench.event import ID_DIGITS, ID_PREFIX, Ledger

RECEIVED, DUPLICATES, UNNUMBERED, CHECKED, WRONG_SIGNATURE = range(5)
"""The receiver's counters."""

CHECK_EVERY = 500
"""Every so many requests one signature is verified."""

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
MARK = b"X-Message-Id: " + ID_PREFIX
BUFFER_BYTES_MAX = 1024 * 1024


class Receiver(asyncio.Protocol):
    """One keep-alive connection; requests may arrive in any pieces."""

    __slots__ = ("_buffer", "_ledger", "_secret", "_transport")

    def __init__(self, ledger: Ledger, secret: bytes) -> None:
        self._ledger = ledger
        self._secret = secret
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class is no subclass of it

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        answers = 0
        while data:
            head_end = data.find(b"\r\n\r\n")
            if head_end < 0:
                break
            end = head_end + 4 + _content_length(data, head_end)
            if end > len(data):
                break
            self._take(data, head_end, end)
            answers += 1
            data = data[end:] if end < len(data) else b""
        self._buffer = data
        if len(data) > BUFFER_BYTES_MAX:
            self._transport.abort()
        elif answers:
            self._transport.write(ANSWER * answers)

    def _take(self, data: bytes, head_end: int, end: int) -> None:
        counters = self._ledger.counters
        counters[RECEIVED] += 1
        at = data.find(MARK, 0, head_end)
        if at < 0:
            counters[UNNUMBERED] += 1
            return
        at += len(MARK)
        number = int(data[at : at + ID_DIGITS])
        times = self._ledger.times
        if times[number]:
            counters[DUPLICATES] += 1
        else:
            times[number] = time.monotonic()
        if number % CHECK_EVERY == 0:
            counters[CHECKED] += 1
            expected = hmac.new(self._secret, data[head_end + 4 : end], hashlib.sha1).hexdigest().encode()
            if b"X-Signature: " + expected not in data[:head_end]:
                counters[WRONG_SIGNATURE] += 1


def _content_length(data: bytes, head_end: int) -> int:
    at = data.find(b"Content-Length: ", 0, head_end)
    return int(data[at + 16 : data.find(b"\r", at)]) if at >= 0 else 0


async def serve(port: int, ledger: Ledger, secret: bytes, host: str = "127.0.0.1") -> None:
    """Receive until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Receiver(ledger, secret), host, port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Ledger(Path(sys.argv[2])), sys.argv[3].encode(), *sys.argv[4:]))
