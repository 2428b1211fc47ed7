"""The filters of one destination, compiled: which events it gets, and what is taken out of their bodies.

A filter sees the event as the filters before it left it. Decisions follow from the event and the filters alone
(``sample`` hashes the messageId), so a second read decides alike. Delete messages are never filtered: a receiver must
learn of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from hookline.connections.kinds import asked_settings, requests_of
from hookline.connections.model import Destination, Filter
from hookline.events.property_edit import PropertyEdit, edit_body, edit_fields
from hookline.events.timestamps import iso
from hookline.events.view import EVENT_FIELDS, EventView
from hookline.expressions.compile import Condition, compile_condition
from hookline.expressions.parse import parse
from hookline.expressions.tree import parse_path
from hookline.journal.record import Record
from hookline.kinds.requests import FIELDS

UNFILTERED_TYPE = "delete"
NO_REQUEST = "No request of the mapping matches this event"
_HASH_BITS = 64
_SETTING = re.compile(r"\bsettings\.([\w$-]+)")


class Decision(NamedTuple):
    """Hold what the filters do with one event: the one that does not send it, and those that take something out."""

    stopped_by: int | None
    edited_by: tuple[int, ...]


NOTHING = Decision(None, ())


class Filters:
    """The compiled filters; raise ExpressionError when they were never checked."""

    __slots__ = ("_body", "_body_of", "_decided", "_decided_of", "_rules", "_settings", "edits", "filters", "stops")

    def __init__(
        self, filters: Sequence[Filter], conditions: Sequence[str] = (), settings: Mapping[str, Any] | None = None
    ) -> None:
        """``conditions``: those of a mapping's requests, one of which must hold; without any, nothing is asked.

        ``settings`` are those that the conditions name.
        """
        self.filters = tuple(filters)
        self._settings = settings or {}
        self._rules = [_Rule.of(filter) for filter in self.filters]
        if conditions:
            self._rules.append(_Rule.unless(conditions))
        self.stops = any(rule.edit is None for rule in self._rules)
        """Whether some filter keeps events from being sent."""
        self.edits = any(rule.edit is not None for rule in self._rules)
        """Whether some filter takes something out."""
        # The lanes of a source, and the URLs of a destination, ask about the same event one after the other.
        self._decided_of: Record | None = None
        self._decided = NOTHING
        self._body_of: tuple[Record | None, bool] = (None, False)
        self._body = b""

    def passes(self, record: Record) -> bool:
        """Return whether the event is sent."""
        return self.decide(record).stopped_by is None

    def decide(self, record: Record) -> Decision:
        """Return what the filters do with the event."""
        if record is not self._decided_of:
            self._decided = self._run(record, stop=True)
            self._decided_of = record
        return self._decided

    def body(self, record: Record, rendered: bytes, canonical: bool) -> bytes:
        """Return the body to send: ``rendered`` without what the filters take out.

        Filters that stop events do not count: what is being sent passed them when its lane took it.
        """
        found, form = self._body_of
        if found is not record or form is not canonical:
            edits = [edit for index in self.edited_by(record) if (edit := self._rules[index].edit) is not None]
            self._body = edit_body(rendered, edits, canonical) if edits else rendered
            self._body_of = record, canonical
        return self._body

    def matching(self, record: Record) -> tuple[int, ...]:
        """Return the filters whose condition holds, up to the one that does not send the event."""
        matching: list[int] = []
        self._run(record, stop=True, matching=matching)
        return tuple(matching)

    def edited_by(self, record: Record) -> tuple[int, ...]:
        """Return the filters that take something out of the event when it is sent."""
        return self._run(record, stop=False).edited_by if self.edits else ()

    def rule(self, index: int) -> str:
        """Return what a filter does as people read it, with its number and its condition."""
        if index == len(self.filters):
            return NO_REQUEST
        filter = self.filters[index]
        events = "all events" if filter.condition == "true" else f"events where {filter.condition}"
        fields = ", ".join(filter.properties or ())
        does = {
            "drop": f"drops {events}",
            "sample": f"sends only {filter.percent or 0:g} % of {events}",
            "dropProperties": f"removes {fields} from {events}",
            "allowProperties": f"keeps only {fields} of {events}",
        }
        return f"Filter {index + 1} {does[filter.do]}"

    def _run(self, record: Record, stop: bool, matching: list[int] | None = None) -> Decision:
        first = 0
        if record.type == UNFILTERED_TYPE:  # no filter keeps it away, but not every mapping has a request for it
            if len(self._rules) == len(self.filters):
                return NOTHING
            first = len(self.filters)
        fields: EventView | dict[str, Any] = _view_of(record)
        edited_by: list[int] = []
        for index, rule in enumerate(self._rules[first:], first):
            if not rule.condition(fields if index < len(self.filters) else _Asked(fields, self._settings, record)):
                continue
            if matching is not None:
                matching.append(index)
            if rule.edit is None:
                if stop and not rule.lets_through(record):
                    return Decision(index, ())
            else:
                edited_by.append(index)
                if index < len(self._rules) - 1:
                    whole = fields.all() if isinstance(fields, EventView) else fields
                    fields = edit_fields(whole, rule.edit)
        return Decision(None, tuple(edited_by)) if edited_by else NOTHING


def filters_of(destination: Destination) -> Filters | None:
    """Return what decides which events a destination gets, None where it gets all of its stream.

    Raise ExpressionError when its filters were never checked.
    """
    return Filters(*rules_of(destination)) if keeps_away(destination) else None


def rules_of(destination: Destination) -> tuple[tuple[Filter, ...], tuple[str, ...], dict[str, Any]]:
    """Return the filters, the conditions one of which an event must meet to become a request, and the settings that
    these name."""
    conditions: list[str] = []
    for request in requests_of(destination):
        if request.condition is None:
            return destination.filters, (), {}
        conditions.append(request.condition)
    # Those alone: where they change other events become requests, which a new credential does not bring about.
    named = {name for condition in conditions for name in _SETTING.findall(condition)}
    settings = asked_settings(destination) if named else {}
    return destination.filters, tuple(conditions), {name: settings[name] for name in named & settings.keys()}


def keeps_away(destination: Destination) -> bool:
    """Return whether some event of a destination's stream may be kept from it."""
    return any(rules_of(destination)[:2])


