"""A rolling upgrade of three machines on Kafka and PostgreSQL, under load: ``python -m tests.faults.rolling``.

The older version is this code; the newer one is a copy of it with a version of its own and one more migration of every
schema, which adds a column to a table that is in use, and a table. Machines are taken to the newer version one after
another, killed in the middle, and a machine that goes back meets what it can no longer write to.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from bench.page import Check, Page, Section

from hookline.bench.machine import leave_on_sigterm, wait_until
from hookline.database.location import Which
from hookline.database.migrate import HEADS
from tests.faults.balance import Balance
from tests.faults.load import BACK_SECONDS_MAX, ROOT
from tests.faults.report import DUPLICATE_SHARE_MAX
from tests.faults.stage import Stage
from tests.kafka.cluster import Cluster, Place
from tests.postgres import PostgresServer
from tests.service.harness import Hookline

NEXT_VERSION = "0.2.0"
MACHINES = ("first", "second", "third")
IN_USE: dict[Which, str] = {
    "control": "objects",
    "deliver": "checkpoints",
    "insights": "total_series",
    "privacy": "suppressions",
    "profiles": "persons",
}
"""A table of each schema that gets a column."""
NUMBERS = "SELECT version_num FROM hookline_{}.alembic_version"
SESSION = "10s"
TOKEN = "a-token-of-all-machines"
KILLED_AFTER_SECONDS = 0.7
"""From the start of a machine until it is killed: it is about to migrate, or migrates."""
STEADY_SECONDS = 3.0
USAGE_SECONDS_MAX = 30.0
BUCKET_SECONDS = 10.0
"""What the time series of a process that is ended may lack: its current time bucket (docs/architecture.md)."""
ENDED_DELIVERS = 5
"""Those of the third machine (stopped, killed), the first (killed, stopped) and the second (stopped)."""

PROSE = """\
Three machines run everything (`hookline up`) on three Kafka brokers and one PostgreSQL database. {rate:,.0f} events
a second come in; sender, receiver and their ledgers are those of the [fault report](faults.md). The older version
is {old}; the newer one, {new}, is the same code with one more migration of each of the five schemas: it adds a column
to a table that is in use, and makes a table."""


class Step:
    """What was done, and what the databases and machines were afterwards."""

    def __init__(self, what: str, migrated: Sequence[str], standing_by: Sequence[str]) -> None:
        self.row = (what, ", ".join(migrated) or "none", ", ".join(standing_by) or "none")


class Rolling:
    """The steps of the upgrade, each until all goes through again."""

    def __init__(self, stage: Stage, folders: Sequence[Path]) -> None:
        self.stage = stage
        self.old, self.next = folders
        self.steps: list[Step] = []

    def play(self) -> None:
        """Take every machine to the newer version, and one of them back for a while."""
        first, second, third = self.stage.machines
        self.done("all machines run the older version")
        self.stage.inject("third: the newer version, killed while it starts")
        third.stop()
        self.launch(third, self.next)
        time.sleep(KILLED_AFTER_SECONDS)
        third.kill9()
        self.start(third, self.next)
        self.go_on(
            "the third machine is stopped, and started with the newer version; killed (kill -9) and started again"
        )
        self.stage.inject("first: its deliver of the older version is killed")
        os.kill(first.role("deliver"), signal.SIGKILL)
        self.stage.wait_until_level()
        wait_until(lambda: self.stands_by(first, "deliver"), BACK_SECONDS_MAX, "the older deliver stands by")
        self.go_on("the deliver of the first machine, the older version, is killed: its supervisor starts it again")
        self.stage.inject("first: killed, and the newer version")
        first.kill9()
        self.start(first, self.next)
        self.go_on("the first machine is killed (kill -9), and started with the newer version")
        self.stage.inject("second: the newer version")
        second.stop()
        self.start(second, self.next)
        self.stage.wait_for_owners()
        wait_until(lambda: len(self.migrated()) == len(HEADS), BACK_SECONDS_MAX, "all schemas are migrated")
        self.go_on("the second machine is stopped, and started with the newer version")
        self.stage.inject("first: back to the older version")
        first.stop()
        self.start(first, self.old)
        wait_until(lambda: self.stands_by(first, "deliver"), BACK_SECONDS_MAX, "it stands by")
        self.go_on("the first machine goes back to the older version")
        self.stage.inject("first: the newer version again")
        first.stop()
        self.start(first, self.next)
        self.stage.wait_for_owners()
        self.go_on("the first machine is started with the newer version again")

    def start(self, machine: Hookline, version: Path) -> None:
        """Start a machine with the code of a version; return when it takes events."""
        self.launch(machine, version)
        self.stage.wait_until_collecting(machine)

    def launch(self, machine: Hookline, version: Path) -> None:
        """Start a machine with the code of a version."""
        machine.environment["PYTHONPATH"] = f"{version}:{ROOT}"
        machine.seen = len(machine.log)  # type: ignore[attr-defined]
        machine.launch()

    def go_on(self, what: str) -> None:
        """Wait until all goes through again, and note how things are."""
        for machine in self.stage.machines:
            self.stage.wait_until_collecting(machine)
        self.stage.wait_until_level()
        self.stage.go_on_for(STEADY_SECONDS)
        self.done(what)

    def done(self, what: str) -> None:
        """Note how things are."""
        standing = [
            f"{role} of the {machine.folder.name}"
            for machine in self.stage.machines
            for role in ("deliver", "profiles", "control")
            if self.stands_by(machine, role)
        ]
        self.steps.append(Step(what, self.migrated(), standing))
        print(time.strftime("%H:%M:%S"), self.steps[-1].row, file=sys.stderr, flush=True)

    def migrated(self) -> list[Which]:
        """The schemas that the newer version has brought further."""
        url = self.stage.server.url("postgres")
        return [
            which
            for which in get_args(Which)
            if self.stage.server.run(url, NUMBERS.format(which)) == [(f"{which}_{HEADS[which] + 1:04}",)]
        ]

    def stands_by(self, machine: Hookline, role: str) -> bool:
        """Whether a role has said, since its machine was started, that a newer version owns what it writes to."""
        lines = machine.log[getattr(machine, "seen", 0) :].splitlines()
        said = (f'"role": "{role}"', '"standing_by"', "was written by a newer Hookline")
        return any(all(word in line for word in said) for line in lines)


def next_version(folder: Path) -> Path:
    """Make the newer version."""
    shutil.copytree(ROOT / "src", folder / "next", ignore=shutil.ignore_patterns("__pycache__"))
    code = folder / "next" / "hookline"
    version = code / "__init__.py"
    version.write_text(version.read_text().replace('"0.1.0"', f'"{NEXT_VERSION}"'))
    for which, table in IN_USE.items():
        step = code / "database" / "migrations" / which / f"{HEADS[which] + 1:04}_next.sql"
        step.write_text(
            f"-- What the next version adds.\n\nALTER TABLE {table} ADD COLUMN next TEXT;\n"
            f"CREATE TABLE next_{which} (\n    id INTEGER NOT NULL,\n    PRIMARY KEY (id)\n);\n"
        )
    return folder / "next"


def old_version(folder: Path) -> Path:
    """Make the older version: this code, as it is now, whatever is changed here meanwhile."""
    return Path(shutil.copytree(ROOT / "src", folder / "old", ignore=shutil.ignore_patterns("__pycache__")))


def usage(machine: Hookline) -> tuple[int, int]:
    """Events of the source and deliveries, as the usage figures count them."""
    events = machine.api("GET", "usage").json["events"]
    items = machine.api("GET", "usage/destinations").json["items"]
    return events, sum(each["delivered"] for each in items)


def play(rate: float) -> tuple[Page, bool]:
    """Do it, and return what came of it."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hookline-rolling-")))
        versions = (old_version(folder), next_version(folder))
        cluster = stack.enter_context(Cluster(folder / "kafka", [Place()] * 3))
        server = PostgresServer()
        stack.callback(server.remove)
        own: dict[str, Any] = {"workers": 0, "session": SESSION, "has_audience": True, "rate": rate}
        stage = Stage(folder, cluster, server, machines=MACHINES, **own)
        for machine in stage.machines:
            machine.environment |= {"PYTHONPATH": f"{versions[0]}:{ROOT}", "HOOKLINE_CONTROL_ADMIN_TOKEN": TOKEN}
        stack.enter_context(stage)
        stage.start_load()
        rolling = Rolling(stage, versions)
        try:
            rolling.play()
        except TimeoutError as error:
            stage.failures.append(str(error))
        counted = stage.settle()
        stage.failures += [f"an unexpected error: {trace[-300:]}" for trace in stage.tracebacks()]
        found = counts(stage, counted)
        return page(rate, rolling.steps, counted, found, stage.failures), not stage.failures


