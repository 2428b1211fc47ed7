"""Connections that rest between requests: receivers that close them meanwhile, names that move, dead addresses.

All of them are behind one service at once, and each has a loopback address of its own. An event goes to every receiver
of its kind, so that many requests meet many closing connections; a ledger of the receivers tells what was done twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import resource
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import unquote

import msgspec
import uvloop
from tests.service.client import basic, send
from tests.service.harness import Hookline, webhook
from tests.service.waiting import WAIT_SECONDS, wait_until

from hookline.bench.service import free_port

PLAYED_SECONDS = 66.0
"""Longer than a connection grows old (``deliver.connection_age``, 60 s)."""
MOVES_AFTER_SECONDS = 3.0
SETTLE_SECONDS_MAX = 60.0
TIMEOUT_SECONDS = 2.0
SETTINGS = {"deliver.timeout": "2s", "deliver.retry_max": "2s", "log.format": "json"}
DOUBLED_OF = 10_000
"""One of so many requests may be done twice."""
FILES_MAX = 8_192
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
LOOK_UP = """
import json, socket
asked = socket.getaddrinfo

def look_up(host, port, *more, **named):
    with open({file!r}) as file:
        found = json.load(file).get(host.decode() if isinstance(host, bytes) else host)
    if found is None:
        return asked(host, port, *more, **named)
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (each, port)) for each in found]

socket.getaddrinfo = look_up
"""
"""What Python runs before the service: names that nobody else knows are looked up in a file."""


class Kind(NamedTuple):
    """Receivers of one behaviour, each of which gets an event every so many seconds."""

    name: str
    every_seconds: float
    receivers: int = 1
    idle_seconds: float = 0.0
    """After how long one closes a connection that rests, 0 for never; within a tenth of that."""
    closes: bool = False
    """Whether it closes after each answer."""
    addresses: int = 0
    """Of a name: how many it has, of which the last is alive; 0 where there is no name."""
    moves: bool = False
    wait_seconds_max: float | None = None
    """How long an event may wait for its first request."""


def _closing_idle(seconds: float, receivers: int) -> Kind:
    name = f"{receivers} that close idle after {seconds:g} s ± 10 %"
    return Kind(name, every_seconds=seconds, receivers=receivers, idle_seconds=seconds)


KINDS = (
    _closing_idle(0.5, 250),
    *(_closing_idle(seconds, 40) for seconds in (5.0, 10.0, 20.0, 30.0, 59.0)),
    Kind("name that moves, an event in 2 s", every_seconds=2.0, addresses=1, moves=True),
    Kind("name that moves, 20 events/s", every_seconds=0.05, addresses=1, moves=True),
    Kind("four dead addresses before a live one", 0.5, closes=True, addresses=5, wait_seconds_max=TIMEOUT_SECONDS),
)


class Rested(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the events of one kind; ``requests`` are events times receivers, one call for each is wanted."""

    name: str
    requests: int
    statuses: dict[str, int]
    calls: int
    attempts: int
    closed: int
    """Connections that receivers closed."""
    unseen: int
    doubled: int
    lost: int
    wait_seconds: float
    """The longest from an event's answer to its first request."""
    wait_seconds_max: float | None
    followed_seconds: float | None = None
    """How long after a name moved the last request came to the old address."""

    @property
    def is_met(self) -> bool:
        """Whether it went as it should."""
        in_time = self.wait_seconds_max is None or self.wait_seconds <= self.wait_seconds_max
        followed = self.followed_seconds is None or self.followed_seconds <= 60.0
        few = self.doubled * DOUBLED_OF <= self.requests
        delivered = self.statuses == {"delivered": self.requests}
        return delivered and few and in_time and followed and not (self.unseen or self.lost)


