"""How long the profiles role rests for others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hookline.people.ingest import cpu_throttle
from hookline.people.ingest.cpu_throttle import RESTS, CpuThrottle, memory_bytes


def test_it_rests_for_what_it_waited_and_no_longer_than_for_what_it_worked(tmp_path: Path) -> None:
    times = tmp_path / "schedstat"
    times.write_text("5000000000 7000000000 3\n")
    throttle = CpuThrottle(times)
    assert (throttle.rest_seconds(), throttle.is_busy) == (0, False)
    times.write_text("6000000000 7250000000 4\n")
    assert (throttle.rest_seconds(), throttle.is_busy) == (RESTS * 0.25, False)
    times.write_text("6010000000 9250000000 5\n")
    assert (round(throttle.rest_seconds(), 6), throttle.is_busy) == (RESTS * 0.01, True)
    times.write_text("9010000000 9250000000 6\n")
    assert (throttle.rest_seconds(), throttle.is_busy) == (0, False)


def test_nobody_rests_where_the_system_does_not_tell(tmp_path: Path) -> None:
    assert CpuThrottle(tmp_path / "nothing").rest_seconds() == 0


def test_this_system_tells_of_work() -> None:
    """Linux with scheduler statistics, as everywhere the tests run; elsewhere it is the test before this one."""
    throttle = CpuThrottle()
    sum(number * number for number in range(1_000_000))
    assert throttle._times().worked > throttle._last.worked


def test_a_container_may_have_less_memory_than_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``max`` is no limit, and where the system tells none the machine's memory is meant."""
    limit, machine = tmp_path / "memory.max", os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(cpu_throttle, "MEMORY_LIMIT", limit)
    assert memory_bytes() == machine
    for text, expected in (("max\n", machine), (f"{machine * 2}\n", machine), ("1048576\n", 1048576)):
        limit.write_text(text)
        assert memory_bytes() == expected
