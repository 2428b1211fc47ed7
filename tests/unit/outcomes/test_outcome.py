"""The closed set of outcomes."""

from __future__ import annotations

import pytest

from hookline.outcomes.outcome import FINAL, JUDGED, WITHOUT_STATUS, Outcome, from_number, of_status, to_number


def test_each_status_has_its_outcome() -> None:
    """Any 2xx succeeds; 408, 429 and 5xx are tried again; every other answer is final."""
    for status in range(100, 600):
        outcome = of_status(status)
        assert (outcome is Outcome.SUCCESS) == (200 <= status < 300)
        retried = status in (408, 429) or status >= 500
        assert (outcome in FINAL) == (not retried and outcome is not Outcome.SUCCESS)


@pytest.mark.parametrize("outcome", WITHOUT_STATUS)
def test_an_outcome_without_status_fits_a_number(outcome: Outcome) -> None:
    """Each is read back as what it was, and never taken for a status."""
    number = to_number(outcome, None)
    assert number < 100
    assert from_number(number) == (outcome, None)


@pytest.mark.parametrize("outcome", JUDGED)
@pytest.mark.parametrize("status", [100, 200, 204, 299, 429, 500, 599])
def test_what_a_body_says_fits_a_number(outcome: Outcome, status: int) -> None:
    """A status that was judged otherwise is read back with both, and no 2xx of them is taken for a success."""
    number = to_number(outcome, status)
    assert not 200 <= number < 300
    assert from_number(number) == (outcome, status)


def test_every_outcome_can_be_written_down() -> None:
    """Outcomes either stand for a status or have a number of their own."""
    with_status = {of_status(status) for status in range(100, 600)}
    assert with_status | set(WITHOUT_STATUS) == set(Outcome)
