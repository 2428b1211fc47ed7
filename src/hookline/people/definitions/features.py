"""What definitions need of people's events: which features, and how far back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from hookline.connections.definitions.model import ComputedTrait, Condition, Definition
from hookline.connections.definitions.times import window_ms
from hookline.connections.definitions.walk import conditions_of
from hookline.expressions.parse import parse
from hookline.expressions.path import parse_path
from hookline.expressions.write import write, write_path
from hookline.people.definitions.feature import Feature

EventClause: TypeAlias = Condition | ComputedTrait


def features_of(definition: Definition) -> frozenset[Feature]:
    """Return the features that a checked definition is judged by."""
    return frozenset(map(feature_of, _event_clauses(definition)))


def windows_of(definitions: Iterable[Definition]) -> dict[Feature, int | None]:
    """Return how many milliseconds back from now the entries of each feature are needed; None for all there
    ever were."""
    windows: dict[Feature, int | None] = {}
    for definition in definitions:
        for clause in _event_clauses(definition):
            feature = feature_of(clause)
            window = None if clause.within is None else window_ms(clause.within)
            before = windows.get(feature, 0)
            windows[feature] = None if window is None or before is None else max(window, before)
    return windows


def feature_of(clause: EventClause) -> Feature:
    """Return what one clause about events, or a computed trait, needs; conditions written differently but alike are
    one."""
    where = "" if clause.where is None else write(parse(clause.where))
    value = clause.property if isinstance(clause, ComputedTrait) else None
    path = "" if value is None else write_path(parse_path(value))
    if clause.event is not None:
        return Feature("track", clause.event, where, path)
    if clause.page is not None:
        return Feature("page", clause.page, where, path)
    return Feature("screen", clause.screen or "", where, path)


def _event_clauses(definition: Definition) -> Iterator[EventClause]:
    if isinstance(definition, ComputedTrait):
        yield definition
        return
    for _, condition in conditions_of(definition):
        if asks_events(condition):
            yield condition


def asks_events(condition: Condition) -> bool:
    """Return whether the condition is a clause about events."""
    return not (condition.event is None and condition.page is None and condition.screen is None)
