"""kill -9 at every named point and in the middle of writes: what was acknowledged is there after opening again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hookline.journal.conformance import records_of
from hookline.journal.local.reader import LocalReader
from hookline.journal.local.segment import list_segments, segment_name
from hookline.telemetry.crashpoints import CRASH_POINTS, ENVIRONMENT_NAME
from tests.unit.journal import crash_child

JOURNAL_POINTS = [name for name in CRASH_POINTS if name.startswith("journal.") and "recovery" not in name]
ROOT = Path(__file__).parents[3]


class Ledger:
    """What the children said before they were killed."""

    def __init__(self) -> None:
        self.acked: set[int] = set()
        self.erased: set[int] = set()

    def run(self, journal: Path, first: int, **environment: str) -> int:
        """Run a child to its end; return its exit code."""
        child = subprocess.run(
            [sys.executable, "-m", crash_child.__name__, str(journal), str(first)],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
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
        numbers = [int.from_bytes(r.fingerprint, "big") if not r.erased else -1 for r in records]
        kept = [number for number in numbers if number >= 0]
        assert kept == sorted(set(kept))
        for offset in self.erased:
            assert offset < start or records[offset - start].erased
        missing = self.acked - set(kept)
        gone = start + numbers.count(-1)
        assert len(missing) <= gone
        assert all(number < kept[0] + numbers.count(-1) for number in missing)
        reader.close()


def reopen(open_appender: Any) -> None:
    """Open for appending as the restarted process would, and close."""

    async def run() -> None:
        await open_appender().close()

    asyncio.run(run())


@pytest.mark.parametrize("passage", [1, 3])
@pytest.mark.parametrize("point", JOURNAL_POINTS)
def test_a_kill_at_any_point_loses_nothing(journal: Path, open_appender: Any, point: str, passage: int) -> None:
    """The child dies exactly there; after opening again all it had acknowledged is there, and appending goes on."""
    ledger = Ledger()
    ledger.run(journal, 0)
    code = ledger.run(journal, 1_000, **{ENVIRONMENT_NAME: f"{point}:{passage}"})
    assert code == -signal.SIGKILL
    reopen(open_appender)
    ledger.check(journal)
    assert ledger.run(journal, 2_000) == 0
    ledger.check(journal)


@pytest.mark.parametrize("writes", [1, 2, 7, 30, 61])
def test_a_kill_in_the_middle_of_a_write_loses_nothing(journal: Path, open_appender: Any, writes: int) -> None:
    """Half of a write reaches the file, whichever it is; what was acknowledged before stays."""
    ledger = Ledger()
    assert ledger.run(journal, 0, HOOKLINE_TEST_WRITES=str(writes)) == -signal.SIGKILL
    reopen(open_appender)
    ledger.check(journal)
    assert ledger.run(journal, 1_000) == 0
    ledger.check(journal)


@pytest.mark.parametrize("point", ["journal.recovery_cut_saved", "journal.recovery_before_publish"])
def test_a_kill_in_recovery_is_recovered_from(journal: Path, open_appender: Any, point: str) -> None:
    """Recovery that dies can be done again from the start."""
    ledger = Ledger()
    assert ledger.run(journal, 0) == 0
    last = journal / "0" / segment_name(list_segments(journal / "0")[-1])
    data = last.read_bytes()
    with last.open("r+b") as file:
        file.seek(len(data.rstrip(b"\0")))
        file.write(b"\x01garbage" * 20)
    for _ in range(2):
        assert ledger.run(journal, 5_000, **{ENVIRONMENT_NAME: point}) == -signal.SIGKILL
    reopen(open_appender)
    ledger.check(journal)
