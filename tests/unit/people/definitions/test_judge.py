"""Judging people: quick, explained and slow agree, and nothing changes before it is said to."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

from hypothesis import given

from hookline.connections.definitions.model import Audience, Condition, conditions_of
from hookline.events.timestamps import iso
from hookline.people.definitions.aggregates import NEVER
from hookline.people.definitions.judge import compile_clause
from hookline.people.definitions.reason import Reason, explain
from tests.unit.people.definitions.examples import MINUTES, ORDERS, START_MS, conditions, moments, people
from tests.unit.people.definitions.people import MINUTE_MS, Event, Person, condition, holds

DAY_MS = 86_400_000
EMPTY = {"orders": 0}


def flat(reason: Reason) -> Iterator[Reason]:
    """A reason and those within it, outer ones first."""
    yield reason
    for term in reason.terms:
        yield from flat(term)


@given(conditions(), people(), moments())
def test_the_quick_way_is_the_slow_way(condition: Condition, person: Person, now_ms: int) -> None:
    """Compiled clauses say what going through all events says."""
    held, _ = compile_clause(condition, ORDERS)(person, now_ms)
    assert held is holds(condition, person, now_ms, EMPTY)


@given(conditions(), people(), moments())
def test_nothing_changes_before_it_is_said_to(condition: Condition, person: Person, now_ms: int) -> None:
    """Minute by minute, and a moment before each event comes or goes, the answer stays until the instant given."""
    held, until = compile_clause(condition, ORDERS)(person, now_ms)
    instants = {START_MS + minute * MINUTE_MS + off for minute in range(2 * MINUTES) for off in (-1, 0, 1)}
    instants |= {each.at_ms + DAY_MS + off for each in person.events for off in (-1, 0)}
    assert until > now_ms
    for instant in sorted(each for each in (*instants, until - 1) if now_ms < each < until):
        assert holds(condition, person, instant, EMPTY) is held, f"changed after {instant - now_ms} ms"


@given(conditions(), people(), moments())
def test_every_clause_is_explained_as_it_is_judged(condition: Condition, person: Person, now_ms: int) -> None:
    """The reasons are the clauses of the definition, in order, each with what the quick way says of it."""
    audience = Audience(id="a", name="a", condition=condition)
    verdict = explain(audience, person, now_ms, ORDERS)
    reasons = list(flat(verdict.reason))
    assert [each.path for each in reasons] == [path for path, _ in conditions_of(audience)]
    for reason, (_, part) in zip(reasons, conditions_of(audience), strict=True):
        held, until = compile_clause(part, ORDERS)(person, now_ms)
        assert (reason.held, reason.until_ms) == (held, None if until == NEVER else until)
        assert reason.text
    assert (verdict.member, verdict.until_ms) == (verdict.reason.held, verdict.reason.until_ms)


def test_an_order_leaves_when_its_window_has_passed() -> None:
    """At least two in ten minutes end when the older of the newest two is ten minutes old, to the millisecond."""
    judge = compile_clause(condition(event="Order", count={"gte": 2}, within="10m"), {})
    person = Person([Event(START_MS), Event(START_MS + MINUTE_MS), Event(START_MS + 2 * MINUTE_MS)])
    ends = START_MS + 11 * MINUTE_MS
    assert judge(person, START_MS + 3 * MINUTE_MS) == (True, ends)
    assert judge(person, ends - 1) == (True, ends)
    assert judge(person, ends)[0] is False


def test_never_becomes_true_of_itself() -> None:
    """Who did it is out until it has left the window, and in from then on with nothing left to wait for."""
    judge = compile_clause(condition(event="Order", never=True, within="10m"), {})
    person = Person([Event(START_MS), Event(START_MS + MINUTE_MS)])
    ends = START_MS + 11 * MINUTE_MS
    assert judge(person, START_MS + 2 * MINUTE_MS) == (False, ends)
    assert judge(person, ends) == (True, NEVER)


def test_what_is_dated_ahead_counts_from_then_on() -> None:
    """A clock that runs ahead makes nobody a member before the time it says."""
    judge = compile_clause(condition(event="Order"), {})
    person = Person([Event(START_MS + MINUTE_MS)])
    assert judge(person, START_MS) == (False, START_MS + MINUTE_MS)
    assert judge(person, START_MS + MINUTE_MS) == (True, NEVER)


def test_the_first_and_the_last_time_have_their_borders() -> None:
    """A window's end and the instant of ``before`` do not belong to it, that of ``after`` does."""
    person = Person([Event(START_MS), Event(START_MS + MINUTE_MS)])
    recent = condition(event="Order", first={"within": "10m"})
    ends = START_MS + 10 * MINUTE_MS
    assert compile_clause(recent, {})(person, ends - 1) == (True, ends)
    for now_ms, held in ((ends - 1, True), (ends, False)):
        assert compile_clause(recent, {})(person, now_ms)[0] is held
        assert explain(Audience(id="a", name="a", condition=recent), person, now_ms).member is held
    last = iso(START_MS + MINUTE_MS)
    assert compile_clause(condition(event="Order", last={"after": last}), {})(person, ends) == (True, NEVER)
    assert compile_clause(condition(event="Order", last={"before": last}), {})(person, ends) == (False, NEVER)


