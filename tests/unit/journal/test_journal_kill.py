"""kill -9 at every named point and in the middle of writes: what was acknowledged is there after opening again."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hookline.journal.conformance import records_of
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.local.segment import list_segments, segment_name
from hookline.telemetry.crashpoints import CRASH_POINTS, ENVIRONMENT_NAME
from tests.unit.journal import crash_child

JOURNAL_POINTS = [name for name in CRASH_POINTS if name.startswith("journal.") and "recovery" not in name]
ROOT = Path(__file__).parents[3]


class Ledger:
    """What the children said before they were killed."""

    def __init__(self, other: Ledger | None = None) -> None:
        self.acked = set(other.acked) if other else set[int]()
        self.erased = set(other.erased) if other else set[int]()

    def run(self, journal: Path, first: int, **environment: str) -> int:
        """Run a child to its end; return its exit code."""
        child = subprocess.run(
            [sys.executable, "-m", crash_child.__name__, str(journal), str(first)],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        for line in child.stdout.splitlines():
            word, number = line.split()
            (self.acked if word == "acked" else self.erased).add(int(number))
        assert child.returncode in (0, -signal.SIGKILL), child.stderr
        return child.returncode

    def check(self, journal: Path) -> None:
        """Everything acknowledged is in the journal once and in order, or was dropped; what was erased is erased."""
        reader = LocalReader(journal)
        start = reader.start(0)
        records = records_of(list(reader.read(0, start)))
        numbers = [record.received_at for record in records]  # which erasing leaves
        assert numbers == sorted(set(numbers))
        dropped = {number for number in self.acked if number < numbers[0]}
        assert self.acked - set(numbers) == dropped
        assert len(dropped) <= start
        for offset in self.erased:
            assert offset < start or records[offset - start].erased
        reader.close()


@pytest.fixture(scope="module")
def first_life(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ledger]:
    """A journal of several segments, and the ledger of the child that filled it and was not killed."""
    journal, ledger = tmp_path_factory.mktemp("first") / "journal", Ledger()
    assert ledger.run(journal, 0) == 0
    return journal, ledger


@pytest.fixture
def lived_in(first_life: tuple[Path, Ledger], journal: Path) -> Ledger:
    """Makes the test's journal a copy of that one; gives a copy of its ledger."""
    shutil.copytree(first_life[0], journal)
    return Ledger(first_life[1])


def reopen(open_appender: Any) -> None:
    """Open for appending as the restarted process would, and close."""

    async def run() -> None:
        await open_appender().close()

    asyncio.run(run())


@pytest.mark.parametrize("point", JOURNAL_POINTS)
def test_a_kill_at_any_point_loses_nothing(lived_in: Ledger, journal: Path, open_appender: Any, point: str) -> None:
    """The child dies exactly there; after opening again all it had acknowledged is there, and appending goes on."""
    ledger = lived_in
    assert ledger.run(journal, 1_000, **{ENVIRONMENT_NAME: f"{point}:2"}) == -signal.SIGKILL
    reopen(open_appender)
    ledger.check(journal)
    assert ledger.run(journal, 2_000) == 0
    ledger.check(journal)


@pytest.mark.parametrize("writes", [1, 7, 30])
def test_a_kill_in_the_middle_of_a_write_loses_nothing(journal: Path, open_appender: Any, writes: int) -> None:
    """Half of a write reaches the file, whichever it is; what was acknowledged before stays."""
    ledger = Ledger()
    assert ledger.run(journal, 0, HOOKLINE_TEST_WRITES=str(writes)) == -signal.SIGKILL
    reopen(open_appender)
    ledger.check(journal)
    assert ledger.run(journal, 1_000) == 0
    ledger.check(journal)


@pytest.mark.parametrize("point", ["journal.recovery_cut_saved", "journal.recovery_before_publish"])
def test_a_kill_in_recovery_is_recovered_from(lived_in: Ledger, journal: Path, open_appender: Any, point: str) -> None:
    """Recovery that dies can be done again from the start."""
    ledger = lived_in
    last = journal / "0" / segment_name(list_segments(journal / "0")[-1])
    data = last.read_bytes()
    with last.open("r+b") as file:
        file.seek(len(data.rstrip(b"\0")))
        file.write(b"\x01garbage" * 20)
    for _ in range(2):
        assert ledger.run(journal, 5_000, **{ENVIRONMENT_NAME: point}) == -signal.SIGKILL
    reopen(open_appender)
    ledger.check(journal)