class _Asked:
    """Hold what the conditions of a mapping's requests ask: the event's fields, the settings, and when it was
    received."""

    __slots__ = ("_fields", "_record", "_settings")

    def __init__(self, fields: EventView | dict[str, Any], settings: Mapping[str, Any], record: Record) -> None:
        self._fields = fields
        self._settings = settings
        self._record = record

    def get(self, name: str, default: Any, /) -> Any:
        """Return a field's value, or the default."""
        if name == "settings":
            return self._settings
        if name == "receivedAt":
            return iso(self._record.received_at)
        return self._fields.get(name, default)


class _Rule(NamedTuple):
    condition: Condition
    sent_below: int
    """Of 2^64 hashes, those below are sent; 0 for ``drop``."""
    edit: PropertyEdit | None

    @classmethod
    def of(cls, filter: Filter) -> _Rule:
        condition = compile_condition(parse(filter.condition, EVENT_FIELDS))
        if filter.do == "sample":
            return cls(condition, int((filter.percent or 0) / 100 * 2**_HASH_BITS), None)
        if filter.do == "drop":
            return cls(condition, 0, None)
        paths = [parse_path(path) for path in filter.properties or ()]
        return cls(condition, 0, PropertyEdit.of(paths, keep=filter.do == "allowProperties"))

    @classmethod
    def unless(cls, conditions: Sequence[str]) -> _Rule:
        """Return the rule that keeps away what none of the conditions holds for."""
        compiled = [compile_condition(parse(each, FIELDS)) for each in conditions]
        return cls(lambda fields: not any(condition(fields) for condition in compiled), 0, None)

    def lets_through(self, record: Record) -> bool:
        if not self.sent_below:
            return False
        hashed = blake2b(record.message_id.encode("utf-8", "surrogatepass"), digest_size=_HASH_BITS // 8).digest()
        return int.from_bytes(hashed, "big") < self.sent_below


_last: tuple[Record, EventView] | None = None


def _view_of(record: Record) -> EventView:
    """Return the event's view, shared by the destinations that look at it in turn."""
    global _last
    last = _last
    if last is not None and last[0] is record:
        return last[1]
    view = EventView(record)
    _last = record, view
    return view
