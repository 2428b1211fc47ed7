"""Which features an event belongs to: first by its type and name, then by what the feature's condition says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hookline.events.view import EVENT_FIELDS
from hookline.expressions.compile import Condition, Operand, compile_condition, compile_operand
from hookline.expressions.parse import parse
from hookline.expressions.path import parse_path
from hookline.expressions.tree import Path
from hookline.profiles.feature import Feature

NAMED_TYPES = frozenset({"track", "page", "screen"})
"""The types of events that features are made of."""


class Rule(NamedTuple):
    """One feature, compiled."""

    feature: int
    condition: Condition | None
    value: Operand | None


class Matcher:
    """The rules of all features by type and name; raises ExpressionError for a feature that was never checked."""

    def __init__(self, features: Mapping[int, Feature]) -> None:
        rules = {id: rule_of(id, feature) for id, feature in features.items()}
        self._any: dict[str, tuple[Rule, ...]] = {
            type: _rules(rules, features, type, {""}) for type in NAMED_TYPES if features
        }
        self._named: dict[tuple[str, str], tuple[Rule, ...]] = {
            (each.type, each.name): _rules(rules, features, each.type, {"", each.name}) for each in features.values()
        }

    def rules(self, type: str, name: str) -> tuple[Rule, ...]:
        """The rules that look at an event of this type and name."""
        found = self._named.get((type, name))
        return self._any.get(type, ()) if found is None else found


def rule_of(id: int, feature: Feature) -> Rule:
    """A feature's rule."""
    condition = compile_condition(parse(feature.where, EVENT_FIELDS)) if feature.where else None
    value = compile_operand(Path(parse_path(feature.value))) if feature.value else None
    return Rule(id, condition, value)


def _rules(
    rules: Mapping[int, Rule], features: Mapping[int, Feature], type: str, names: Iterable[str]
) -> tuple[Rule, ...]:
    return tuple(rules[id] for id, each in features.items() if each.type == type and each.name in names)