class Receivers:
    """Receivers at loopback addresses, in one thread; ``arrivals`` has when and where each event was done."""

    def __init__(self, port: int, kinds: dict[str, Kind]) -> None:
        self.kinds = kinds
        """By the receiver's address."""
        self._port = port
        self.arrivals: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
        """By event and destination."""
        self.closed: Counter[str] = Counter()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._up = threading.Event()

    def __enter__(self) -> Receivers:
        self._thread.start()
        assert self._up.wait(WAIT_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        serving = self._loop.create_server(lambda: _Connection(self), list(self.kinds), self._port, backlog=1_024)
        self._loop.run_until_complete(serving)
        self._up.set()
        self._loop.run_forever()


class _Connection(asyncio.Protocol):
    """One connection to one of them."""

    def __init__(self, receivers: Receivers) -> None:
        self._receivers = receivers
        self._data = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._address: str = transport.get_extra_info("sockname")[0]
        self._kind = self._receivers.kinds[self._address]

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (head_end := self._data.find(b"\r\n\r\n")) >= 0:
            lines = dict(line.lower().split(b": ", 1) for line in self._data[:head_end].split(b"\r\n")[1:])
            end = head_end + 4 + int(lines[b"content-length"])
            if len(self._data) < end:
                return
            target = self._data.split(b" ", 2)[1].decode()
            self._data = self._data[end:]
            done = self._receivers.arrivals[unquote(lines[b"x-message-id"].decode()), target.strip("/")]
            done.append((time.monotonic(), self._address))
            self._answer()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _answer(self) -> None:
        kind = self._kind
        self._transport.write(LAST if kind.closes else OK)
        if kind.closes:
            self._close()
        elif kind.idle_seconds:
            if self._timer is not None:
                self._timer.cancel()
            seconds = kind.idle_seconds * random.uniform(0.9, 1.1)
            self._timer = asyncio.get_running_loop().call_later(seconds, self._close)

    def _close(self) -> None:
        self._receivers.closed[self._kind.name] += 1
        self._transport.close()


class _Played:
    """The receivers of a kind as destinations of a source of their own."""

    def __init__(self, kind: Kind, number: int, port: int) -> None:
        self.kind, self.source = kind, f"r{number}"
        self.name = f"{self.source}.example"
        self.sent: dict[str, float] = {}
        count = max(kind.receivers, kind.addresses + kind.moves)
        self.addresses = [f"127.{100 + number}.{each // 250}.{each % 250 + 1}" for each in range(count)]
        self.dead = self.addresses[: kind.addresses - 1] if kind.addresses else []
        hosts = [self.name] if kind.addresses else self.addresses
        ids = [f"{self.source}-{each}" for each in range(len(hosts))]
        self.destinations = [
            webhook(id, f"http://{host}:{port}/{id}", sources=[self.source])
            for id, host in zip(ids, hosts, strict=True)
        ]

    @property
    def names(self) -> dict[str, list[str]]:
        """What is looked up at first: for a name that moves the first of its addresses."""
        return {self.name: self.addresses[: self.kind.addresses]} if self.kind.addresses else {}

    def send(self, hookline: Hookline, seconds: float) -> None:
        """Send the events in their own time for so long."""
        began, number = time.monotonic(), 0
        while (due := began + number * self.kind.every_seconds) < began + seconds:
            time.sleep(max(0.0, due - time.monotonic()))
            id = f"{self.source}-{number}"
            body = {"userId": f"u{number}", "event": "Test", "messageId": id}
            answer = send(hookline.collect_port, "POST", "/v1/track", body, basic(f"wk_{self.source}"))
            if answer.status != 200:
                raise RuntimeError(f"{self.kind.name}: {answer}")
            self.sent[id] = time.monotonic()
            number += 1

    def is_done(self, hookline: Hookline) -> bool:
        """Return whether the last event was delivered to all that it goes to, and that is on record."""
        parts = (hookline.event(list(self.sent)[-1], self.source) or {"destinations": []})["destinations"]
        delivered = {part["id"] for part in parts if part["status"] == "delivered"}
        return {each["id"] for each in self.destinations} <= delivered

    def row(self, hookline: Hookline, receivers: Receivers, moved_at: float) -> Rested:
        """Join the service's record with the receivers' ledger."""
        statuses: Counter[str] = Counter()
        calls = attempts = unseen = doubled = lost = 0
        waits, old = [0.0], [0.0]
        for id, at in self.sent.items():
            status = hookline.event(id, self.source) or {"destinations": []}
            parts = {part["id"]: part for part in status["destinations"]}
            for to in self.destinations:
                part = parts.get(to["id"], {})
                arrivals = receivers.arrivals.get((id, to["id"]), [])
                made = len({each["number"] for each in part.get("attempts", ())})
                statuses[part.get("status", "unknown")] += 1
                calls += len(arrivals)
                attempts += made
                unseen += max(0, len(arrivals) - made)
                doubled += max(0, len(arrivals) - 1)
                lost += not arrivals
                waits += [arrivals[0][0] - at] if arrivals else []
                old += [when - moved_at for when, where in arrivals if where == self.addresses[0]]
        return Rested(
            name=self.kind.name,
            requests=len(self.sent) * len(self.destinations),
            statuses=dict(statuses),
            calls=calls,
            attempts=attempts,
            closed=receivers.closed[self.kind.name],
            unseen=unseen,
            doubled=doubled,
            lost=lost,
            wait_seconds=max(waits),
            wait_seconds_max=self.kind.wait_seconds_max,
            followed_seconds=max(old) if self.kind.moves else None,
        )


def play(folder: Path, kinds: Sequence[Kind], seconds: float = PLAYED_SECONDS) -> list[Rested]:
    """Send each kind its events, all at the same time, wait until they have arrived, and join the ledgers."""
    folder.mkdir()
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    port = free_port()
    played = [_Played(kind, number, port) for number, kind in enumerate(kinds)]
    dead = [address for each in played for address in each.dead]
    names = {name: addresses for each in played for name, addresses in each.names.items()}
    moved = {each.name: each.addresses[1:] for each in played if each.kind.moves}
    alive = {address: each.kind for each in played for address in each.addresses if address not in dead}
    (folder / "sitecustomize.py").write_text(LOOK_UP.format(file=str(folder / "names")))
    _write(folder / "names", names)
    with _no_answers(dead, port), Receivers(port, alive) as receivers, _service(folder, played) as hookline:
        threads = [threading.Thread(target=each.send, args=(hookline, seconds)) for each in played]
        for thread in threads:
            thread.start()
        time.sleep(MOVES_AFTER_SECONDS)
        _write(folder / "names", names | moved)
        moved_at = time.monotonic()
        for thread in threads:
            thread.join()
        with contextlib.suppress(AssertionError):  # the table tells what is missing
            wait_until(lambda: all(each.is_done(hookline) for each in played), SETTLE_SECONDS_MAX)
        return [each.row(hookline, receivers, moved_at) for each in played]


def _service(folder: Path, played: Sequence[_Played]) -> Hookline:
    names = [each.source for each in played]
    return Hookline(
        folder / "service",
        [destination for each in played for destination in each.destinations],
        sources=[{"id": name, "name": name, "type": "server", "writeKeys": [f"wk_{name}"]} for name in names],
        settings=SETTINGS,
        environment={"PYTHONPATH": str(folder)},
    )


def _write(file: Path, names: dict[str, list[str]]) -> None:
    part = file.with_suffix(".part")
    part.write_text(json.dumps(names))
    part.rename(file)


@contextlib.contextmanager
def _no_answers(addresses: Sequence[str], port: int) -> Iterator[None]:
    """Addresses at which nothing answers: the system drops what comes, as that of a full queue does."""
    with contextlib.ExitStack() as stack:
        for address in addresses:
            stack.enter_context(socket.create_server((address, port), backlog=0))
            for _ in range(2):
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex((address, port))
        yield
