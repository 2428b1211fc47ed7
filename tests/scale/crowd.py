"""Ten thousand destinations on Kafka and PostgreSQL, a hundred of them dead, with several ``deliver`` workers.

Each healthy destination has a source and an address of its own; each dead one gets the events of 99 sources, so every
event goes to one that is well and to one that is not. What it costs to make so many, to change one, and to look at
them is measured in the same run.
"""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from bench.isolation import sick_receiver
from bench.isolation.sick_receiver import Patient, Sickness
from bench.pages import Browser

from hookline.bench import machine, receiver
from hookline.bench.event import Connections, Ledger, destination, source, write_key
from hookline.bench.load import Result, percentiles
from hookline.bench.machine import wait_until
from hookline.bench.service import free_port
from tests.scale.fleet import Fleet, Site
from tests.scale.usage import cpu_seconds, difference, statements_of

DESTINATIONS = 10_000
DEAD = 100
HEALTHY = DESTINATIONS - DEAD
WORKERS = 2
PARTITIONS = 8
SICKNESSES = (Sickness.REFUSING, Sickness.HANGING, Sickness.FAILING)
LOAD_CONNECTIONS = 16
PEOPLE = 10_000
IN_FORCE_SECONDS = 120.0
LOOKS = 5
ANYWHERE = "0.0.0.0"
"""A receiver has every address of the loopback network, one for each destination."""
VERSION = "SELECT max(version) FROM hookline_control.versions"
PAGES = ("/destinations", "/")
API = ("/api/v1/destinations", "/api/v1/destinations?limit=100", "/api/v1/destinations/healthy-42", "/metrics")


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of load: latencies of the healthy from the answer to the caller on, in seconds."""

    events: int
    seconds: float
    refused: int
    missing: int
    """Events that the healthy have not got."""
    p50: float
    p99: float
    longest: float
    cpu: dict[str, float]
    statements: int
    transactions: int


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """What so many destinations cost. Seconds, but for the memory."""

    destinations: int
    dead: int
    workers: int
    apply_seconds: float
    apply_in_force_seconds: float
    """After ``apply`` returned, until every partition is delivered by it."""
    change_seconds: float
    change_in_force_seconds: float
    looks_seconds: dict[str, float]
    """The slowest of some, by page."""
    memory_bytes: dict[str, int]
    idle_cpu: dict[str, float]
    """Share of a core, with no events."""
    alone: Stretch
    beside: Stretch
    duplicates: int


def measure(site: Site, seconds: float, rate: float) -> Crowd:
    """Make them, change them, look at them, and send to them without and with the dead ones."""
    events_max = int(rate * (3 * seconds + 30))
    with site.fleet(WORKERS, PARTITIONS, connections=_sources, events_max=events_max) as fleet:
        return _Run(fleet, seconds, rate).run()


class _Run:
    def __init__(self, fleet: Fleet, seconds: float, rate: float) -> None:
        self._fleet, self._rig, self._service = fleet, fleet.rig, fleet.rig.service
        self._seconds, self._rate = seconds, rate
        self._patients = [Patient(kind, free_port(), str(self._rig.folder / kind), ANYWHERE) for kind in SICKNESSES]

    def run(self) -> Crowd:
        self._rig.start_receiver(host=ANYWHERE)
        apply_seconds, apply_in_force = self._apply(dead=False)
        change_seconds, change_in_force = self._timed(
            lambda: self._service.api("PATCH", "destinations/healthy-7", {"name": "Another name"})
        )
        looks = self._looks()
        idle = self._idle()
        self._load(self._seconds / 3)  # connections are made, and code is warm
        alone = self._stretch()
        for patient in self._patients:
            Ledger(Path(patient.ledger), 1)
        command = [sys.executable, "-P", sick_receiver.__file__]
        with subprocess.Popen([*command, msgspec.json.encode(self._patients).decode()], stdout=subprocess.PIPE) as ward:
            assert ward.stdout is not None
            ward.stdout.readline()
            try:
                self._apply(dead=True)
                beside = self._stretch()
            finally:
                ward.kill()
        return Crowd(
            destinations=DESTINATIONS,
            dead=DEAD,
            workers=WORKERS,
            apply_seconds=apply_seconds,
            apply_in_force_seconds=apply_in_force,
            change_seconds=change_seconds,
            change_in_force_seconds=change_in_force,
            looks_seconds=looks,
            memory_bytes={name: machine.memory_of(pid).rss for name, pid in self._fleet.processes().items()},
            idle_cpu=idle,
            alone=alone,
            beside=beside,
            duplicates=int(self._rig.arrivals.counters[receiver.DUPLICATES]),
        )

    def _apply(self, *, dead: bool) -> tuple[float, float]:
        self._service.connect(_everything(self._rig.port, self._patients, dead=dead))
        return self._timed(self._service.apply)

    def _timed(self, change: Callable[[], object]) -> tuple[float, float]:
        """How long a change takes, and then until every partition is delivered by it."""
        began = time.monotonic()
        change()
        changed = time.monotonic()
        site, database = self._fleet.site, self._fleet.database
        (version,) = site.server.run(database, VERSION)[0]
        following = f"SELECT count(*) FROM hookline_deliver.checkpoints WHERE version >= {version}"
        wait_until(
            lambda: site.server.run(database, following)[0][0] == PARTITIONS, IN_FORCE_SECONDS, f"version {version}"
        )
        return changed - began, time.monotonic() - changed

    def _looks(self) -> dict[str, float]:
        browser = Browser(self._rig)
        found = {path: max(browser.seconds(path) for _ in range(LOOKS)) for path in PAGES}
        return found | {path: max(self._asked(path) for _ in range(LOOKS)) for path in API}

    def _asked(self, path: str) -> float:
        token = (self._service.data / "admin-token").read_text().strip()
        connection = http.client.HTTPConnection("127.0.0.1", self._service.control_port, timeout=60)
        began = time.perf_counter()
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        taken = time.perf_counter() - began
        connection.close()
        if answer.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"GET {path}: {answer.status}")
        return taken

    def _idle(self) -> dict[str, float]:
        counted = self._fleet.processes()
        before = cpu_seconds(counted)
        time.sleep(self._seconds / 3)
        used = difference(cpu_seconds(counted), before)
        return {name: each / (self._seconds / 3) for name, each in used.items()}

    def _load(self, seconds: float) -> tuple[Sequence[int], Result]:
        first = self._rig.next_number
        result = self._rig.load(
            connections=LOAD_CONNECTIONS, seconds=seconds, batch=1, rate=self._rate, sources=HEALTHY, people=PEOPLE
        )
        numbers = [n for n in range(first, self._rig.next_number) if self._rig.accepted.times[n]]
        self._rig.drain(self._rig.received() + self._missing(numbers))
        return numbers, result

    def _missing(self, numbers: Sequence[int]) -> int:
        return sum(not self._rig.arrivals.times[number] for number in numbers)

    def _stretch(self) -> Stretch:
        counted = self._fleet.processes()
        cpu, asked, began = cpu_seconds(counted), statements_of(self._fleet.site.server), time.monotonic()
        numbers, result = self._load(self._seconds)
        seconds = time.monotonic() - began
        asked = statements_of(self._fleet.site.server).since(asked)
        accepted, arrived = self._rig.accepted.times, self._rig.arrivals.times
        p50, p99, _, longest = percentiles([max(0.0, arrived[n] - accepted[n]) for n in numbers if arrived[n]])
        return Stretch(
            events=len(numbers),
            seconds=seconds,
            refused=result.refused,
            missing=self._missing(numbers),
            p50=p50,
            p99=p99,
            longest=longest,
            cpu=difference(cpu_seconds(counted), cpu),
            statements=asked.statements,
            transactions=asked.transactions,
        )


def _sources(port: int) -> Connections:
    return {"sources": [source(f"source-{n}", write_key(n)) for n in range(HEALTHY)], "destinations": []}


def _everything(port: int, patients: Sequence[Patient], *, dead: bool) -> Connections:
    healthy = [destination(f"healthy-{n}", port, [f"source-{n}"], host=_host(n)) for n in range(HEALTHY)]
    sick = [
        destination(
            f"dead-{n}",
            patients[n % len(patients)].port,
            [f"source-{each}" for each in range(n, HEALTHY, DEAD)],
            enabled=dead,
            host=_host(HEALTHY + n),
        )
        for n in range(DEAD)
    ]
    return {**_sources(port), "destinations": healthy + sick}


def _host(number: int) -> str:
    """An address of the loopback network for each destination, so that none shares connections with another."""
    return f"127.1.{number // 250}.{number % 250 + 1}"
