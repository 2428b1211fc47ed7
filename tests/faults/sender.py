"""The sender of the fault report: numbered events in batches at a fixed rate to several collects, ended by SIGTERM.

Runs as ``python -m tests.faults.sender PORT,PORT LEDGER EVENTS_PER_SECOND``. Batches become due whatever the answers
do; one that is refused or cut off is sent again, to the next collect, with the same messageIds, as an SDK behind a
balancer does. The ledger gets the time of the 200 that acknowledged a batch, under the number of its first event. After
SIGTERM what is due is sent to the end, so that every batch ever sent is acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from pathlib import Path

import uvloop

from hookline.bench.event import Ledger, Requests

BATCH_EVENTS = 20
PEOPLE = 5_000
LINKS_PER_COLLECT = 12
ANSWER_SECONDS_MAX = 15.0
PAUSE_SECONDS = 0.1
"""Before what was cut off is sent again; after a 503 it is what Retry-After says, at most RETRY_AFTER_SECONDS_MAX."""
RETRY_AFTER_SECONDS_MAX = 1.0

ACKNOWLEDGED, REFUSED, CUT_OFF, UNEXPECTED, STARTED_NS, DUE = range(6)
"""The counters: events, requests, requests, requests, nanoseconds of the monotonic clock, events."""


class Sender:
    """All links and what is due to be sent."""

    def __init__(self, ports: list[int], ledger: Ledger, rate: float) -> None:
        self._ports = ports
        self._ledger = ledger
        self._rate = rate
        self._requests = Requests("127.0.0.1", BATCH_EVENTS, people=PEOPLE)
        self._due: asyncio.Queue[int] = asyncio.Queue()
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Send until SIGTERM, and then what is left."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop.set)
        links = [asyncio.create_task(self._link(n)) for n in range(LINKS_PER_COLLECT * len(self._ports))]
        await self._keep_time()
        await self._due.join()
        for link in links:
            link.cancel()

    async def _keep_time(self) -> None:
        began = time.monotonic()
        counters, batches = self._ledger.counters, (len(self._ledger.times) - 1) // BATCH_EVENTS
        counters[STARTED_NS] = int(began * 1e9)
        for batch in range(batches):
            wait = began + batch * BATCH_EVENTS / self._rate - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            if self._stop.is_set():
                return
            self._due.put_nowait(1 + batch * BATCH_EVENTS)
            counters[DUE] += BATCH_EVENTS

    async def _link(self, number: int) -> None:
        """One connection at a time, to one collect after another."""
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while True:
            first = await self._due.get()
            while True:
                pause = PAUSE_SECONDS
                with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                    if connection is None:
                        connection = await asyncio.open_connection("127.0.0.1", self._ports[number % len(self._ports)])
                    async with asyncio.timeout(ANSWER_SECONDS_MAX):
                        pause = await self._post(*connection, first)
                    if pause < 0:
                        break
                if connection is not None:
                    connection[1].close()
                if pause == PAUSE_SECONDS:
                    self._ledger.counters[CUT_OFF] += 1
                connection, number = None, number + 1
                await asyncio.sleep(pause)
            self._due.task_done()

    async def _post(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: int) -> float:
        """Send a batch; return how long to wait before it is sent again, below 0 when it was acknowledged."""
        writer.write(self._requests.request(first))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        body = await reader.readexactly(int(_header(head, b"content-length") or 0))
        counters = self._ledger.counters
        if head.startswith(b"http/1.1 200") and b'"rejected": [{' not in body:
            self._ledger.times[first] = time.monotonic()
            counters[ACKNOWLEDGED] += BATCH_EVENTS
            return -1
        if head.startswith(b"http/1.1 503"):
            counters[REFUSED] += 1
        else:
            counters[UNEXPECTED] += 1
            print(f"unexpected answer: {head!r} {body!r}", file=sys.stderr, flush=True)
        return min(float(_header(head, b"retry-after") or 0), RETRY_AFTER_SECONDS_MAX)


def _header(head: bytes, name: bytes) -> bytes:
    return head.partition(b"\r\n%b: " % name)[2].partition(b"\r\n")[0]


if __name__ == "__main__":
    given, path, events_per_second = sys.argv[1:4]
    uvloop.run(Sender([int(port) for port in given.split(",")], Ledger(Path(path)), float(events_per_second)).run())
