"""What one record says of a person: its ids and names, and its fields where a feature asks for them."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.events.timestamps import parse
from hookline.events.view import EventView
from hookline.journal.record import Record

Scalar = str | int | float | bool | None
_NOTHING = msgspec.Raw()


class Doing(msgspec.Struct, gc=False):
    """The caller's ids and names as they were written."""

    userId: Scalar = None
    anonymousId: Scalar = None
    event: Scalar = None
    name: Scalar = None
    groupId: Scalar = None
    previousId: Scalar = None
    traits: msgspec.Raw = _NOTHING
    properties: msgspec.Raw = _NOTHING


_doing = msgspec.json.Decoder(Doing).decode


_properties = msgspec.json.Decoder(dict[str, Any]).decode


def is_of_a_person(record: Record) -> bool:
    """Whether the record is something that a person did: accepted, still there, and not one of our own messages."""
    return record.origin == "sdk" and record.rejection is None and not record.erased


def doing_of(record: Record) -> Doing:
    """What a record says; of a body that cannot be read, no more than the user key."""
    try:
        return _doing(record.body)
    except (ValueError, RecursionError):
        return Doing(userId=record.user_key)


def text(value: Scalar) -> str:
    """An id or name as a string, the way JavaScript writes numbers; empty when there is none."""
    if value.__class__ is str:
        return value
    if value is None or value is False or value is True:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value)


def at_ms_of(record: Record) -> int:
    """The event's own time."""
    at_ms = parse(record.timestamp)
    return record.received_at if at_ms is None else at_ms


class DoingFields:
    """The fields that conditions and paths see: those of ``EventView``, the commonest read straight from the record."""

    __slots__ = ("_properties", "_raw", "_record", "_view")

    def __init__(self, record: Record, doing: Doing) -> None:
        self._record = record
        self._raw = doing.properties
        self._properties: dict[str, Any] | None = None
        self._view: EventView | None = None

    def get(self, name: str, default: Any, /) -> Any:
        """A field's value, or the default when the event has none."""
        if name == "properties":
            found = self._properties
            if found is None:
                try:
                    found = _properties(self._raw)
                except (ValueError, RecursionError):
                    found = {}
                self._properties = found
            if found:
                return found
        return self._viewed(name, default)

    def _viewed(self, name: str, default: Any) -> Any:
        if self._view is None:
            self._view = EventView(self._record)
        return self._view.get(name, default)
