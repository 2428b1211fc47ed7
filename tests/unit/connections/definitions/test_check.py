"""What is wrong with a definition: where, and what to do about it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hookline.connections.definitions.check import CLAUSES_MAX, DEPTH_MAX, definition_problems, definition_warnings
from hookline.connections.definitions.model import Audience, ComputedTrait

DAY_SECONDS = 86_400


def audience(condition: dict[str, Any], **given: Any) -> Audience:
    """An audience as a file has it."""
    return msgspec.convert({"id": "a", "name": "Big Spenders", "condition": condition, **given}, Audience)


def trait(**given: Any) -> ComputedTrait:
    """A computed trait as a file has it."""
    return msgspec.convert({"id": "t", "name": "Total Spend", "event": "Order", **given}, ComputedTrait)


GOOD = [
    {"event": "Order"},
    {"event": "Order", "count": {"gte": 2, "lte": 2}, "within": "30d", "where": "properties.total >= 100"},
    {"page": "*", "between": ["2026-01-01", "2026-02-01T00:00:00Z"], "never": True},
    {"screen": "Home", "first": {"within": 90}, "last": {"after": "2026-01-01", "before": "2026-02-01"}},
    {"any": [{"if": 'traits.plan = "pro"'}, {"not": {"audience": "other"}}, {"if": "computed.t > 1"}]},
]


@pytest.mark.parametrize("condition", GOOD)
def test_good_conditions_have_no_problems(condition: dict[str, Any]) -> None:
    """Every kind of clause as the docs write it."""
    assert definition_problems(audience(condition)) == []


BAD = [
    ({}, "condition", "found none"),
    ({"event": "A", "if": "true"}, "condition", "found event and if"),
    ({"all": []}, "condition.all", "needs at least one"),
    ({"all": [{"event": "A"}, {}]}, "condition.all[1]", "found none"),
    ({"not": {"any": [{"page": "A", "count": {}}]}}, "condition.not.any[0].count", "say how often"),
    ({"event": "A", "count": {"gte": 3, "lte": 2}}, "condition.count", "at least 3 and at most 2"),
    ({"event": "A", "count": {"eq": 3, "lte": 2}}, "condition.count", "eq says it all"),
    ({"event": "A", "count": {"gte": 0}}, "condition.count", "at least 0 times"),
    ({"event": "A", "count": {"eq": 1}, "never": True}, "condition.never", "keep one"),
    ({"event": "A", "within": "soon"}, "condition.within", "such as 30d"),
    ({"event": "A", "within": "3651d"}, "condition.within", "at most 3650d"),
    ({"event": "A", "within": "1d", "between": ["2026-01-01", "2026-01-02"]}, "condition.between", "keep one"),
    ({"event": "A", "between": ["2026-01-02", "2026-01-02"]}, "condition.between", "before the second"),
    ({"event": "A", "between": ["now", "2026-01-02"]}, "condition.between", "such as 2026-11-20"),
    ({"event": "A", "between": ["2026", "2027"]}, "condition.between", "such as 2026-11-20"),
    ({"event": "A", "within": 10**400}, "condition.within", "at most 3650d"),
    ({"event": "A", "where": "propertys.x = 1"}, "condition.where", "did you mean 'properties'?"),
    ({"event": "A", "first": {}}, "condition.first", "say when"),
    ({"event": "A", "last": {"within": "1d", "before": "2026-01-01"}}, "condition.last", "within stands alone"),
    ({"event": "A", "last": {"before": "x"}}, "condition.last.before", "such as 2026-11-20"),
    ({"event": "A", "first": {"within": "1d"}, "count": {"gte": 2}}, "condition.first", "two clauses"),
    ({"if": "trait.plan = 1"}, "condition.if", "did you mean 'traits'?"),
    ({"if": "traits = 1"}, "condition.if", "such as traits.plan"),
    ({"if": "traits.a = 1", "within": "1d"}, "condition.within", "not to if"),
    ({"audience": "b", "never": True}, "condition.never", "not to audience"),
    ({"event": ""}, "condition.event", 'name the event, or write {event: "*"}'),
    ({"all": [{"event": "A"}, {"page": " ", "never": True}]}, "condition.all[1].page", 'write {page: "*"}'),
    ({"if": "1 = 1"}, "condition.if", "holds for everybody"),
    ({"if": "not true"}, "condition.if", "holds for nobody"),
    ({"event": "A", "count": {"lte": 10_000}}, "condition.count", "holds for everybody"),
    ({"any": [{"event": "A"}, {"event": "A", "never": True}]}, "condition", "whatever they did"),
    ({"any": [{"audience": "b"}, {"not": {"all": [{"audience": "b"}]}}]}, "condition", "whatever they did"),
    ({"not": {"all": [{"event": "*", "count": {"eq": 0}}, {"event": "*"}]}}, "condition", "whatever they did"),
]


def test_any_event_and_never_are_said_on_purpose() -> None:
    """What excludes somebody is nobody's accident: any event at all, never this one, this one or never another."""
    for condition in (
        {"event": "*"},
        {"event": "*", "never": True, "within": "10m"},
        {"event": "A", "never": True},
        {"any": [{"event": "A"}, {"event": "B", "never": True}]},
        {"any": [{"event": "A", "within": "1d"}, {"event": "A", "within": "2d", "never": True}]},
    ):
        assert definition_problems(audience(condition)) == []


