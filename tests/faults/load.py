"""Numbered events that come in all the while, their ledgers, and the machines that take them.

Sender and receiver are processes of their own; their ledgers are files here.
"""

from __future__ import annotations

import contextlib
import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from hookline.bench import receiver
from hookline.bench.event import SECRET, Ledger, destination
from hookline.bench.machine import wait_until
from hookline.bench.service import free_port
from tests.faults.balance import Balance, Injection, backlog, balance
from tests.faults.sender import ACKNOWLEDGED, CUT_OFF, REFUSED
from tests.service.harness import Hookline, is_ready

T = TypeVar("T")
LoadT = TypeVar("LoadT", bound="Load")

ROOT = Path(__file__).parents[2]
EVENTS_MAX = 4_000_000
LEVEL_SECONDS = 0.5
"""All is well when no more waits, at the sender and in the service, than comes in so long a time,"""
LEVEL_EVENTS_MIN = 200
"""or than half of the sender's connections have under way."""
BACK_SECONDS_MAX = 240.0
"""Far more than it takes: cores that others need are no failure."""
START_SECONDS_MAX = 180.0
SETTLE_SECONDS_MAX = 120.0
QUIET_SECONDS = 3.0
"""How long to go on listening for duplicates when everything has arrived."""
AUDIENCE = {
    "id": "busy",
    "name": "Busy",
    "destinations": [],
    "condition": {"event": "Order Completed", "count": {"gte": 2}},
}
"""Of the people whose events come, so that they are followed too; nobody hears of it."""
BREATHING_SECONDS = 1.0
"""Between what is over and the next injection."""
ROLES = ("collect", "deliver", "control", "profiles")


class Scenario(NamedTuple):
    """A fault; the docstring of ``play`` says in a sentence what it does."""

    name: str
    title: str
    times: int
    """How often the injection is made in a full run."""
    play: Callable[[Any, int], None]
    """Takes a Stage, or an Embedded where ``is_embedded``, and how often."""
    rate: float = 2_000.0
    """Events per second in a full run."""
    is_embedded: bool = False
    """Of a machine that keeps journal and databases in its data folder."""
    is_cut: bool = False
    """Needs a broker in a network of its own."""
    is_pooled: bool = False
    """Needs a pooler before PostgreSQL."""
    has_audience: bool = False
    """With an audience, so that people are followed too."""
    refuses_none: bool = False
    """Only databases suffer: no call is refused or cut off."""