def test_a_stretch_of_time_has_its_borders() -> None:
    """The first instant belongs to it, the second does not, and what is dated ahead changes it when its time comes."""
    begins, ends = START_MS + MINUTE_MS, START_MS + 2 * MINUTE_MS
    judge = compile_clause(condition(event="Order", count={"eq": 1}, between=[iso(begins), iso(ends)]), {})
    person = Person([Event(at_ms) for at_ms in (begins - 1, begins, ends - 1, ends)])
    assert judge(person, begins - 1) == (False, begins)
    assert judge(person, begins) == (True, ends - 1)
    assert judge(person, ends - 2) == (True, ends - 1)
    assert judge(person, ends - 1) == (False, NEVER)


def test_a_reason_names_what_decided() -> None:
    """The events that count, newest first and not all of them, and the values that were asked for."""
    person = Person([Event(START_MS + minute) for minute in range(20)], {"plan": "free"}, [{"size": 3}, {"size": 30}])
    asked = condition(all=[{"event": "Order"}, {"if": "traits.plan = 'pro' and groupTraits.size > 1"}])
    verdict = explain(Audience(id="a", name="a", condition=asked), person, START_MS + MINUTE_MS)
    done, is_pro = verdict.reason.terms
    assert (done.held, done.found, [each.at_ms for each in done.entries]) == (
        True,
        20,
        [START_MS + minute for minute in range(19, 9, -1)],
    )
    assert done.text == 'did "Order" at least once'
    assert (is_pro.held, is_pro.values) == (False, {"traits.plan": "free", "groupTraits.size": [3, 30]})
    assert not verdict.member


class Unasked:
    """The value of a trait that no condition asks for."""


def test_a_reason_shows_the_values_of_few_groups() -> None:
    """Of very many no more than a page takes, with the one that decided among them; how many more there are is said,
    and the traits of one group at a time are held."""
    alive, most = weakref.WeakSet[Unasked](), list[int]()

    class Groups(list[dict[str, object]]):
        def __iter__(self) -> Iterator[dict[str, object]]:
            for size in range(500):
                alive.add(unasked := Unasked())
                most.append(len(alive))
                name: dict[str, object] = {"name": f"g{size}"} if size % 2 else {}
                yield {"size": size, "unasked": unasked, **name}

    person = Person([], {"plan": "free"}, Groups())
    asked = condition(**{"if": "traits.plan = 'free' and groupTraits.size = 400 or groupTraits.name = 'none'"})
    reason = explain(Audience(id="a", name="a", condition=asked), person, START_MS).reason
    assert reason.held
    assert reason.values == {
        "traits.plan": "free",
        "groupTraits.size": [*range(9), 400],
        "groupTraits.name": [f"g{size}" for size in range(1, 20, 2)],
    }
    assert reason.values_more == {"groupTraits.size": 490, "groupTraits.name": 240}
    assert max(most) <= 3


def test_one_group_that_fits_is_enough() -> None:
    """Both conditions must hold for the same group; without any group, its traits are missing."""
    both = compile_clause(condition(**{"if": "groupTraits.size > 10 and groupTraits.plan = 'pro'"}), {})
    apart = Person(group_traits=[{"size": 11, "plan": "free"}, {"size": 9, "plan": "pro"}])
    assert both(apart, 0) == (False, NEVER)
    assert both(Person(group_traits=[{"size": 1}, {"size": 11, "plan": "pro"}]), 0) == (True, NEVER)
    small = compile_clause(condition(**{"if": "not groupTraits.size > 10"}), {})
    assert small(Person(), 0) == (True, NEVER)
