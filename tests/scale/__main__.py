"""``python -m tests.scale``: measure how the service grows on Kafka and PostgreSQL, and write the report and the page
about sizes anew. ``make scale`` measures everything; with ``--only`` the other half of the report stays as it is."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hookline.bench.machine import leave_on_sigterm
from tests.scale import crowd, workers
from tests.scale.fleet import Site
from tests.scale.report import REPORT, Report, read, write

EVENTS = 80_000
ROUNDS = 3
SECONDS = 30.0
RATE_PER_SECOND = 500.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report; 0 when every aim is met."""
    options = _options().parse_args(arguments)
    leave_on_sigterm()
    report = read() if REPORT.exists() else Report()
    with TemporaryDirectory(prefix="hookline-scale-") as folder, Site(Path(folder)) as site:
        if options.only != "crowd":
            report.work = _work(site, options.events, options.rounds)
        if options.only != "workers":
            _tell(f"{crowd.DESTINATIONS:,} destinations")
            report.crowd = crowd.measure(site, options.seconds, options.rate)
    page = write(report) if options.write else report.page()
    page.print()
    return int(not page.passed)


def _work(site: Site, events: int, rounds: int) -> list[workers.Work]:
    _tell("embedded")
    found = [workers.embedded(events, rounds)]
    for count in workers.WORKERS:
        _tell(f"{count} workers")
        found.append(workers.on_kafka(site, count, events, rounds))
    return found


def _tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} measuring {what} …", file=sys.stderr, flush=True)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.scale", description=__doc__)
    parser.add_argument("--only", choices=("workers", "crowd"), help="measure one half")
    parser.add_argument("--events", type=int, default=EVENTS, help="events in the topic of each round of the workers")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of the workers that count")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="each stretch of load of the crowd")
    parser.add_argument("--rate", type=float, default=RATE_PER_SECOND, help="events a second of the crowd")
    parser.add_argument(
        "--write", action="store_true", help="write docs/reports/scale.* and docs/explanation/sizing.md anew"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
