"""Every front before a real service: restarts under load, calls after a rest, and bodies that are too large."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import uvloop
from tests.service import fronts
from tests.service.fronts import FRONTS, Front
from tests.service.harness import Hookline, is_ready
from tests.service.waiting import wait_until

from hookline.bench import receiver
from hookline.bench.event import AUTHORIZATION, SECRET, Ledger, Requests, destination, source
from hookline.bench.service import free_port

WORKERS = 48
ANSWER_SECONDS_MAX = 15.0
RESTART_EVERY_SECONDS = 1.5
PAUSE_SECONDS = 0.5
"""About as long as a restart keeps calls waiting."""
IDLE_SECONDS = (4.99, 5.0, 5.01)
"""How long connections rest: as long as the control port kept them once, when it closed as the front sent."""
IDLE_LINKS = 30
BODY_BYTES = (1_200_000, 4_000_000, 16_000_000)
BODIES_OF_EACH = 4
SETTLE_SECONDS_MAX = 20.0
CALLS_MAX = 400_000
UNSENT, CLOSED = 0, -1
"""Stand for a status: no answer, and a kept connection that ended without a byte of one, as if closed between calls."""


class Varnish(Front):
    """Varnish that passes everything on."""

    program = "varnishd"

    def command(self, file: Path) -> list[str]:
        return ["varnishd", "-F", "-f", str(file), "-a", f"127.0.0.1:{self.port}", *self._own()]

    def _own(self) -> list[str]:
        # Its own five seconds for idle clients would be measured in place of what is behind it.
        return ["-n", str(self.folder / "work"), "-p", "timeout_idle=60"]

    def configuration(self) -> str:
        host, _, port = self.upstreams[0].partition(":")
        backend = f'backend hookline {{ .host = "{host}"; .port = "{port}"; }}'
        return f"vcl 4.1;\n{backend}\nsub vcl_recv {{ return (pass); }}\n"


class Apache(fronts.Apache):
    """Apache with so many threads in each process."""

    threads = 25

    def configuration(self) -> str:
        text = super().configuration().replace("ThreadsPerChild 25", f"ThreadsPerChild {self.threads}")
        text = text.replace("MaxRequestWorkers 150", f"MaxRequestWorkers {6 * self.threads}")
        # Its own five seconds for idle clients would be measured in place of what is behind it.
        return text.replace("KeepAliveTimeout 5\n", "KeepAliveTimeout 60\n")


class ApacheWithThreads(Apache):
    """The same with more threads in each process than calls come at once."""

    threads = 64


NewFront = Callable[[Path, Sequence[int]], Front]
ALL: dict[str, NewFront] = {**FRONTS, "apache": Apache, "varnish": Varnish}
WITH_THREADS = "apache, 64 threads"


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What one cell came to. ``wanted`` is the one status that each call should be answered with."""

    front: str
    what: str
    wanted: int
    statuses: dict[int, int]
    silent_seconds: float | None = None
    """The longest without any answer, where calls came all the time."""
    doubled: int = 0
    lost: int = 0
    own: int = 0
    """Resets that the front made by itself: what is behind it got no such call, and its log tells of no failure."""

    @property
    def calls(self) -> int:
        return sum(self.statuses.values())

    @property
    def errors(self) -> int:
        """Answers of 500 and above."""
        return sum(count for status, count in self.statuses.items() if status >= 500)

    @property
    def resets(self) -> int:
        return self.statuses.get(UNSENT, 0) + self.statuses.get(CLOSED, 0)

    @property
    def is_met(self) -> bool:
        answered = self.statuses.keys() - {CLOSED} == {self.wanted}
        return answered and self.resets == self.own and not (self.doubled or self.lost)

    def counts(self) -> str:
        """The answers in words."""
        words = {UNSENT: "no answer", CLOSED: "closed before one"}
        named = {words.get(status, str(status)): count for status, count in self.statuses.items()}
        text = ", ".join(f"{count:,} × {name}" for name, count in sorted(named.items()))
        return f"{text} ({self.own} by itself)" if self.own else text


class Cell(NamedTuple):
    """One thing to play with one front."""

    name: str
    play: Callable[[Path], Before]


