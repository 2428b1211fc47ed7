"""Computed traits: each aggregate against its plainest form, and how long a value stays."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.connections.definitions.model import ComputedTrait
from hookline.people.definitions.aggregates import AGGREGATES, NEVER, UNIQUE_LIST_MAX
from hookline.people.definitions.definition import compile_trait, compute
from hookline.people.definitions.feature import Entry
from tests.unit.people.definitions.examples import MINUTES, START_MS, WHERES, moments, people, stretches
from tests.unit.people.definitions.people import MINUTE_MS, Event, Person, counts, fits, trait, value_at

PERIOD_MS = 86_400_000


@st.composite
def traits(draw: st.DrawFn) -> ComputedTrait:
    """A computed trait as a file has it."""
    aggregate = draw(st.sampled_from(sorted(AGGREGATES)))
    written: dict[str, Any] = {"aggregate": aggregate, **draw(stretches())}
    if aggregate != "count":
        written["property"] = "properties.total"
    if draw(st.booleans()):
        written["where"] = draw(WHERES)
    return trait(**written)


def slowly(trait: ComputedTrait, person: Person, now_ms: int) -> Any:
    """The value, from all events."""
    counted = [
        each
        for _, each in sorted(enumerate(person.events), key=lambda pair: (pair[1].at_ms, pair[0]))
        if (each.type, each.event) == ("track", trait.event)
        and fits(each, trait.where)
        and counts(trait, each.at_ms, now_ms)
    ]
    values = [value for each in counted if (value := value_at(each, trait.property)) is not None]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    different = [value for at, value in enumerate(values) if not _among(value, values[:at])]
    match trait.aggregate:
        case "count":
            return len(counted)
        case "sum":
            return _rounded(sum(map(_written, numbers), Fraction(0)))
        case "average":
            total = _rounded(sum(map(_written, numbers), Fraction(0)))
            return None if not numbers else total / len(numbers)
        case "min" | "max":
            return {"min": min, "max": max}[trait.aggregate](numbers, default=None)
        case "first" | "last":
            return None if not values else values[0 if trait.aggregate == "first" else -1]
        case "mostFrequent":
            often = [sum(_same(value, other) for other in values) for value in values]
            ranked = sorted(range(len(values)), key=lambda at: (often[at], at))
            return values[ranked[-1]] if ranked else None
        case "uniqueCount":
            return len(different)
        case "uniqueList":
            return sorted(different, key=lambda value: (isinstance(value, bool), isinstance(value, str), value))


def _same(a: Any, b: Any) -> bool:
    return isinstance(a, bool) is isinstance(b, bool) and bool(a == b)


def _among(value: Any, others: Sequence[Any]) -> bool:
    return any(_same(value, other) for other in others)


def _written(number: float) -> Fraction:
    """The number as its sender wrote it, which is not always what a computer keeps of it."""
    return Fraction(repr(number))


def _rounded(total: Fraction) -> float:
    return float(total)


@given(traits(), people(), moments())
def test_a_value_is_what_all_events_say(trait: ComputedTrait, person: Person, now_ms: int) -> None:
    """Every aggregate over every stretch of time; explained, it has the same value and the events it is made of."""
    value, until = compile_trait(trait)(person, now_ms)
    slow = slowly(trait, person, now_ms)
    assert value == slow
    assert isinstance(value, bool) is isinstance(slow, bool)
    explained = compute(trait, person, now_ms)
    assert explained.value == value
    assert explained.until_ms == (None if until == NEVER else until)
    assert len(explained.entries) == min(explained.used, 10) <= explained.found


@given(traits(), people(), moments())
def test_a_value_stays_until_it_is_said_to_change(trait: ComputedTrait, person: Person, now_ms: int) -> None:
    """Minute by minute the value is the same until the instant given."""
    value, until = compile_trait(trait)(person, now_ms)
    instants = {START_MS + minute * MINUTE_MS + off for minute in range(2 * MINUTES) for off in (-1, 0, 1)}
    instants |= {each.at_ms + PERIOD_MS + off for each in person.events for off in (-1, 0)}
    assert until > now_ms
    for instant in sorted(each for each in (*instants, until - 1) if now_ms < each < until):
        assert slowly(trait, person, instant) == value


def test_a_person_without_events_has_a_count_but_no_maximum() -> None:
    """Counts and sums of nothing are zero, a list is empty, and nothing has no largest."""
    values = {name: aggregate([]) for name, aggregate in AGGREGATES.items()}
    assert {name: value for name, value in values.items() if value is not None} == {
        "count": 0,
        "sum": 0,
        "uniqueCount": 0,
        "uniqueList": [],
    }


def test_a_long_list_keeps_what_was_seen_last() -> None:
    """A list is bounded; its order says nothing about time, so that a repetition changes nothing."""
    entries = [Entry(at, at, at, float(at)) for at in range(UNIQUE_LIST_MAX + 5)]
    listed = AGGREGATES["uniqueList"](entries)
    assert listed == list(range(5, UNIQUE_LIST_MAX + 5))
    assert AGGREGATES["uniqueList"]([*entries, entries[-1]]) == listed


def test_a_list_has_one_order() -> None:
    """Numbers, text, truth; true is no 1, and 1 is 1.0."""
    values = [True, "b", 1.0, "a", 1, False, 0.5]
    entries = [Entry(at, at, at, value) for at, value in enumerate(values)]
    listed = AGGREGATES["uniqueList"](entries)
    assert repr(listed) == "[0.5, 1, 'a', 'b', False, True]"


@pytest.mark.parametrize(("values", "total"), [([0.1] * 10, 1), ([1e308, 1e308], None), ([2.5, 1], 3.5)])
def test_a_sum_is_exact_or_not_there(values: list[float], total: object) -> None:
    """No order of adding changes it, and what no number can hold is no value."""
    entries = [Entry(at, at, at, value) for at, value in enumerate(values)]
    assert AGGREGATES["sum"](entries) == total


def test_a_sum_changes_when_the_oldest_leaves() -> None:
    """The window's next change is known without a new event."""
    spent = trait(aggregate="sum", property="properties.total", within="10m")
    person = Person([Event(START_MS, properties={"total": 3}), Event(START_MS + MINUTE_MS, properties={"total": 4})])
    ends = START_MS + 10 * MINUTE_MS
    assert compile_trait(spent)(person, ends - 1) == (7, ends)
    assert compile_trait(spent)(person, ends) == (4, ends + MINUTE_MS)
    assert compute(spent, person, ends).text == 'the sum of properties.total over every "Order" in the last 10m'


def test_money_adds_up_as_on_paper() -> None:
    """The sum is that of the numbers as they were written, beyond any order and size."""
    spend = trait(aggregate="sum", property="properties.total")
    for amounts, total in (
        ([33.63, 33.63, 33.63], 100.89),
        ([0.1, 0.2], 0.3),
        ([1e300, 0.125, -1e300], 0.125),
        ([10, 2.5, 2.5], 15),
        ([1.005, 2.0001], 3.0051),
        ([1e308, 1e308], None),
        ([], 0),
    ):
        events = [Event(START_MS + at, "Order", {"total": amount}) for at, amount in enumerate(amounts)]
        assert compute(spend, Person(events=events), START_MS + PERIOD_MS).value == total, amounts
