"""What goes to a service and comes from it: paced calls with a receiver in one process, whose clock times both, and
saturating ones from wrk to nginx, which are no limit to any service."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec

from bench.peers.services import MARK, Calls
from hookline.bench import machine
from hookline.bench.event import ID_PREFIX
from hookline.bench.scenarios import numbered_script

CALLERS = 16
"""Paced calls at once at most."""
TICK_SECONDS = 0.001
ANSWER_SECONDS = 60.0
_NUMBER = re.compile(re.escape(ID_PREFIX) + rb"(\d{10})")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


class Traffic(msgspec.Struct):
    """Times of events by their number, and how often each arrived."""

    sent: dict[int, float]
    accepted: dict[int, float]
    arrived: dict[int, float]
    times: Counter[int]

    @staticmethod
    def none() -> Traffic:
        """Return an empty one."""
        return Traffic({}, {}, {}, Counter())

    def missing(self) -> list[int]:
        """Return the accepted events that have not arrived."""
        return [number for number in self.accepted if number not in self.arrived]

    def twice(self) -> int:
        """Return how many events arrived more than once."""
        return sum(count > 1 for count in self.times.values())


class Scene:
    """A receiver on ``port`` and callers in one event loop; ``steps`` of a measurement run in it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.traffic = Traffic.none()
        self._open: list[asyncio.Transport] = []

    async def __aenter__(self) -> Scene:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Receiving(self.traffic, self._open), "127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for transport in self._open:
            transport.close()

    async def send(self, calls: Calls, numbers: range, rate: float, until: Callable[[], bool] = lambda: False) -> None:
        """Send these events at this rate at most, until all are answered or ``until`` says stop."""
        due: deque[int] = deque()
        done = asyncio.Event()
        callers = [asyncio.create_task(self._caller(calls, due, done)) for _ in range(CALLERS)]
        began, left = time.monotonic(), deque(numbers)
        while left and not until():
            while left and began + (left[0] - numbers.start) / rate <= time.monotonic():
                due.append(left.popleft())
            await asyncio.sleep(TICK_SECONDS)
        if until():
            due.clear()
        done.set()
        await asyncio.gather(*callers)

    async def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until the condition holds; return whether it does."""
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:  # noqa: ASYNC110 - no test per event on the hot path
            await asyncio.sleep(0.01)
        return condition()

    async def _caller(self, calls: Calls, due: deque[int], done: asyncio.Event) -> None:
        head = f"POST {calls.path} HTTP/1.1\r\nHost: 127.0.0.1:{calls.port}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in calls.headers.items())
        head += f"Content-Length: {len(calls.body)}\r\n\r\n"
        request = head.encode() + calls.body
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while due or not done.is_set():
            if not due:
                await asyncio.sleep(TICK_SECONDS)
                continue
            number = due.popleft()
            try:
                if streams is None:
                    streams = await asyncio.open_connection("127.0.0.1", calls.port)
                self.traffic.sent[number] = time.monotonic()
                streams[1].write(request.replace(MARK, b"%010d" % number))
                if await asyncio.wait_for(_accepted(streams[0]), ANSWER_SECONDS):
                    self.traffic.accepted[number] = time.monotonic()
            except (OSError, asyncio.IncompleteReadError, TimeoutError):  # killed: not accepted, so nobody misses it
                if streams is not None:
                    streams[1].transport.abort()
                streams = None
        if streams is not None:
            with suppress(OSError):
                streams[1].transport.abort()


async def _accepted(reader: asyncio.StreamReader) -> bool:
    head = await reader.readuntil(b"\r\n\r\n")
    if found := _LENGTH.search(head):
        await reader.readexactly(int(found[1]))
    elif _CHUNKED.search(head):
        while await reader.readuntil(b"\r\n") != b"0\r\n":
            await reader.readuntil(b"\r\n")
        await reader.readuntil(b"\r\n")
    return head.split(b" ", 2)[1].startswith(b"2")


class _Receiving(asyncio.Protocol):
    def __init__(self, traffic: Traffic, opened: list[asyncio.Transport]) -> None:
        self._traffic = traffic
        self._opened = opened
        self._left = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class is no subclass of it
        self._opened.append(self._transport)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        self._left += data
        while (end := self._end()) is not None:
            request, self._left = self._left[:end], self._left[end:]
            if found := _NUMBER.search(request):
                number = int(found[1])
                self._traffic.arrived.setdefault(number, now)
                self._traffic.times[number] += 1
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def _end(self) -> int | None:
        head = self._left.find(b"\r\n\r\n")
        if head < 0:
            return None
        if _CHUNKED.search(self._left, 0, head + 2):
            last = self._left.find(b"\r\n0\r\n\r\n", head)
            return None if last < 0 else last + 7
        found = _LENGTH.search(self._left, 0, head + 2)
        end = head + 4 + (int(found[1]) if found else 0)
        return end if len(self._left) >= end else None


def saturate(folder: Path, calls: Calls, connections: int, seconds: float) -> tuple[int, float]:
    """As many events as wrk gets accepted: how many, and in how many seconds. RuntimeError when some are refused."""
    program = machine.tool("wrk")
    assert program is not None, "ask tool('wrk') first"
    script = _batch_script(calls) if calls.events > 1 else numbered_script(calls.body, MARK, dict(calls.headers))
    (folder / "wrk.lua").write_text(script)
    url = f"http://127.0.0.1:{calls.port}{calls.path}"
    command = [program, "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "20s"]
    done = subprocess.run(
        [*command, "-s", str(folder / "wrk.lua"), url], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"(\d+) requests in ([\d.]+)(m?s)", done)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", done)
    if found is None or bad is not None:
        raise RuntimeError(f"not every event was accepted:\n{done}")
    return int(found[1]) * calls.events, float(found[2]) * (0.001 if found[3] == "ms" else 1.0)


def _batch_script(calls: Calls) -> str:
    """Return a wrk script whose requests have ``events`` numbered events each."""
    before, _, after = calls.body.partition(MARK)
    return "\n".join(
        [
            'wrk.method = "POST"',
            *(f'wrk.headers["{name}"] = "{value}"' for name, value in calls.headers.items()),
            "local number = 0",
            f"local before, after = [==[{before.decode()}]==], [==[{after.decode()}]==]",
            "request = function()",
            "  local events = {}",
            f"  for place = 1, {calls.events} do",
            "    number = number + 1",
            '    events[place] = before .. string.format("%010d", number) .. after',
            "  end",
            """  return wrk.format(nil, nil, nil, '{"batch":[' .. table.concat(events, ",") .. ']}')""",
            "end",
        ]
    )