def cells(restarts: int, rate: float) -> Iterator[Cell]:
    """Everything that is played before the service."""
    fallen = f"{restarts} restarts at {rate:,.0f} calls/s", lambda hookline: _restart(hookline, restarts)
    paused = f"control: {restarts} pauses at {rate:,.0f} calls/s", lambda hookline: _pause(hookline, restarts)
    for name, front in ALL.items():
        yield Cell(f"{name} restarts", lambda folder, n=name, f=front: _loaded(folder, n, f, rate, *fallen))
        yield Cell(f"{name} idle", lambda folder, n=name, f=front: _idle(folder, n, f))
        yield Cell(f"{name} bodies", lambda folder, n=name, f=front: _bodies(folder, n, f))
    yield Cell("apache paused", lambda folder: _loaded(folder, "apache", Apache, rate, *paused))
    for trouble in (fallen, paused):
        yield Cell(WITH_THREADS, lambda folder, t=trouble: _loaded(folder, WITH_THREADS, ApacheWithThreads, rate, *t))


class Calls:
    """What was answered, and when last."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.closed: list[int] = []
        """The numbers of those whose connection was closed before an answer."""
        self.silent_seconds = 0.0
        self._last = time.monotonic()

    def answered(self, status: int) -> None:
        """Note an answer, or that there was none."""
        self.statuses[status] += 1
        if 0 < status < 500:
            now = time.monotonic()
            self.silent_seconds = max(self.silent_seconds, now - self._last)
            self._last = now


class Link:
    """One client: a kept connection that is made anew when it was closed, and nothing sent twice."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, request: bytes) -> int:
        """Send it, and return the status; ``UNSENT`` or ``CLOSED`` when none came."""
        is_kept = False
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                if self._streams is None or self._streams[0].at_eof():
                    self.close()
                    self._streams = await asyncio.open_connection("127.0.0.1", self._port)
                else:
                    is_kept = True
                reader, writer = self._streams
                writer.write(request)
                # Whoever refuses a body may answer, and close, before all of it is taken: the answer counts.
                sending = asyncio.ensure_future(writer.drain())
                try:
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                finally:
                    sending.cancel()
                    with contextlib.suppress(OSError, asyncio.CancelledError):
                        await sending
                at = head.find(b"content-length: ")
                if at >= 0:
                    await reader.readexactly(int(head[at + 16 : head.find(b"\r", at)]))
                if at < 0 or b"connection: close" in head:
                    self.close()
                return int(head[9:12])
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            self.close()
            without_a_byte = isinstance(error, ConnectionError) or getattr(error, "partial", None) == b""
            return CLOSED if is_kept and without_a_byte else UNSENT

    def close(self) -> None:
        """Let the connection go; idempotent."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@contextlib.contextmanager
def _service(folder: Path, receiver_port: int) -> Iterator[Hookline]:
    destinations = [destination("receiver", receiver_port)]
    settings = {"log.format": "json"}
    with Hookline(folder / "service", destinations, sources=[source()], settings=settings) as hookline:
        yield hookline


def _loaded(
    folder: Path, name: str, front: NewFront, rate: float, what: str, trouble: Callable[[Hookline], None]
) -> Before:
    """Calls at a rate, while something happens to collect; the ledgers say what was lost or came twice."""
    folder.mkdir(mode=0o755)
    accepted, arrivals = (Ledger(folder / each, CALLS_MAX) for each in ("accepted", "arrivals"))
    port = free_port()
    command = [sys.executable, "-m", "hookline.bench.receiver", str(port), str(folder / "arrivals"), SECRET]
    with subprocess.Popen(command) as taking, _service(folder, port) as hookline:
        with front(folder, [hookline.collect_port]) as before:
            calls = uvloop.run(_under_load(before.port, rate, accepted, lambda: trouble(hookline)))
        came = arrivals.counters
        taken = calls.statuses[200]
        with contextlib.suppress(AssertionError):
            wait_until(lambda: came[receiver.RECEIVED] - came[receiver.DUPLICATES] >= taken, SETTLE_SECONDS_MAX)
        taking.terminate()
        numbers = [number for number in range(1, CALLS_MAX) if accepted.times[number]]
        return Before(
            front=name,
            what=what,
            wanted=200,
            statuses={status: count for status, count in calls.statuses.items() if count},
            silent_seconds=calls.silent_seconds,
            doubled=int(came[receiver.DUPLICATES]),
            lost=sum(not arrivals.times[number] for number in numbers),
            own=_closed_by_itself(before, sum(not arrivals.times[number] for number in calls.closed)),
        )


def _closed_by_itself(front: Front, closed: int) -> int:
    """How many of those that never came through it closed by itself: Apache logs each that it could not pass on."""
    return max(0, closed - len(re.findall(r"\[proxy\w*:error\]", front.log))) if isinstance(front, Apache) else 0


def _restart(hookline: Hookline, times: int) -> None:
    for _ in range(times):
        time.sleep(RESTART_EVERY_SECONDS)
        old = hookline.role("collect")
        os.kill(old, signal.SIGTERM)
        wait_until(lambda old=old: hookline.role("collect", required=False) not in (0, old), what="started again")
        wait_until(lambda: is_ready(hookline.collect_port), what="ready again")
    time.sleep(RESTART_EVERY_SECONDS)


def _pause(hookline: Hookline, times: int) -> None:
    """Have calls wait as at a restart, where nothing ends and no connection is closed."""
    collect = hookline.role("collect")
    for _ in range(times):
        time.sleep(RESTART_EVERY_SECONDS)
        os.kill(collect, signal.SIGSTOP)
        time.sleep(PAUSE_SECONDS)
        os.kill(collect, signal.SIGCONT)
    time.sleep(RESTART_EVERY_SECONDS)


async def _under_load(port: int, rate: float, accepted: Ledger, trouble: Callable[[], None]) -> Calls:
    """Send single calls at the rate until the trouble is over."""
    calls, requests = Calls(), Requests("127.0.0.1", 0)
    due: asyncio.Queue[int] = asyncio.Queue()

    async def work() -> None:
        link = Link(port)
        while True:
            number = await due.get()
            status = await link.call(requests.request(number))
            calls.answered(status)
            if status == 200:
                accepted.times[number] = time.monotonic()
            elif status == CLOSED:
                calls.closed.append(number)
            due.task_done()

    workers = [asyncio.create_task(work()) for _ in range(WORKERS)]
    happening = asyncio.create_task(asyncio.to_thread(trouble))
    began, sent = time.monotonic(), 0
    while not happening.done() and sent < CALLS_MAX - 1:
        until = min(CALLS_MAX - 1, int((time.monotonic() - began) * rate))
        for number in range(sent + 1, until + 1):
            due.put_nowait(number)
        sent = max(sent, until)
        await asyncio.sleep(0.002)
    await due.join()
    for worker in workers:
        worker.cancel()
    await happening
    return calls


def _idle(folder: Path, name: str, front: NewFront) -> Before:
    """Connections that rest as long as the one behind might keep them, and then call again, all together."""
    folder.mkdir(mode=0o755)

    async def rest(port: int, calls: Calls) -> None:
        links = [Link(port) for _ in range(IDLE_LINKS)]
        request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for seconds in (0.0, *IDLE_SECONDS):
            await asyncio.sleep(seconds)
            for status in await asyncio.gather(*(link.call(request) for link in links)):
                calls.answered(status)
        for link in links:
            link.close()

    calls = Calls()
    with _service(folder, free_port()) as hookline, front(folder, [hookline.control_port]) as before:
        uvloop.run(rest(before.port, calls))
    return Before(
        front=name,
        what="control after 5 s of rest",
        wanted=200,
        statuses=dict(calls.statuses),
    )


def _bodies(folder: Path, name: str, front: NewFront) -> Before:
    """Bodies that are refused: the client is to learn that they are too large, not that something failed."""
    folder.mkdir(mode=0o755)

    async def post(port: int, calls: Calls, sizes: Sequence[int]) -> None:
        for size in sizes:
            head = b"POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nAuthorization: %b\r\nContent-Length: %d\r\n\r\n"
            link = Link(port)
            calls.answered(await link.call(head % (AUTHORIZATION, size) + b" " * size))
            link.close()

    calls = Calls()
    with _service(folder, free_port()) as hookline, front(folder, [hookline.collect_port]) as before:
        uvloop.run(post(before.port, calls, BODY_BYTES * BODIES_OF_EACH))
    return Before(
        front=name,
        what="bodies of 1.2, 4 and 16 MB",
        wanted=413,
        statuses=dict(calls.statuses),
    )
