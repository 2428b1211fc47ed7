"""A receiver that answers late, as if it were far away: ``python -m bench.away PORT LEDGER SECRET SECONDS``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import cast

import uvloop

from hookline.bench.event import SECRET, Ledger
from hookline.bench.receiver import Receiver
from hookline.bench.rig import Rig


def command(bench: Rig, seconds: float) -> list[str]:
    """Return the command of one that receives for a rig, and is so many seconds of a round trip away."""
    place = str(bench.port), str(bench.folder / "arrivals")
    return [sys.executable, "-m", "bench.away", *place, SECRET, str(seconds)]


class Away(Receiver):
    """Answers late."""

    __slots__ = ()

    seconds = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, Late(cast(asyncio.Transport, transport), self.seconds))


class Late:
    """Writes everything later."""

    def __init__(self, transport: asyncio.Transport, seconds: float) -> None:
        self._transport = transport
        self._seconds = seconds

    def write(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(self._seconds, self._transport.write, data)

    def abort(self) -> None:
        self._transport.abort()


async def serve(port: int, ledger: Ledger, secret: bytes) -> None:
    """Receive until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Away(ledger, secret), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    Away.seconds = float(sys.argv[4])
    uvloop.run(serve(int(sys.argv[1]), Ledger(Path(sys.argv[2])), sys.argv[3].encode()))
