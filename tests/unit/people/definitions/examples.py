"""Conditions, computed traits and people for property tests: few names, few minutes, so that everything meets."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from hookline.connections.definitions.model import Condition
from hookline.events.timestamps import iso
from tests.unit.people.definitions.people import MINUTE_MS, Event, Person, condition, trait

START_MS = 1_763_600_000_000
MINUTES = 8

WHERES = st.sampled_from(["properties.total >= 5", "properties.kind = 'a' or properties.total < 2"])
WINDOWS = st.sampled_from(["1m", "90s", 120, "5m", "1d"])
NAMES = st.sampled_from([{"event": "Order"}, {"event": "Refund"}, {"page": "Order"}, {"event": "*"}])
IFS = [
    "traits.plan = 'pro'",
    "not traits.plan = 'pro'",
    "computed.orders > 1",
    "computed.orders < 2 and traits.age >= 18",
    "groupTraits.size > 10",
    "not groupTraits.size > 10",
    "groupTraits.size > 10 and groupTraits.plan = traits.plan",
]
ORDERS = {"orders": trait("orders", aggregate="count")}
"""The computed traits there are: a count, which is 0 for who has none."""


def moments() -> st.SearchStrategy[int]:
    """Instants, mostly on whole minutes, where windows begin and end."""
    minutes = st.integers(0, MINUTES).map(lambda minute: START_MS + minute * MINUTE_MS)
    return minutes | st.builds(int.__add__, minutes, st.integers(-1, 1))


@st.composite
def stretches(draw: st.DrawFn) -> dict[str, Any]:
    """Nothing, a window, or two instants."""
    kind = draw(st.sampled_from(["", "within", "between"]))
    if kind == "within":
        return {"within": draw(WINDOWS)}
    begins, ends = sorted(draw(st.lists(moments(), min_size=2, max_size=2, unique=True)))
    return {"between": [iso(begins), iso(ends)]} if kind else {}


@st.composite
def event_clauses(draw: st.DrawFn) -> dict[str, Any]:
    """How often something was done, or when."""
    clause = dict(draw(NAMES))
    if draw(st.booleans()):
        clause["where"] = draw(WHERES)
    if draw(st.integers(0, 3)) == 0:
        asked = draw(st.sampled_from([("first",), ("last",), ("first", "last")]))
        return clause | {which: draw(whens()) for which in asked}
    clause |= draw(stretches())
    how = draw(st.sampled_from(["", "never", "gte", "lte", "eq", "both"]))
    if how == "never":
        clause["never"] = True
    elif how == "both":
        least = draw(st.integers(0, 3))
        clause["count"] = {"gte": least, "lte": least + draw(st.integers(0, 2))}
    elif how:
        clause["count"] = {how: draw(st.integers(1 if how == "gte" else 0, 4))}
    return clause


@st.composite
def whens(draw: st.DrawFn) -> dict[str, Any]:
    """A window, or before, after, or between two instants."""
    if draw(st.booleans()):
        return {"within": draw(WINDOWS)}
    keys = draw(st.sampled_from([("before",), ("after",), ("after", "before")]))
    return {key: iso(draw(moments())) for key in keys}


def clauses() -> st.SearchStrategy[dict[str, Any]]:
    """One clause."""
    others = [{"if": text} for text in IFS] + [{"audience": "other"}]
    return event_clauses() | st.sampled_from(others)


def conditions() -> st.SearchStrategy[Condition]:
    """Clauses in each other, as a file has them."""

    def joined(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        several = st.lists(inner, min_size=1, max_size=3)
        return (
            several.map(lambda terms: {"all": terms})
            | several.map(lambda terms: {"any": terms})
            | inner.map(lambda term: {"not": term})
        )

    return st.recursive(clauses(), joined, max_leaves=5).map(lambda written: condition(**written))


def values() -> st.SearchStrategy[Any]:
    """What a property holds: all kinds, also those that cannot be kept."""
    numbers = st.integers(0, 9) | st.floats(-1e300, 1e300)
    return numbers | st.sampled_from(["a", "b", "1", True, False, None, [1], {"x": 1}])


@st.composite
def events(draw: st.DrawFn) -> Event:
    """One event."""
    properties = draw(st.fixed_dictionaries({}, optional={"total": values(), "kind": st.sampled_from(["a", "b"])}))
    name = draw(st.sampled_from(["Order", "Order", "Refund"]))
    return Event(draw(moments()), name, properties, draw(st.sampled_from(["track", "track", "page"])))


def people() -> st.SearchStrategy[Person]:
    """People who did a few things, also some that are dated ahead."""
    return st.builds(
        Person,
        events=st.lists(events(), max_size=8),
        traits=st.fixed_dictionaries({}, optional={"plan": st.sampled_from(["pro", "free"]), "age": st.just(20)}),
        group_traits=st.lists(
            st.fixed_dictionaries({}, optional={"size": st.integers(9, 12), "plan": st.just("pro")}), max_size=2
        ),
        computed_values=st.fixed_dictionaries({}, optional={"orders": st.integers(0, 3)}),
        audiences=st.sampled_from([frozenset(), frozenset({"other"})]),
    )
