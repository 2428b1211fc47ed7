"""The report's other kinds of damage at their smallest: each does its damage, and nothing is lost."""

from __future__ import annotations

from bench.crash.failed_calls import failed_calls
from bench.crash.full_disk import full_disk


def test_a_disk_that_is_full_for_a_moment() -> None:
    """Refused meanwhile with 503 and nothing else, back by itself, nothing lost."""
    score = full_disk(1.0, 500)
    print(f"\n{score}")
    assert (score.not_run, score.failures, score.lost) == (None, (), 0)
    assert score.expected > 0


def test_the_first_call_of_each_kind_fails() -> None:
    """At least one run had a call that failed, and none lost an event."""
    score = failed_calls("deliver", 1)
    print(f"\n{score}")
    assert (score.not_run, score.failures, score.lost) == (None, (), 0)
    assert score.cycles > 0
