"""A lane's breaker."""

from __future__ import annotations

from hookline.deliver.breaker import FIRST_ALLOWANCE, FULL_ALLOWANCE, NARROW_ALLOWANCE, Breaker


def fail(breaker: Breaker, count: int, seconds: float, start: float = 100.0) -> list[bool]:
    """So many failures spread evenly over a time, the first one at its start."""
    return [breaker.failed(start + seconds * n / max(count - 1, 1), "server_error 500") for n in range(count)]


def test_twenty_failures_over_ten_seconds_open_it() -> None:
    """The twentieth failure of an unbroken run that lasts ten seconds opens the breaker, once."""
    breaker = Breaker()
    opened = fail(breaker, 20, 10.0)
    assert opened == [False] * 19 + [True]
    assert (breaker.state, breaker.allowance, breaker.reason) == ("open", 0, "server_error 500")
    assert not breaker.failed(200.0, "timed_out")


def test_nineteen_failures_do_not_open_it() -> None:
    """However long it lasts, a run shorter than twenty only narrows the lane."""
    breaker = Breaker()
    assert not any(fail(breaker, 19, 500.0))
    assert (breaker.state, breaker.allowance) == ("narrowed", NARROW_ALLOWANCE)


def test_twenty_failures_in_two_seconds_do_not_open_it() -> None:
    """A burst makes the lane suspect; only when the run has lasted ten seconds does it open."""
    breaker = Breaker()
    assert not any(fail(breaker, 20, 2.0))
    assert (breaker.state, breaker.allowance) == ("suspect", 0)
    assert not breaker.failed(109.9, "x")
    assert breaker.failed(110.0, "x")


def test_a_success_in_between_begins_anew() -> None:
    """One success breaks the run: both its number and its time."""
    breaker = Breaker()
    fail(breaker, 19, 60.0)
    assert not breaker.succeeded()
    assert not any(fail(breaker, 19, 9.0, start=200.0))
    assert not breaker.failed(209.5, "x")
    assert breaker.state == "suspect"


def test_five_failures_narrow_the_lane() -> None:
    """Few events are spent on finding out whether a receiver is ill."""
    breaker = Breaker()
    while breaker.allowance < FULL_ALLOWANCE:
        breaker.succeeded()
    fail(breaker, 4, 0.0)
    assert breaker.allowance == FULL_ALLOWANCE
    fail(breaker, 1, 0.0)
    assert breaker.allowance == NARROW_ALLOWANCE


def test_successes_ramp_the_lane_up() -> None:
    """After an outage each success doubles what may be in flight, up to the full allowance; then it is closed."""
    breaker = Breaker()
    breaker.open("gone")
    assert breaker.succeeded()
    ramp = [breaker.allowance]
    while breaker.state != "closed":
        assert not breaker.succeeded()
        ramp.append(breaker.allowance)
    assert ramp == [2, 4, 8, 16, 32, FULL_ALLOWANCE]
    assert breaker.reason == ""


def test_a_new_lane_begins_small() -> None:
    """Before its first success a lane has a few requests in flight only."""
    assert (Breaker().state, Breaker().allowance) == ("closed", FIRST_ALLOWANCE)