class Load:
    """A context manager around everything that runs. ``machines`` are its subclass's, and what they need too."""

    machines: list[Hookline]

    def __init__(
        self,
        folder: Path,
        *,
        rate: float,
        seconds_max: float = math.inf,
        injected_before: int = 0,
        lasting_seconds: float | None = None,
        events_max: int = EVENTS_MAX,
    ) -> None:
        """``seconds_max``: from the start of the load on, until nothing more is injected. ``injected_before``: in an
        earlier play, which this one goes on with. ``lasting_seconds``: of each trouble, in place of its own time.
        ``events_max``: what the ledgers have room for."""
        self.folder, self.rate = folder, rate
        self.injected_before = injected_before
        self._lasting_seconds = lasting_seconds
        self.injections: list[Injection] = []
        self.failures: list[str] = []
        """What went wrong beside what the ledgers tell."""
        self.damaged: set[int] = set()
        """Events whose bytes in the journal were changed before they had arrived."""
        self.events_max = events_max
        self._seconds_max = seconds_max
        self._receiver_port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self: LoadT) -> LoadT:
        self.accepted = Ledger(self.folder / "accepted", self.events_max)
        self.arrivals = Ledger(self.folder / "arrivals", self.events_max)
        try:
            self.start_receiver()
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        for machine in self.machines:
            if machine.process is not None:
                machine.kill9()

    def start_load(self) -> None:
        """Send at the rate from now on, and wait until all of it goes through."""
        ports = ",".join(str(machine.collect_port) for machine in self.machines)
        self._sender = self.program("tests.faults.sender", ports, str(self.folder / "accepted"), str(self.rate))
        self.go_on_for(2.0)
        self.wait_until_level()

    def start_receiver(self) -> None:
        """Receive from now on."""
        arrivals = str(self.folder / "arrivals")
        self._receiver = self.program("hookline.bench.receiver", str(self._receiver_port), arrivals, SECRET)

    def stop_receiver(self) -> None:
        """From now on what is delivered waits."""
        self._receiver.kill()
        self._receiver.wait()

    def in_turn(self, things: Sequence[T], times: int, first: int = 0) -> Iterator[T]:
        """One after another and again, beginning with ``first``, so many times, or until the time is up."""
        end = time.monotonic() + self._seconds_max
        for number in range(first, first + times):
            if time.monotonic() >= end:
                return
            yield things[number % len(things)]

    def roles(self) -> dict[str, int]:
        """The process of each role of each machine."""
        return {f"{role} of {m.folder.name}": m.role(role, required=False) for m in self.machines for role in ROLES}

    @contextlib.contextmanager
    def nothing_ends(self, what: str) -> Iterator[None]:
        """Note as a failure which roles end inside."""
        before = self.roles()
        yield
        now = self.roles()
        self.failures += [f"{what}: {name} ended" for name, pid in before.items() if now.get(name) != pid]

    @contextlib.contextmanager
    def trouble(self, what: str) -> Iterator[None]:
        """Inject it: inside there is trouble, afterwards all goes through again, and no role has ended."""
        self.inject(what)
        with self.nothing_ends(what):
            yield
            self.go_on()

    @contextlib.contextmanager
    def nothing_comes(self) -> Iterator[None]:
        """Inside nothing is sent, and everything has arrived: what was stored and not yet read as an answer too."""
        self._sender.send_signal(signal.SIGSTOP)
        wait_until(lambda: self.waiting()[1] == 0, BACK_SECONDS_MAX, "everything has arrived")
        came = -1
        while came != (came := self.arrivals.counters[receiver.RECEIVED]):
            time.sleep(QUIET_SECONDS)
        yield
        self._sender.send_signal(signal.SIGCONT)

    def last(self, seconds: float) -> None:
        """Let the trouble last so long."""
        time.sleep(seconds if self._lasting_seconds is None else self._lasting_seconds)

    def inject(self, what: str) -> None:
        """Note that this is about to be done."""
        self.injections.append(Injection(what, time.monotonic()))
        due, open_ = self.waiting()
        print(
            f"{time.strftime('%H:%M:%S')} {len(self.injections):3} {what}: {self.accepted.counters[ACKNOWLEDGED]:,}"
            f" acknowledged, {due:,} not yet, {open_:,} under way,"
            f" {self.arrivals.counters[receiver.DUPLICATES]:,} twice",
            file=sys.stderr,
            flush=True,
        )

    def refused(self) -> int:
        """Calls that were refused or cut off so far."""
        return int(self.accepted.counters[REFUSED] + self.accepted.counters[CUT_OFF])

    def waiting(self) -> tuple[int, int]:
        """Events due and not acknowledged, and events acknowledged and still to arrive."""
        due, open_ = backlog(self.accepted, self.arrivals)
        return due, max(0, open_ - sum(not self.arrivals.times[number] for number in self.damaged))

    def is_level(self) -> bool:
        """Nothing waits but what has only just come."""
        return max(self.waiting()) <= max(self.rate * LEVEL_SECONDS, LEVEL_EVENTS_MIN)

    def wait_until_level(self) -> None:
        """Wait until the service has caught up; TimeoutError says what waits."""
        try:
            wait_until(self.is_level, BACK_SECONDS_MAX, "everything goes through again")
        except TimeoutError as error:
            due, open_ = self.waiting()
            raise TimeoutError(f"{error}: {due:,} events not acknowledged, {open_:,} not arrived") from None

    def go_on(self) -> None:
        """Wait until all goes through again, and a moment longer."""
        self.wait_until_level()
        self.go_on_for(BREATHING_SECONDS)

    def go_on_for(self, seconds: float) -> None:
        """Let so much be acknowledged as comes in so many seconds."""
        wanted = self.accepted.counters[ACKNOWLEDGED] + self.rate * seconds
        wait_until(
            lambda: self.accepted.counters[ACKNOWLEDGED] >= wanted or self._sender.poll() is not None,
            BACK_SECONDS_MAX,
            "events are acknowledged",
        )

    def wait_until_collecting(self, machine: Hookline) -> None:
        """Wait until it takes events; control of one of several machines stands by, and is never ready."""
        wait_until(lambda: is_ready(machine.collect_port), BACK_SECONDS_MAX, "collect is ready")

    def wait_until_following(self, machine: Hookline) -> None:
        """Wait until people are followed, where it has an audience."""
        wait_until((machine.data / "run" / "metrics-profiles.json").exists, BACK_SECONDS_MAX, "people are followed")

    def settle(self) -> Balance:
        """End the load, wait for what is missing and for duplicates of it, and count."""
        self.end_load()
        return balance(self.accepted, self.arrivals, self.rate, self.injections, self.damaged)

    def end_load(self) -> None:
        """Send nothing more, and wait for what is missing and for duplicates of it."""
        self._sender.send_signal(signal.SIGTERM)
        if self._sender.wait(SETTLE_SECONDS_MAX) != 0:
            raise RuntimeError("the sender failed")
        counters = self.arrivals.counters
        with contextlib.suppress(TimeoutError):  # the balance tells what is missing
            wait_until(
                lambda: self.waiting()[1] == 0,
                SETTLE_SECONDS_MAX,
                "everything has arrived",
                lambda: counters[receiver.RECEIVED],
            )
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: False, QUIET_SECONDS, "another duplicate", lambda: counters[receiver.RECEIVED])

    def tracebacks(self) -> list[str]:
        """The first unexpected error that each process's log tells of."""
        return [
            log[at : at + 2_000] for log in self._logs() if (at := log.find("Traceback (most recent call last)")) >= 0
        ]

    def _logs(self) -> list[str]:
        return [machine.log for machine in self.machines]

    def _receiving(self) -> list[dict[str, object]]:
        return [destination("receiver", self._receiver_port)]

    def _start(self) -> None:
        for machine in self.machines:
            self.start(machine)

    def start(self, machine: Hookline) -> None:
        """Start it and wait until it is ready, also where the cores are needed by others."""
        machine.launch()
        machine.wait_ready(START_SECONDS_MAX)

    def program(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Run a module as a process that ends with the load."""
        self._processes.append(subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT))
        return self._processes[-1]
