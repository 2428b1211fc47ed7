"""The service's own time: it goes on with the machine, whatever the wall clock is set to."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from hookline.database import steady_clock
from hookline.database.steady_clock import SLACK_MS, SteadyClock, kept_in, steady_clock_of
from hookline.settings import Database, Journal, Settings
from tests.postgres import TEMPLATE, PostgresServer

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NEAR_MS = 5_000
"""What a step of a test may take on a busy machine."""


class Machine:
    """A machine whose wall clock can be set and that can be started anew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_ms = 1_795_158_000_000
        self.running_ms = 10_000
        self.boot = b"1" * 16
        monkeypatch.setattr(steady_clock, "_wall_ms", lambda: self.wall_ms)
        monkeypatch.setattr(steady_clock, "_running_ms", lambda: self.running_ms)
        monkeypatch.setattr(steady_clock, "_boot", lambda: self.boot)

    def passes(self, ms: int) -> None:
        """Let time pass."""
        self.wall_ms += ms
        self.running_ms += ms

    def starts_anew(self, after_ms: int) -> None:
        """Be off for a while, by the wall clock."""
        self.wall_ms += after_ms
        self.running_ms, self.boot = 500, b"2" * 16


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with its clocks."""
    return Machine(monkeypatch)


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS, 40 * DAY_MS, -40 * DAY_MS, -1_795_158_000_000])
def test_a_jump_moves_nothing(machine: Machine, tmp_path: Path, jump_ms: int) -> None:
    """Neither within a run nor for the next process on the same machine; and by how much it was is known."""
    clock = kept_in(tmp_path / "clock")
    began_ms = clock.now_ms()
    machine.wall_ms += jump_ms
    machine.passes(1_000)
    assert clock.now_ms() == kept_in(tmp_path / "clock").now_ms() == began_ms + 1_000
    assert clock.ahead_ms == jump_ms
    assert clock.wall_ms(began_ms) == machine.wall_ms - 1_000


def test_after_a_start_of_the_machine_the_wall_clock_says_how_long_it_was_off(machine: Machine, tmp_path: Path) -> None:
    """The time since it was written down last, by the wall clock."""
    clock = kept_in(tmp_path / "clock")
    machine.passes(HOUR_MS)
    clock.keep()
    kept_ms = clock.now_ms()
    machine.starts_anew(after_ms=2 * HOUR_MS)
    assert kept_in(tmp_path / "clock").now_ms() == kept_ms + 2 * HOUR_MS


def test_time_never_goes_back(machine: Machine, tmp_path: Path) -> None:
    """A machine that comes up in 1970 goes on from what was written down."""
    kept_ms = kept_in(tmp_path / "clock").now_ms()
    machine.starts_anew(after_ms=-machine.wall_ms)
    assert kept_in(tmp_path / "clock").now_ms() == kept_ms


def test_a_file_that_is_no_clock_is_begun_anew(machine: Machine, tmp_path: Path) -> None:
    """A torn or foreign file counts for nothing: time begins with the wall clock's."""
    (tmp_path / "clock").write_bytes(b"HOOKTIME" + bytes(60))
    assert kept_in(tmp_path / "clock").now_ms() == machine.wall_ms


def test_a_disk_that_refuses_ends_nobody(machine: Machine, tmp_path: Path) -> None:
    """The clock runs all the same; it is only not kept."""
    clock = kept_in(tmp_path / "no" / "such" / "folder")
    clock.keep()
    assert clock.now_ms() == machine.wall_ms


def test_slewing_is_no_jump(machine: Machine) -> None:
    """What clocks are corrected by all the time is not told."""
    clock = SteadyClock(machine.wall_ms)
    machine.wall_ms += SLACK_MS - 1
    assert clock.ahead_ms == 0


def test_the_machine_has_these_clocks(tmp_path: Path) -> None:
    """Without stand-ins: it begins with the wall clock's time, and processes of a folder agree."""
    clock, other = kept_in(tmp_path / "clock"), kept_in(tmp_path / "clock")
    assert abs(clock.now_ms() - time.time() * 1000) < NEAR_MS
    assert abs(clock.now_ms() - other.now_ms()) < NEAR_MS


def test_machines_that_share_a_journal_begin_with_the_databases_time(
    machine: Machine, postgres: PostgresServer, tmp_path: Path
) -> None:
    """A machine whose clock is 40 days off agrees with the others; while the server is away it goes on from that."""
    machine.wall_ms += 40 * DAY_MS
    with postgres.database(TEMPLATE) as url:
        shared = Settings(
            data_dir=str(tmp_path), journal=Journal(url="kafka://broker/events"), database=Database(url=url)
        )
        clock = steady_clock_of(shared)
        clock.keep()
        assert abs(clock.now_ms() - time.time() * 1000) < NEAR_MS
    away = msgspec.structs.replace(shared, database=Database(url="postgresql://127.0.0.1:1/nobody"))
    assert steady_clock_of(away).now_ms() == clock.now_ms()