def counts(stage: Stage, counted: Balance) -> tuple[int, int]:
    """The usage figures, once they have come to the end."""
    machine = next(m for m in stage.machines if m.api("GET", "usage").status == 200)
    with contextlib.suppress(TimeoutError):
        wait_until(
            lambda: min(usage(machine)) >= counted.arrived, USAGE_SECONDS_MAX, "usage", lambda: sum(usage(machine))
        )
    return usage(machine)


def page(rate: float, steps: Sequence[Step], counted: Balance, found: tuple[int, int], failures: Sequence[str]) -> Page:
    """The report."""
    share = counted.duplicate_share
    events, delivered = found
    buckets = int(ENDED_DELIVERS * BUCKET_SECONDS * rate / len(MACHINES))
    least, most = counted.arrived - buckets, counted.arrived + counted.duplicates
    aims = [
        Check(name="lost", aim="0", measured=f"{counted.lost:,}", passed=counted.lost == 0 < counted.acknowledged),
        Check(
            name="sent twice",
            aim=f"≤ {DUPLICATE_SHARE_MAX:.1%}",
            measured=f"{counted.duplicates:,} ({share:.3%})",
            passed=share <= DUPLICATE_SHARE_MAX,
        ),
        Check(
            name="calls with an answer that is not 200 or 503",
            aim="0",
            measured=f"{counted.unexpected:,}",
            passed=not counted.unexpected,
        ),
        Check(
            name="events in the usage figures",
            aim=f"{counted.arrived:,}",
            measured=f"{events:,}",
            passed=events == counted.arrived,
        ),
        Check(
            name="deliveries in the charts and in the usage by destination",
            aim=f"{least:,} to {most:,}",
            measured=f"{delivered:,}",
            passed=least <= delivered <= most,
        ),
        *(Check(name="as promised", aim="nothing fails", measured=each, passed=False) for each in failures),
    ]
    from hookline import __version__

    return Page(
        title="Upgrade report",
        prose=PROSE.format(rate=rate, old=__version__, new=NEXT_VERSION),
        command="make upgrades",
        sections=(
            Section(
                title="Step by step",
                prose="Each step begins when all events go through again. A role stands by where a newer version owns"
                " what it writes to; events are taken and delivered by the others meanwhile.",
                columns=("step", "schemas migrated by then", "roles of the older version that stand by"),
                rows=tuple(step.row for step in steps),
            ),
            Section(
                title="What came of the events",
                prose="*refused* are calls answered 503, *cut off* those whose connection broke or was refused: a"
                " machine is stopped and killed under them. Both were sent again. Charts lack the current ten seconds"
                " of a deliver that is ended, as they do without an upgrade.",
                columns=("acknowledged", "arrived", "lost", "twice", "refused", "cut off"),
                rows=(
                    tuple(
                        f"{n:,}"
                        for n in (
                            counted.acknowledged,
                            counted.arrived,
                            counted.lost,
                            counted.duplicates,
                            counted.refused,
                            counted.cut_off,
                        )
                    ),
                ),
            ),
        ),
        checks=tuple(aims),
    )


def main() -> int:
    """Read the options and do it; 1 when an aim is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.rolling", description=__doc__)
    parser.add_argument("--rate", type=float, default=1_000.0, help="events per second (%(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    options = parser.parse_args()
    leave_on_sigterm()
    report, _ = play(options.rate)
    report.print()
    if options.write is not None:
        report.write(options.write)
    return int(not report.passed)


if __name__ == "__main__":
    sys.exit(main())
