"""What an ``if`` is asked over: a person's traits and computed traits, once per group where it names theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from hookline.connections.definitions.check import PERSON_FIELDS
from hookline.connections.definitions.model import ComputedTrait
from hookline.expressions.parse import parse
from hookline.expressions.tree import Node, paths_in
from hookline.people.definitions.aggregates import EMPTY
from hookline.people.definitions.feature import Facts

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
        for group in facts.group_traits or ({},):
            yield {**person, "groupTraits": _plain(group)}

    return fields


def _computed(facts: Facts, id: str, empty: object) -> object:
    value = facts.computed(id)
    return empty if value is None else value


def _plain(traits: Mapping[str, object]) -> dict[str, object]:
    """Expressions look into dictionaries only."""
    return traits if traits.__class__ is dict else dict(traits)
