"""The isolation report: the figures of each measurement against the aims, as a page and as data."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.isolation.case import FIVE_KINDS, ONE_OF_A_THOUSAND, Figures, Latency, measure
from bench.page import Check, Page, Section, milliseconds
from hookline.bench import machine
from hookline.limits import LIMITS

SECONDS = 30.0
RATE_PER_SECOND = 1_000.0
AIM_SECONDS = 0.010
"""What the healthy p99 may always rise by: below this it is the machine that one measures."""

GROWTH_BYTES_MAX = 20 * 1024 * 1024

PROSE = """\
A receiver that is sick must not be felt by those that are well, and must miss nothing once it is well again. Here
healthy receivers get events at a fixed rate, first alone, then beside sick ones; then the sick ones are healed, and at
the end the healthy ones are alone once more. Load and receivers are processes of their own, and their ledgers are kept
outside the service. Latency is the time from the answer to the caller until the event is at the receiver. *Alone* is
the load before or after, whichever went better. The sick receivers begin with the load, so the time in which they are
found out is part of what is measured. [Lanes](../explanation/lanes.md) tells why it comes out like this."""

CASE_PROSE = {
    FIVE_KINDS.name: (
        "Two healthy receivers and five sick ones, each of which is meant to get every event: one refuses connections, "
        "one resets them, one never answers, one answers a byte at a time, one answers 500."
    ),
    ONE_OF_A_THOUSAND.name: (
        "999 healthy destinations, each with a source of its own, and one that is meant to get the events of all "
        "sources and never answers."
    ),
}


def run_isolation(seconds: float, rate: float, json_file: Path | None, page_file: Path | None) -> int:
    """Measure, show, and write what is asked for; 0 when every aim is met."""
    measured = []
    for plan in (FIVE_KINDS, ONE_OF_A_THOUSAND):
        print(f"measuring {plan.name} …", file=sys.stderr, flush=True)
        measured.append(measure(plan, seconds, rate))
    page = isolation_page(measured, seconds, rate)
    page.print()
    if json_file is not None:
        report = {"machine": machine.describe(), "seconds": seconds, "figures": measured, "checks": page.checks}
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    if page_file is not None:
        page.write(page_file)
    return int(not page.passed)


def isolation_page(measured: Sequence[Figures], seconds: float, rate: float) -> Page:
    """The report of these measurements."""
    return Page(
        title="Isolation report",
        prose=PROSE,
        command=f"python -m bench.isolation --seconds {seconds:g} --rate {rate:g} --write docs/reports/isolation.md",
        sections=tuple(section for figures in measured for section in _sections(figures)),
        checks=tuple(check for figures in measured for check in checks(figures)),
    )


def checks(figures: Figures) -> list[Check]:
    """The aims of one measurement."""
    alone, beside, name = figures.alone.p99, figures.beside.p99, figures.plan.name
    limit = max(alone * (1 + figures.plan.aim_share), alone + AIM_SECONDS)
    growth = figures.deliver_bytes_after - figures.deliver_bytes_before
    missing = sum(recovery.missing for recovery in figures.recoveries)
    repeated = sum(recovery.duplicates for recovery in figures.recoveries)
    return [
        Check(
            name=f"{name}: p99 of the healthy",
            aim=f"≤ {milliseconds(limit)} (+ {figures.plan.aim_share:.0%} or + 10 ms)",
            measured=milliseconds(beside),
            passed=figures.beside.events > 0 and beside <= limit,
        ),
        _none(f"{name}: missing at the healthy", figures.healthy_missing),
        _none(f"{name}: twice at the healthy", figures.healthy_duplicates),
        _none(f"{name}: refused by Hookline", figures.refused),
        _none(f"{name}: missing at the healed", missing, any(r.expected == 0 for r in figures.recoveries)),
        _none(f"{name}: twice at the healed", repeated),
        Check(
            name=f"{name}: growth of deliver",
            aim=f"≤ {_megabytes(GROWTH_BYTES_MAX)}",
            measured=_megabytes(growth),
            passed=growth <= GROWTH_BYTES_MAX,
        ),
        Check(
            name=f"{name}: retry rows of a destination",
            aim=f"≤ {LIMITS.retry_rows_max:,}",
            measured=f"{figures.rows.retries_of_one_lane:,}",
            passed=figures.rows.retries_of_one_lane <= LIMITS.retry_rows_max,
        ),
        _none(f"{name}: dead letters", figures.rows.dead_letters),
    ]


def _none(name: str, count: int, empty: bool = False) -> Check:
    return Check(name=name, aim="0", measured="nothing was sent" if empty else f"{count:,}", passed=not count + empty)


def _sections(figures: Figures) -> list[Section]:
    name = figures.plan.name[0].upper() + figures.plan.name[1:]
    return [
        Section(
            title=name,
            prose=f"{CASE_PROSE.get(figures.plan.name, '')} {figures.rate:,.0f} events/s.".strip(),
            columns=("healthy receivers", "p50", "p99", "longest", "deliveries"),
            rows=(_latency("alone", figures.alone), _latency("beside the sick", figures.beside)),
        ),
        Section(
            title=f"{name}: after healing",
            prose=(
                f"All had caught up {figures.recovery_seconds:.1f} s after they were healed. Resident memory of the "
                f"delivering role was {_megabytes(figures.deliver_bytes_before)} before and "
                f"{_megabytes(figures.deliver_bytes_after)} at the end of the sickness; its database held at most "
                f"{figures.rows.retries_of_one_lane:,} retry rows of one destination and {figures.rows.dead_letters:,} "
                "dead letters."
            ),
            columns=("receiver", "was to get", "missing", "twice"),
            rows=tuple(
                (r.sickness.value, f"{r.expected:,}", f"{r.missing:,}", f"{r.duplicates:,}") for r in figures.recoveries
            ),
        ),
    ]


def _latency(name: str, found: Latency) -> tuple[str, ...]:
    return name, milliseconds(found.p50), milliseconds(found.p99), milliseconds(found.longest), f"{found.events:,}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
