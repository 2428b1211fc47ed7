"""Definitions among each other: names, references and cycles."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hookline.connections.definitions.check import (
    Surroundings,
    name_problems,
    problems_together,
    trait_names,
)
from hookline.connections.definitions.model import Audience, ComputedTrait


def audience(id: str, *members_of: str, name: str = "", destinations: tuple[str, ...] = (), text: str = "") -> Audience:
    """An audience of the members of others, or of what an ``if`` says."""
    terms: list[dict[str, Any]] = [{"audience": other} for other in members_of]
    terms += [{"if": text or "traits.a = 1"}]
    fields = {"id": id, "name": name or id, "destinations": destinations, "condition": {"all": terms}}
    return msgspec.convert(fields, Audience)


def among(*audiences: Audience, traits: tuple[ComputedTrait, ...] = ()) -> Surroundings:
    """These and a destination."""
    return Surroundings({each.id: each for each in audiences}, {each.id: each for each in traits}, {"crm"})


SPEND = ComputedTrait(id="spend", name="Big Spend", event="Order", aggregate="count")


def test_what_is_named_must_be_there() -> None:
    """Destinations, audiences and computed traits, each at its path."""
    asking = audience("a", "b", "c", destinations=("crm", "shop"), text="computed.spend > 1 and computed.other = 1")
    problems = list(problems_together(asking, among(asking, audience("b"), traits=(SPEND,))))
    assert [(each.code, each.path) for each in problems] == [
        ("unknown_destination", "destinations[1]"),
        ("unknown_definition", "condition.all[1].audience"),
        ("unknown_definition", "condition.all[2].if"),
    ]
    assert "no computed trait 'other'" in problems[-1].message


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        ({"a": ["a"]}, "a -> a;"),
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, "a -> b -> c -> a;"),
        ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}, None),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, None),
    ],
)
def test_no_audience_may_depend_on_itself(edges: dict[str, list[str]], found: str | None) -> None:
    """A way back is told with all its steps; two ways to the same audience are none, nor is a cycle of others."""
    audiences = [audience(id, *others) for id, others in edges.items()]
    problems = list(problems_together(audiences[0], among(*audiences)))
    assert [each.code for each in problems] == (["audience_cycle"] if found else [])
    assert not found or found in problems[0].message


def test_one_trait_has_one_definition() -> None:
    """Audiences and computed traits share the names; the same definition again is no other."""
    first, second = audience("a", name="Big Spend!"), audience("b", name="bigger")
    owners = trait_names([SPEND, second])
    (problem,) = name_problems(first, owners)
    assert (problem.code, problem.path) == ("duplicate_trait", "name")
    assert "computed trait 'spend' is sent as the trait 'big_spend'" in problem.message
    assert not list(name_problems(SPEND, owners))
