"""What definitions ask of people's events, and what is known of one person: the border between keeping and judging."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeAlias

from hookline.connections.definitions.model import ANY, ComputedTrait, Condition, Definition, conditions_of, window_ms
from hookline.expressions.parse import parse, write, write_path
from hookline.expressions.tree import parse_path


class Purpose(IntEnum):
    """Of nobody's features the history goes, in steps. Previews look at features of their own before others'."""

    DEFINITIONS = 0
    PREVIEWS = 1
    NOBODY = 2


class Feature(NamedTuple):
    """Hold what of people's events a clause needs: those of this type and name, that meet ``where``, and one value of
    each.

    ``type`` is track, page or screen. ``name`` is the event's name, or the page's or screen's; empty for any.
    ``where`` is the normalised text of an expression, empty for none. ``value`` is a dotted path, empty for none.
    """

    type: str
    name: str
    where: str
    value: str


class Entry(NamedTuple):
    """One event of a feature.

    ``at_ms`` is the event's own time, skew taken out. ``mark`` stands for its source and messageId: what was sent
    twice is one entry. ``position`` is the partition and offset of its record. ``value`` is what lies at the feature's
    path, None when there is nothing that can be kept: neither a number, a text nor a truth value.
    """

    at_ms: int
    mark: int
    position: int
    value: float | str | bool | None


class Facts(Protocol):
    """Hold what is known of one person."""

    def entries(self, feature: Feature) -> Sequence[Entry]:
        """Return the events of a feature, sorted by time and position."""

    @property
    def traits(self) -> Mapping[str, object]:
        """Return the person's traits as plain JSON values."""

    @property
    def group_traits(self) -> Iterable[Mapping[str, object]]:
        """Return the traits of each group the person belongs to, for one look."""

    def computed(self, id: str) -> object:
        """Return the value of a computed trait, None when it has none."""

    def is_member(self, audience_id: str) -> bool:
        """Return whether the person is a member of an audience."""


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
        return Feature("track", _name(clause.event), where, path)
    if clause.page is not None:
        return Feature("page", _name(clause.page), where, path)
    return Feature("screen", _name(clause.screen or ""), where, path)


def _name(written: str) -> str:
    return "" if written == ANY else written


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
