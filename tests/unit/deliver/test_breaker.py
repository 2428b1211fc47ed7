"""A lane's breaker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from hookline.deliver.lanes.breaker import Breaker
from hookline.limits import LIMITS


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
    assert (breaker.state, breaker.allowance) == ("narrowed", LIMITS.narrow_allowance)


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


def refuse(breaker: Breaker, count: int, seconds: float, start: float = 100.0) -> list[bool]:
    """So many refusals spread evenly over a time, the first one at its start."""
    return [breaker.refused(start + seconds * n / max(count - 1, 1), "refused 422") for n in range(count)]


def test_refusals_narrow_nothing() -> None:
    """However many come within a minute, the lane keeps its full allowance; a smaller one grows by them."""
    breaker = steady()
    assert not any(refuse(breaker, 10_000, 59.0))
    assert (breaker.state, breaker.allowance) == ("closed", LIMITS.full_allowance)
    fresh = Breaker()
    refuse(fresh, LIMITS.full_allowance, 1.0)
    assert fresh.allowance == LIMITS.full_allowance


def test_a_thousand_refusals_over_a_minute_open_it() -> None:
    """Both must be met; a success in between begins anew; and a success brings it back."""
    breaker = steady()
    assert not any(refuse(breaker, 999, 600.0))
    breaker.succeeded()
    assert refuse(breaker, 1_000, 60.0, start=1_000.0) == [False] * 999 + [True]
    assert (breaker.state, breaker.allowance, breaker.reason, breaker.refuses) == ("open", 0, "refused 422", True)
    assert not breaker.refused(2_000.0, "refused 422")
    assert breaker.succeeded()
    assert (breaker.refuses, breaker.refusals, breaker.allowance) == (False, 0, 1)


def test_refusals_do_not_hide_failures_of_the_receiver() -> None:
    """Where it refuses some for what they are and fails at all others, it is down: neither run breaks the other."""
    breaker = Breaker()
    opened = [breaker.refused(100.0 + n, "x") or breaker.failed(100.0 + n, "server_error 503") for n in range(20)]
    assert opened == [False] * 19 + [True]
    assert not breaker.refuses


def test_an_open_breaker_learns_that_only_refusals_come() -> None:
    """One that failures opened, or a restart found open, burns no more than a thousand events to a changed schema."""
    breaker = Breaker()
    breaker.open("open before the restart")
    assert refuse(breaker, 1_000, 60.0) == [False] * 999 + [True]
    assert breaker.refuses


def test_probes_are_a_minute_apart_at_most() -> None:
    """The first after a second, then twice as long each time; never longer than the user lets an event wait."""
    waits = [Breaker.probe_wait_seconds(probes, 600.0) for probes in range(9)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert Breaker.probe_wait_seconds(10_000, 5.0) == 5.0


def test_five_failures_narrow_the_lane() -> None:
    """Few events are spent on finding out whether a receiver is ill."""
    breaker = Breaker()
    while breaker.allowance < LIMITS.full_allowance:
        breaker.succeeded()
    fail(breaker, 4, 0.0)
    assert breaker.allowance == LIMITS.full_allowance
    fail(breaker, 1, 0.0)
    assert breaker.allowance == LIMITS.narrow_allowance


def test_successes_ramp_the_lane_up() -> None:
    """After an outage each success allows one more in flight: twice as many per round trip, from one on."""
    breaker = Breaker()
    breaker.open("gone")
    assert breaker.succeeded()
    ramp = [(breaker.allowance, breaker.state)]
    while not breaker.steady:
        assert not breaker.succeeded()
        ramp.append((breaker.allowance, breaker.state))
    assert [allowance for allowance, _ in ramp] == list(range(1, LIMITS.full_allowance + 1))
    assert [state for _, state in ramp[:8]] == ["narrowed"] * 7 + ["closed"]
    assert breaker.reason == ""


def steady(cap: int | None = None) -> Breaker:
    """A breaker of a lane in full health."""
    breaker = Breaker(cap)
    while not breaker.steady:
        breaker.succeeded()
    return breaker


def test_too_much_halves_the_allowance_once_per_round_trip() -> None:
    """Answers to what was sent before the halving say nothing new; an ordinary failure halves nothing."""
    breaker = steady()
    breaker.failed(100.0, "throttled 429", too_much=True, began_seconds=99.9)
    breaker.failed(100.1, "throttled 429", too_much=True, began_seconds=99.95)
    breaker.failed(100.2, "refused 401")
    assert breaker.allowance == LIMITS.full_allowance // 2
    breaker.failed(100.3, "throttled 429", too_much=True, began_seconds=100.05)
    assert breaker.allowance == LIMITS.full_allowance // 4


def test_beyond_the_last_halving_the_allowance_grows_slowly() -> None:
    """By one per round trip: so it stays near what the receiver can take instead of hitting it again at once."""
    breaker = steady()
    breaker.failed(100.0, "server_error 503", too_much=True)
    for _ in range(LIMITS.full_allowance // 2 - 1):
        breaker.succeeded()
    assert breaker.allowance == LIMITS.full_allowance // 2
    breaker.succeeded()
    assert breaker.allowance == LIMITS.full_allowance // 2 + 1


def test_a_slow_receiver_that_takes_all_is_given_more() -> None:
    """Beyond the full allowance only where more at once helps, and never beyond the most."""
    breaker = steady()
    for _ in range(100):
        breaker.succeeded()
    assert breaker.allowance == LIMITS.full_allowance
    for _ in range(100_000):
        breaker.succeeded(wants_more=True)
    assert breaker.allowance == LIMITS.allowance_max


def grown(answer_ms: Callable[[int], int], rounds: int, cap: int | None = None) -> list[int]:
    """Return the allowance after each round trip with a receiver whose answers take so long with so many at once."""
    breaker, found = Breaker(cap), []
    for _ in range(rounds):
        at_once = breaker.allowance
        for _ in range(at_once):
            breaker.succeeded(wants_more=True, milliseconds=answer_ms(at_once))
        found.append(breaker.allowance)
    return found


def test_a_receiver_far_away_is_given_twice_as_much_each_round_trip() -> None:
    """As long as answers come as quickly as with few at once, up to the most, or to what its user allows."""
    assert grown(lambda at_once: 300, 7) == [16, 32, 64, 128, 256, 512, 512]
    assert grown(lambda at_once: 300, 10, cap=4_096)[-2:] == [4_096, 4_096]


def test_the_time_that_new_connections_take_does_not_stop_the_growth() -> None:
    """Half of what a doubling sends leaves on new connections, and waits for their handshakes."""
    breaker = Breaker()
    for _ in range(9):
        for number in range(breaker.allowance):
            breaker.succeeded(wants_more=True, milliseconds=300 if number % 2 else 100)
    assert breaker.allowance == LIMITS.allowance_max


def test_a_receiver_that_queues_is_given_slowly_more_and_then_none() -> None:
    """A hundred requests are served at once, in 100 ms: doubling stops at three times that, all growth at ten times."""
    allowances = grown(lambda at_once: 100 * max(100, at_once) // 100, 400, cap=4_096)
    assert max(after - before for before, after in pairwise(allowances[6:])) == 1
    assert 300 < allowances[6] <= 520
    stalled = grown(lambda at_once: 100 * max(20, at_once) // 20, 400)
    assert stalled[-1] == stalled[-2] <= 256


def test_after_an_outage_it_grows_steeply_to_the_full_allowance_only() -> None:
    """A receiver that comes back is not given hundreds within moments."""
    breaker = Breaker()
    breaker.open("gone")
    for _ in range(LIMITS.full_allowance + 20):
        breaker.succeeded(wants_more=True, milliseconds=300)
    assert breaker.allowance == LIMITS.full_allowance


def test_the_users_cap_is_never_passed() -> None:
    """Neither at the start nor by growing, and a smaller cap takes effect at once."""
    breaker = steady(cap=3)
    breaker.succeeded(wants_more=True)
    assert (breaker.allowance, breaker.state) == (3, "closed")
    breaker.limit(2)
    assert breaker.allowance == 2
    breaker.limit(None)
    breaker.succeeded()
    assert breaker.allowance == 3


def test_a_new_lane_begins_small() -> None:
    """Before its first success a lane has a few requests in flight only."""
    assert (Breaker().state, Breaker().allowance) == ("closed", LIMITS.first_allowance)
