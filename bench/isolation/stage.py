"""The scene of an isolation measurement: a service, healthy receivers, sick ones, and a load at a fixed rate.

Every receiver has a ledger outside the service. What is measured is the time from the answer to a caller until the
event is at a healthy receiver.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.isolation import sick_receiver
from bench.isolation.sick_receiver import Patient
from hookline.bench import machine, receiver
from hookline.bench.event import SECRET, Connections, Ledger
from hookline.bench.load import Result, Spec
from hookline.bench.machine import wait_until
from hookline.bench.service import Service
from hookline.database import sqlite

LOAD_CONNECTIONS = 8
DRAIN_SECONDS = 60.0
OPEN_SECONDS = 30.0
SETTLE_SECONDS = 1.0
"""After a change of connections: what taking it costs is not what is measured."""

LATE_DUPLICATES_SECONDS = 1.0
"""How long after the last event one still looks for duplicates."""


class Span(msgspec.Struct, frozen=True):
    """The numbers of the events of one stretch of load."""

    first: int
    end: int
    result: Result


class Rows(msgspec.Struct, frozen=True):
    """What stands in deliver's database."""

    retries_of_one_lane: int
    dead_letters: int


class Stage:
    """A context manager; started with all destinations in their first state."""

    def __init__(self, folder: Path, connections: Connections, events_max: int, batch: int, sources: int) -> None:
        self._folder = folder
        self._events_max = events_max
        self._batch = batch
        self._sources = sources
        self._next = batch
        self._programs: list[subprocess.Popen[bytes]] = []
        self._ward: subprocess.Popen[bytes] | None = None
        self.connections = connections
        self.accepted = Ledger(folder / "accepted", events_max)
        self.service = Service(folder / "service", connections)

    def __enter__(self) -> Stage:
        self.service.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.service.stop()
        for program in self._programs:
            program.kill()
            program.wait()

    def ledger(self, name: str) -> Ledger:
        """An empty ledger for a receiver."""
        return Ledger(self._folder / name, self._events_max)

    def open_healthy(self, name: str, port: int) -> Ledger:
        """Start a healthy receiver; return its ledger."""
        ledger = self.ledger(name)
        command = [sys.executable, "-P", "-m", "hookline.bench.receiver", str(port), str(self._folder / name), SECRET]
        self._programs.append(subprocess.Popen(command))
        return ledger

    def open_sick(self, patients: Sequence[tuple[str, Patient]]) -> dict[str, Ledger]:
        """Start the process of the sick receivers; return their ledgers by name."""
        ledgers = {name: self.ledger(name) for name, _ in patients}
        placed = [msgspec.structs.replace(patient, ledger=str(self._folder / name)) for name, patient in patients]
        command = [sys.executable, "-P", sick_receiver.__file__]
        self._ward = subprocess.Popen([*command, msgspec.json.encode(placed).decode()], stdout=subprocess.PIPE)
        self._programs.append(self._ward)
        assert self._ward.stdout is not None
        self._ward.stdout.readline()
        return ledgers

    def heal(self) -> None:
        """Every sick receiver is well from now on."""
        assert self._ward is not None
        self._ward.send_signal(signal.SIGUSR1)

    def switch(self, names: Sequence[str], enabled: bool) -> None:
        """Enable or disable destinations; from the return on, every event belongs to exactly the enabled ones."""
        for destination in self.connections["destinations"]:
            if destination["id"] in names:
                destination["enabled"] = enabled
        self.service.connect(self.connections)
        self.service.apply()
        time.sleep(SETTLE_SECONDS)

    def load(self, seconds: float, rate: float) -> Span:
        """Send at a fixed rate, whatever the answers do; return when the last answer is there."""
        first = self._next
        spec = Spec(
            port=self.service.collect_port,
            connections=LOAD_CONNECTIONS,
            batch=self._batch if self._batch > 1 else 0,
            sources=self._sources,
            first=first,
            seconds=seconds,
            events_max=self._events_max - first - 1,
            rate=rate,
            accepted=str(self._folder / "accepted"),
            arrivals=str(self._folder / "accepted"),  # read by closed loops only
        )
        command = [sys.executable, "-P", "-m", "hookline.bench.load", msgspec.json.encode(spec).decode()]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        result = msgspec.json.decode(done.stdout, type=Result)
        self._next += result.sent
        return Span(first, self._next, result)

    def accepted_in(self, spans: Sequence[Span]) -> list[int]:
        """The numbers of the events that were accepted."""
        starts = (
            start for span in spans for start in range(span.first, span.end, self._batch) if self.accepted.times[start]
        )
        return [number for start in starts for number in range(start, start + self._batch)]

    def missing(self, ledger: Ledger, numbers: Sequence[int]) -> int:
        """How many of these events a receiver has not got."""
        return sum(not ledger.times[number] for number in numbers)

    def wait_for(self, ledgers: Sequence[Ledger], numbers: Sequence[int]) -> float:
        """Wait until all have got all, or nothing has come for a while; return the seconds it took."""
        began = moved = time.monotonic()
        left = sum(self.missing(ledger, numbers) for ledger in ledgers)
        while left and time.monotonic() - moved < DRAIN_SECONDS:
            time.sleep(0.1)
            now = sum(self.missing(ledger, numbers) for ledger in ledgers)
            if now != left:
                left, moved = now, time.monotonic()
        seconds = time.monotonic() - began
        time.sleep(LATE_DUPLICATES_SECONDS)
        return seconds

    def latencies(self, ledger: Ledger, numbers: Sequence[int]) -> list[float]:
        """From the answer to the caller until the arrival, for all that arrived."""
        accepted, arrived = self.accepted.times, ledger.times
        return [max(0.0, arrived[n] - accepted[n - n % self._batch]) for n in numbers if arrived[n]]

    def deliver_bytes(self) -> int:
        """Resident memory of the delivering role."""
        return machine.memory_of(self.service.processes()["deliver"]).rss

    def rows(self) -> Rows:
        """Retry rows of the lane that has most, and dead letters of all."""
        database = sqlite.connect(self.service.data / "deliver.db", read_only=True)
        try:
            most = database.execute("SELECT count(*) FROM retries GROUP BY lane ORDER BY 1 DESC LIMIT 1").fetchone()
            dead = database.execute("SELECT count(*) FROM dead_letters").fetchone()
        finally:
            database.close()
        return Rows(int(most[0]) if most else 0, int(dead[0]))

    def wait_answering(self, port: int) -> None:
        """Wait until a receiver listens."""
        wait_until(lambda: machine.listens(port), OPEN_SECONDS, f"a receiver on port {port}")


def duplicates(ledger: Ledger) -> int:
    """How many events a receiver got more than once."""
    return int(ledger.counters[receiver.DUPLICATES])
