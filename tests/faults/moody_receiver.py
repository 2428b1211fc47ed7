"""Receivers whose mood is changed from outside: well, or bad in one of five ways, and well again.

Runs as ``python -m tests.faults.moody_receiver SECRET PORT LEDGER [PORT LEDGER …]``. The mood is a counter of the
ledger, which whoever opened the file may change at any time. Only what was answered 200 is written down, and what
belongs to a replay is only counted: it repeats on purpose, and makes good no loss.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from enum import IntEnum
from pathlib import Path
from typing import cast

import uvloop
from bench.isolation.sick_receiver import BACKLOG_CONNECTIONS, FAILURE, LINGER_ZERO

from hookline.bench.event import Ledger
from hookline.bench.receiver import Receiver

MOOD, REPLAYED = 5, 6
"""Counters of the ledger, behind those of every receiver."""
SLOW_SECONDS = 0.5
THROTTLING = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Mood(IntEnum):
    """What a receiver does with requests."""

    WELL = 0
    HANGING = 1
    FAILING = 2
    THROTTLING = 3
    RESETTING = 4
    SLOW = 5


class MoodyReceiver(Receiver):
    """One connection. One that was met by a bad mood is of no use any more, but for a slow one."""

    __slots__ = ("_is_spoilt", "_late")

    def __init__(self, ledger: Ledger, secret: bytes) -> None:
        super().__init__(ledger, secret)
        self._is_spoilt = False
        self._late = 0
        """How much of what came is to be taken later: what comes after it must wait as long."""

    def data_received(self, data: bytes) -> None:
        mood = Mood(self._ledger.counters[MOOD])
        if self._is_spoilt:
            return
        if mood is Mood.SLOW or self._late:
            self._late += 1
            asyncio.get_running_loop().call_later(SLOW_SECONDS, self._take_late, data)
            return
        if mood is Mood.WELL:
            super().data_received(data)
            return
        self._is_spoilt = True
        if mood is Mood.RESETTING:
            connection = cast(socket.socket, self._transport.get_extra_info("socket"))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_ZERO)
            self._transport.abort()
        elif mood is not Mood.HANGING:
            self._transport.write(FAILURE if mood is Mood.FAILING else THROTTLING)
            self._transport.close()

    def _take_late(self, data: bytes) -> None:
        self._late -= 1
        if not self._transport.is_closing():
            super().data_received(data)

    def _take(self, data: bytes, head_end: int, end: int) -> None:
        if data.find(b"\r\nX-Hookline-Replay: ", 0, head_end) >= 0:
            self._ledger.counters[REPLAYED] += 1
        else:
            super()._take(data, head_end, end)


async def serve(secret: bytes, receivers: dict[int, Ledger]) -> None:
    """Receive on each port until killed."""
    loop = asyncio.get_running_loop()
    for port, ledger in receivers.items():
        await loop.create_server(
            lambda ledger=ledger: MoodyReceiver(ledger, secret),  # type: ignore[misc]
            "127.0.0.1",
            port,
            backlog=BACKLOG_CONNECTIONS,
        )
    await asyncio.Event().wait()


if __name__ == "__main__":
    ports, paths = sys.argv[2::2], sys.argv[3::2]
    given = {int(port): Ledger(Path(path)) for port, path in zip(ports, paths, strict=True)}
    uvloop.run(serve(sys.argv[1].encode(), given))
