"""People to judge, and the slow way to judge them: one look at every event, by the words of the docs alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hookline.connections.definitions.model import Audience, ComputedTrait, Condition, When
from hookline.events.timestamps import parse as parse_instant
from hookline.events.view import EVENT_FIELDS
from hookline.expressions.compile import MISSING, compile_condition, compile_operand
from hookline.expressions.parse import parse
from hookline.expressions.tree import Path, parse_path
from hookline.people.definitions.feature import Entry, Feature
from hookline.settings import parse_duration

MINUTE_MS = 60_000


def condition(**written: Any) -> Condition:
    """A condition as it stands in a file."""
    return msgspec.convert(written, Condition)


def audience(id: str = "a", name: str = "", **written: Any) -> Audience:
    """An audience with this condition."""
    return Audience(id=id, name=name or id, condition=condition(**written))


def trait(id: str = "t", **written: Any) -> ComputedTrait:
    """A computed trait of orders unless something else is said."""
    return msgspec.convert({"id": id, "name": id, "event": "Order", **written}, ComputedTrait)


class Event(msgspec.Struct, frozen=True):
    """One event of a person: its time in ms, its name and its properties."""

    at_ms: int
    event: str = "Order"
    properties: dict[str, Any] = {}
    type: str = "track"


@dataclass
class Person:
    """Everything known of one person; ``Facts``, from whole events."""

    events: Sequence[Event] = ()
    traits: Mapping[str, object] = field(default_factory=dict)
    group_traits: Sequence[Mapping[str, object]] = ()
    computed_values: Mapping[str, object] = field(default_factory=dict)
    audiences: frozenset[str] = frozenset()

    def entries(self, feature: Feature) -> Sequence[Entry]:
        """Those that fit the feature."""
        entries = [
            Entry(each.at_ms, mark, mark, value_at(each, feature.value))
            for mark, each in enumerate(self.events)
            if each.type == feature.type and feature.name in ("", each.event) and fits(each, feature.where)
        ]
        return sorted(entries)

    def computed(self, id: str) -> object:
        """A value that was given."""
        return self.computed_values.get(id)

    def is_member(self, audience_id: str) -> bool:
        """As was given."""
        return audience_id in self.audiences


def fits(event: Event, where: str | None) -> bool:
    """Whether the event meets a condition."""
    return not where or compile_condition(parse(where, EVENT_FIELDS))(_fields(event))


def value_at(event: Event, path: str | None) -> Any:
    """What can be kept of the value at a path."""
    value = compile_operand(Path(parse_path(path)))(_fields(event)) if path else None
    return None if value is MISSING or isinstance(value, list | dict) else value


def holds(condition: Condition, person: Person, now_ms: int, now_empty: Mapping[str, object] | None = None) -> bool:
    """Whether a condition holds for a person at an instant, the slow way."""
    if condition.all is not None:
        return all(holds(term, person, now_ms, now_empty) for term in condition.all)
    if condition.any is not None:
        return any(holds(term, person, now_ms, now_empty) for term in condition.any)
    if condition.not_ is not None:
        return not holds(condition.not_, person, now_ms, now_empty)
    if condition.audience is not None:
        return condition.audience in person.audiences
    if condition.if_ is not None:
        test = compile_condition(parse(condition.if_))
        person_fields = {"traits": dict(person.traits), "computed": {**(now_empty or {}), **person.computed_values}}
        groups = person.group_traits if "groupTraits" in condition.if_ else ()
        return any(test({**person_fields, "groupTraits": dict(group)}) for group in groups or ({},))
    times = sorted(at_ms for at_ms in _times(condition, person) if at_ms <= now_ms)
    if condition.first is not None or condition.last is not None:
        asked = [(times[0], condition.first), (times[-1], condition.last)] if times else []
        return bool(times) and all(_lies(at_ms, when, now_ms) for at_ms, when in asked if when is not None)
    counted = [at_ms for at_ms in times if counts(condition, at_ms, now_ms)]
    if condition.never:
        return not counted
    count = condition.count
    if count is None:
        return len(counted) >= 1
    tests = [count.gte is None or len(counted) >= count.gte, count.lte is None or len(counted) <= count.lte]
    return all([*tests, count.eq is None or len(counted) == count.eq])


def counts(clause: Condition | ComputedTrait, at_ms: int, now_ms: int) -> bool:
    """Whether an event at ``at_ms`` lies where the clause looks."""
    if at_ms > now_ms:
        return False
    if clause.within is not None:
        return at_ms > now_ms - parse_duration(clause.within) * 1000
    if clause.between is not None:
        begins, ends = (parse_instant(text) for text in clause.between)
        assert begins is not None
        assert ends is not None
        return begins <= at_ms < ends
    return True


def _times(condition: Condition, person: Person) -> list[int]:
    kinds = {"track": condition.event, "page": condition.page, "screen": condition.screen}
    ((type_, name),) = [(kind, name) for kind, name in kinds.items() if name is not None]
    return [
        each.at_ms
        for each in person.events
        if each.type == type_ and name in ("*", each.event) and fits(each, condition.where)
    ]


def _lies(at_ms: int, when: When, now_ms: int) -> bool:
    if when.within is not None:
        return at_ms > now_ms - parse_duration(when.within) * 1000
    before, after = (None if text is None else parse_instant(text) for text in (when.before, when.after))
    return (before is None or at_ms < before) and (after is None or at_ms >= after)


def _fields(event: Event) -> dict[str, Any]:
    return {"type": event.type, "event": event.event, "name": event.event, "properties": event.properties}
