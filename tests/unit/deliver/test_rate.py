"""A lane's rate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hookline.deliver.lanes.order import BURST_MIN, BURST_SECONDS, Rate


@given(
    st.floats(0.01, 10_000),
    st.lists(st.tuples(st.floats(0, 5), st.integers(0, 1_000)), max_size=50),
)
def test_never_more_than_the_rate_and_one_burst(per_second: float, steps: list[tuple[float, int]]) -> None:
    """Whatever is asked for when, what begins in a span stays within the rate plus the kept burst."""
    rate = Rate(per_second)
    now = start = 1_000.0
    begun = 0
    for wait, wanted in steps:
        now += wait
        count = min(wanted, rate.available(now))
        rate.take(count)
        begun += count
        assert begun <= (now - start) * per_second + max(BURST_MIN, per_second * BURST_SECONDS) + 1e-6


def test_what_was_urgent_is_paid_for_later() -> None:
    """A probe goes out although nothing is available; then the lane waits the longer."""
    rate = Rate(1.0)
    rate.take(rate.available(10.0))
    rate.take(1)
    assert rate.available(11.0) == 0
    assert rate.available(12.0) == 1


def test_a_slow_rate_is_reached() -> None:
    """Looking at odd moments loses nothing: ten a second are ten a second."""
    rate = Rate(10.0)
    begun, now = 0, 100.0
    while now < 110.0:
        now += 0.053
        count = rate.available(now)
        rate.take(count)
        begun += count
    assert 99 <= begun <= 103
