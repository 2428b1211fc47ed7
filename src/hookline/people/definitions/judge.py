"""Judge fast: an audience is compiled once into closures that say for a person whether it holds, and until when.

``until`` is never later than the next instant at which the answer may change although nothing new happens; what a
clause does not need to look at, it does not. Why a person is in or out is ``explain``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from hookline.connections.definitions.check import PERSON_FIELDS
from hookline.connections.definitions.model import Audience, ComputedTrait, Condition, When, instant_ms, window_ms
from hookline.expressions.compile import compile_condition
from hookline.expressions.parse import parse
from hookline.expressions.tree import Node, paths_in
from hookline.people.definitions.aggregates import EMPTY, NEVER, past, stretch_of
from hookline.people.definitions.feature import Entry, Facts, Feature, feature_of

PersonFields: TypeAlias = Callable[[Facts], Iterator[dict[str, Any]]]


def parse_person_condition(text: str) -> Node:
    """Return the tree of an ``if``."""
    return parse(text, PERSON_FIELDS)


def person_fields(tree: Node, traits: Mapping[str, ComputedTrait]) -> PersonFields:
    """Yields what the condition is evaluated over, at least once; it holds for a person when it holds for any.

    A person without groups is looked at once, as having no group traits. ``traits`` are the computed traits there
    are: a count of nothing is 0 even for a person who never had any.
    """
    paths = set(paths_in(tree))
    ids = sorted({parts[1] for parts in paths if parts[0] == "computed"})
    empty = {id: EMPTY.get(traits[id].aggregate) if id in traits else None for id in ids}
    by_group = any(parts[0] == "groupTraits" for parts in paths)

    def fields(facts: Facts) -> Iterator[dict[str, Any]]:
        person: dict[str, Any] = {"traits": _plain(facts.traits)}
        if ids:
            person["computed"] = {id: value for id in ids if (value := _computed(facts, id, empty[id])) is not None}
        if not by_group:
            yield person
            return
        group: Mapping[str, object] | None = None
        for group in facts.group_traits:
            yield {**person, "groupTraits": _plain(group)}
        if group is None:
            yield {**person, "groupTraits": {}}

    return fields


def _computed(facts: Facts, id: str, empty: object) -> object:
    value = facts.computed(id)
    return empty if value is None else value


def _plain(traits: Mapping[str, object]) -> dict[str, object]:
    """Expressions look into dictionaries only."""
    return traits if traits.__class__ is dict else dict(traits)


Judge: TypeAlias = Callable[[Facts, int], tuple[bool, int]]
"""Person and time (ms) to whether it holds, and until when (``NEVER`` when only something new can change it)."""


def compile_audience(audience: Audience, traits: Mapping[str, ComputedTrait]) -> Judge:
    """Return the judge of a checked audience; ``traits`` are all computed traits by id."""
    return compile_clause(audience.condition, traits)


def compile_clause(condition: Condition, traits: Mapping[str, ComputedTrait]) -> Judge:
    """Return the judge of one condition with everything in it."""
    if condition.all is not None:
        return _all([compile_clause(term, traits) for term in condition.all])
    if condition.any is not None:
        return _any([compile_clause(term, traits) for term in condition.any])
    if condition.not_ is not None:
        return _not(compile_clause(condition.not_, traits))
    if condition.if_ is not None:
        return _person(condition.if_, traits)
    if condition.audience is not None:
        return _member(condition.audience)
    if condition.first is not None or condition.last is not None:
        return _first_and_last(condition)
    if condition.within is not None:
        return _often_within(feature_of(condition), window_ms(condition.within), *condition.times())
    return _often(condition)


def _all(judges: Sequence[Judge]) -> Judge:
    def every(facts: Facts, now_ms: int) -> tuple[bool, int]:
        until = NEVER
        for judge in judges:
            held, its_until = judge(facts, now_ms)
            if not held:
                return False, its_until  # as long as this one does not hold, all do not
            if its_until < until:
                until = its_until
        return True, until

    return every


def _any(judges: Sequence[Judge]) -> Judge:
    def some(facts: Facts, now_ms: int) -> tuple[bool, int]:
        until = NEVER
        for judge in judges:
            held, its_until = judge(facts, now_ms)
            if held:
                return True, its_until
            if its_until < until:
                until = its_until
        return False, until

    return some


def _not(judge: Judge) -> Judge:
    def opposite(facts: Facts, now_ms: int) -> tuple[bool, int]:
        held, until = judge(facts, now_ms)
        return not held, until

    return opposite


def _person(text: str, traits: Mapping[str, ComputedTrait]) -> Judge:
    tree = parse_person_condition(text)
    holds, fields_of = compile_condition(tree), person_fields(tree, traits)
    return lambda facts, now_ms: (any(map(holds, fields_of(facts))), NEVER)


def _member(audience_id: str) -> Judge:
    return lambda facts, now_ms: (facts.is_member(audience_id), NEVER)


def _often(condition: Condition) -> Judge:
    feature, stretch = feature_of(condition), stretch_of(condition)
    least, most = condition.times()

    def often(facts: Facts, now_ms: int) -> tuple[bool, int]:
        start, stop, until = stretch(facts.entries(feature), now_ms)
        count = stop - start
        return count >= least and (most is None or count <= most), until

    return often


def _often_within(feature: Feature, window: int, least: int, most: int | None) -> Judge:
    """Without counting: with ``n`` in the window, the n-th newest is in it and the one before is not."""

    def often(facts: Facts, now_ms: int) -> tuple[bool, int]:
        entries = facts.entries(feature)
        count, until = past(entries, now_ms)
        if count < least:
            return False, until
        begins = now_ms - window
        if least:
            leaves = entries[count - least].at_ms
            if leaves <= begins:
                return False, until
            if most is None:
                return True, min(until, leaves + window)
        if most is not None and count > most and (leaves_first := entries[count - most - 1].at_ms) > begins:
            return False, min(until, leaves_first + window)
        return True, min(until, leaves + window) if least else until

    return often


def _first_and_last(condition: Condition) -> Judge:
    feature = feature_of(condition)
    asked = [(0, condition.first)] if condition.first is not None else []
    asked += [(-1, condition.last)] if condition.last is not None else []
    tests = [(index, _when(when)) for index, when in asked]

    def held(facts: Facts, now_ms: int) -> tuple[bool, int]:
        entries = facts.entries(feature)
        count, until = past(entries, now_ms)
        if not count:
            return False, until
        holds = True
        for index, test in tests:
            held, its_until = test(entries[index if index == 0 else count - 1], now_ms)
            until = min(until, its_until)
            holds = holds and held
        return holds, until

    return held


def _when(when: When) -> Callable[[Entry, int], tuple[bool, int]]:
    if when.within is not None:
        window = window_ms(when.within)

        def within(entry: Entry, now_ms: int) -> tuple[bool, int]:
            leaves = entry.at_ms + window
            return (True, leaves) if leaves > now_ms else (False, NEVER)

        return within
    after = -NEVER if when.after is None else instant_ms(when.after)
    before = NEVER if when.before is None else instant_ms(when.before)
    return lambda entry, now_ms: (after <= entry.at_ms < before, NEVER)
