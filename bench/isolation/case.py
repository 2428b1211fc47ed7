"""One isolation measurement: healthy receivers alone, beside sick ones, the sick ones healed, and alone again."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.isolation.sick_receiver import Patient, Sickness
from bench.isolation.stage import Rows, Span, Stage, duplicates
from hookline.bench.event import Connections, Ledger, destination, source, write_key
from hookline.bench.load import percentiles
from hookline.bench.service import free_port

WARM_UP_SECONDS = 1.0
SPARE_EVENTS = 10_000
HEALTHY = 2
"""Healthy receivers beside the five sick ones; each gets every event."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured. ``destinations`` more than one: so many healthy ones, each fed by a source of its own."""

    name: str
    aim_share: float
    """By how much of itself the healthy p99 may rise."""
    sick: tuple[Sickness, ...]
    destinations: int = 1
    batch: int = 10
    """Events of a request."""


class Latency(msgspec.Struct, frozen=True):
    """Of the healthy receivers, in seconds."""

    p50: float
    p99: float
    longest: float
    events: int


class Recovery(msgspec.Struct, frozen=True):
    """One sick receiver after it was healed."""

    sickness: Sickness
    expected: int
    missing: int
    duplicates: int


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured."""

    plan: Plan
    rate: float
    alone: Latency
    """Before the sick ones or after them, the better of the two."""
    beside: Latency
    healthy_missing: int
    healthy_duplicates: int
    refused: int
    deliver_bytes_before: int
    deliver_bytes_after: int
    rows: Rows
    """The most seen while they were sick."""
    recoveries: tuple[Recovery, ...]
    recovery_seconds: float


FIVE_KINDS = Plan(name="five sick receivers at once", aim_share=0.20, sick=tuple(Sickness))
ONE_OF_A_THOUSAND = Plan(
    name="one hanging of 1,000 destinations",
    aim_share=0.05,
    sick=(Sickness.HANGING,),
    destinations=999,
    batch=1,
)


class _Case:
    """The run of one plan."""

    def __init__(self, plan: Plan, folder: Path, seconds: float, rate: float) -> None:
        self._plan, self._seconds, self._rate = plan, seconds, rate
        self._many = plan.destinations > 1
        self._healthy_ports = [free_port() for _ in range(1 if self._many else HEALTHY)]
        self._patients = [(kind.name.lower(), Patient(kind, free_port(), "")) for kind in plan.sick]
        self._sick_names = [name for name, _ in self._patients]
        events_max = int(rate * (3 * seconds + 2 * WARM_UP_SECONDS)) + SPARE_EVENTS
        self._stage = Stage(folder, self._connections(), events_max, plan.batch, plan.destinations)
        self._healthy: list[Ledger] = []
        self._sick: dict[str, Ledger] = {}

    def run(self) -> Figures:
        with self._stage as stage:
            self._healthy = [
                stage.open_healthy(f"healthy-{number}", port) for number, port in enumerate(self._healthy_ports)
            ]
            for port in self._healthy_ports:
                stage.wait_answering(port)
            self._sick = stage.open_sick(self._patients)
            warm_up = self._phase(WARM_UP_SECONDS)
            before = self._phase(self._seconds)
            bytes_before = stage.deliver_bytes()
            stage.switch(self._sick_names, True)
            beside, rows = self._while_sick()
            bytes_after = stage.deliver_bytes()
            numbers = stage.accepted_in(beside)
            stage.heal()
            recovery_seconds = stage.wait_for(list(self._sick.values()), numbers)
            stage.switch(self._sick_names, False)
            after = self._phase(self._seconds)
            every = [warm_up, before, *beside, after]
            return Figures(
                plan=self._plan,
                rate=self._rate,
                alone=min(self._latency([before]), self._latency([after]), key=lambda latency: latency.p99),
                beside=self._latency(beside),
                healthy_missing=sum(stage.missing(ledger, stage.accepted_in(every)) for ledger in self._healthy),
                healthy_duplicates=sum(map(duplicates, self._healthy)),
                refused=sum(span.result.refused for span in every),
                deliver_bytes_before=bytes_before,
                deliver_bytes_after=bytes_after,
                rows=rows,
                recoveries=tuple(
                    Recovery(
                        patient.sickness,
                        len(numbers),
                        stage.missing(self._sick[name], numbers),
                        duplicates(self._sick[name]),
                    )
                    for name, patient in self._patients
                ),
                recovery_seconds=recovery_seconds,
            )

    def _while_sick(self) -> tuple[list[Span], Rows]:
        """Load in four parts, with a look at the rows after each."""
        spans, seen = [], []
        for _ in range(4):
            spans.append(self._stage.load(self._seconds / 4, self._rate))
            seen.append(self._stage.rows())
        self._stage.wait_for(self._healthy, self._stage.accepted_in(spans))
        rows = Rows(max(r.retries_of_one_lane for r in seen), max(r.dead_letters for r in seen))
        return spans, rows

    def _phase(self, seconds: float) -> Span:
        span = self._stage.load(seconds, self._rate)
        self._stage.wait_for(self._healthy, self._stage.accepted_in([span]))
        return span

    def _latency(self, spans: Sequence[Span]) -> Latency:
        numbers = self._stage.accepted_in(spans)
        found = [seconds for ledger in self._healthy for seconds in self._stage.latencies(ledger, numbers)]
        p50, p99, _, longest = percentiles(found)
        return Latency(p50, p99, longest, len(found))

    def _connections(self) -> Connections:
        if not self._many:
            sources = [source()]
            healthy = [destination(f"healthy-{number}", port) for number, port in enumerate(self._healthy_ports)]
        else:
            (port,) = self._healthy_ports
            count = range(self._plan.destinations)
            sources = [source(f"source-{number}", write_key(number)) for number in count]
            healthy = [destination(f"healthy-{number}", port, [f"source-{number}"]) for number in count]
        every = [made["id"] for made in sources]
        sick = [destination(name, patient.port, every, enabled=False) for name, patient in self._patients]
        return {"sources": sources, "destinations": healthy + sick}


def measure(plan: Plan, seconds: float, rate: float) -> Figures:
    """Run one plan in a temporary folder; each of its three stretches of load takes ``seconds``."""
    began = time.monotonic()
    with TemporaryDirectory(prefix="hookline-bench-") as folder:
        figures = _Case(plan, Path(folder), seconds, rate).run()
    print(f"{plan.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return figures