@pytest.mark.parametrize(("condition", "path", "message"), BAD)
def test_a_bad_condition_is_found_where_it_is(condition: dict[str, Any], path: str, message: str) -> None:
    """One problem, at the path of what to change, with what to do."""
    (problem,) = definition_problems(audience(condition))
    assert (problem.code, problem.path) == ("invalid_definition", path)
    assert message in problem.message


BAD_TRAITS = [
    ({"aggregate": "count", "event": ""}, "event", "name the event"),
    ({"aggregate": "sum"}, "property", "such as properties.total"),
    ({"aggregate": "count", "property": "properties.x"}, "property", "take it out"),
    ({"aggregate": "sum", "property": "total"}, "property", "such as properties.total"),
    ({"aggregate": "sum", "property": "properties. total"}, "property", "at column"),
    ({"aggregate": "count", "page": "Home"}, "", "exactly one of"),
    ({"aggregate": "count", "syncEvery": 0.5}, "syncEvery", "at least one second"),
    ({"aggregate": "count", "syncEvery": "31d"}, "syncEvery", "at most 30d"),
    ({"aggregate": "count", "name": "—"}, "name", "letter or a digit"),
    ({"aggregate": "count", "destinations": ["crm", "crm"]}, "destinations[1]", "named twice"),
    ({"aggregate": "count", "where": "and"}, "where", "expected a value"),
]


@pytest.mark.parametrize(("given", "path", "message"), BAD_TRAITS)
def test_a_bad_computed_trait_is_found_where_it_is(given: dict[str, Any], path: str, message: str) -> None:
    """One problem, at the key to change."""
    (problem,) = definition_problems(trait(**given))
    assert problem.path == path
    assert message in problem.message


def test_conditions_are_bounded() -> None:
    """Neither depth nor number of conditions has no end, however they are nested."""
    deep: dict[str, Any] = {"event": "A"}
    for _ in range(DEPTH_MAX):
        deep = {"not": deep}
    (problem,) = definition_problems(audience(deep))
    assert problem.path == "condition" + ".not" * DEPTH_MAX
    wide = {"any": [{"all": [{"event": "A"}] * 50}] * (CLAUSES_MAX // 50)}
    (problem,) = definition_problems(audience(wide))
    assert f"at most {CLAUSES_MAX}" in problem.message


DOUBTS = [
    ({"event": "A", "within": "31d"}, ["condition.within"]),
    ({"all": [{"event": "A", "never": True}, {"event": "B"}]}, []),
    ({"event": "A", "never": True}, ["condition"]),
    ({"not": {"any": [{"event": "A"}, {"if": "traits.plan = 'pro'"}]}}, ["condition"]),
    ({"if": "typeof(traits.plan) = 'missing'"}, ["condition"]),
    ({"event": "A", "count": {"lte": 3}}, ["condition"]),
]


@pytest.mark.parametrize(("condition", "paths"), DOUBTS)
def test_doubts_are_told(condition: dict[str, Any], paths: list[str]) -> None:
    """A window longer than events are kept, and what holds for people who did nothing, are allowed but said."""
    doubts = list(definition_warnings(audience(condition, destinations=["crm"]), 30 * DAY_SECONDS))
    assert [path for path, _ in doubts] == paths
    assert [path for path, _ in definition_warnings(trait(aggregate="count"), 1)] == ["destinations"]
