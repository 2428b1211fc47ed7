"""How long the profiles role rests for others."""

from __future__ import annotations

from pathlib import Path

from hookline.profiles.courtesy import RESTS, Courtesy


def test_it_rests_for_what_it_waited_and_no_longer_than_for_what_it_worked(tmp_path: Path) -> None:
    times = tmp_path / "schedstat"
    times.write_text("5000000000 7000000000 3\n")
    courtesy = Courtesy(times)
    assert (courtesy.rest_seconds(), courtesy.is_busy) == (0, False)
    times.write_text("6000000000 7250000000 4\n")
    assert (courtesy.rest_seconds(), courtesy.is_busy) == (RESTS * 0.25, False)
    times.write_text("6010000000 9250000000 5\n")
    assert (round(courtesy.rest_seconds(), 6), courtesy.is_busy) == (RESTS * 0.01, True)
    times.write_text("9010000000 9250000000 6\n")
    assert (courtesy.rest_seconds(), courtesy.is_busy) == (0, False)


def test_nobody_rests_where_the_system_does_not_tell(tmp_path: Path) -> None:
    assert Courtesy(tmp_path / "nothing").rest_seconds() == 0


def test_this_system_tells_of_work() -> None:
    """Linux with scheduler statistics, as everywhere the tests run; elsewhere it is the test before this one."""
    courtesy = Courtesy()
    sum(number * number for number in range(1_000_000))
    assert courtesy._times().worked > courtesy._last.worked
