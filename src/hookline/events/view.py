"""An event as a person sees it, field by field: what the paths of expressions address.

The same fields as in a webhook body, under the names of the collection API; what a body leaves out is missing here
too. Reads no more of the event than it is asked for.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

import msgspec

from hookline.events.body import Accepted, render_plain

EVENT_FIELDS = (
    "type",
    "event",
    "name",
    "category",
    "userId",
    "anonymousId",
    "groupId",
    "previousId",
    "messageId",
    "timestamp",
    "source",
    "properties",
    "traits",
    "context",
)
"""What a path may begin with."""
EVENT_OBJECTS = ("properties", "traits", "context")
"""The fields that have fields of their own."""

_IN_BODY = {"previousId": "Previous ID"}


class Stored(Accepted, Protocol):
    """An accepted event with what the collection edge knows of it; a journal record has it."""

    @property
    def source(self) -> str:
        """The id of the source."""

    @property
    def message_id(self) -> str:
        """The messageId, made up if the caller gave none."""


class EventView:
    """The fields of one event as decoded JSON, read when they are asked for; never raises."""

    __slots__ = ("_event", "_fields", "_named", "_whole")

    def __init__(self, event: Stored) -> None:
        self._event = event
        self._fields: dict[str, Any] = {
            "type": event.type,
            "source": event.source,
            "messageId": event.message_id,
            "timestamp": event.timestamp,
        }
        self._named = False
        self._whole = False

    def get(self, name: str, default: Any, /) -> Any:
        """A field's value, or the default when the event has none."""
        if name in _NAMES:
            if not self._named:
                self._read_names()
        elif name in EVENT_OBJECTS and not self._whole:
            self._read_all()
        return self._fields.get(name, default)

    def all(self) -> dict[str, Any]:
        """Every field there is, as a new dictionary."""
        if not self._whole:
            self._read_all()
        return dict(self._fields)

    def _read_names(self) -> None:
        """Read the ids and names alone: most conditions ask for nothing else."""
        self._named = True
        try:
            named = _decode_names(self._event.body)
        except (ValueError, RecursionError):  # a field of another type: the body knows what becomes of it
            self._read_all()
            return
        for name in _NAMES:
            value = getattr(named, name)
            if value is not None and value != "":
                self._fields[name] = str(value)

    def _read_all(self) -> None:
        self._named = self._whole = True
        try:
            body = _decode(render_plain(self._event))
        except (ValueError, RecursionError):  # not an event at all: it has no fields
            body = {}
        for name in (*_NAMES, *EVENT_OBJECTS):
            written = _IN_BODY.get(name, name)
            if written in body:
                self._fields[name] = body[written]
        if "User ID" in body:
            self._fields["userId"] = body["User ID"]


class _Names(msgspec.Struct, gc=False):
    event: str | int | None = None
    name: str | int | None = None
    category: str | int | None = None
    userId: str | int | None = None
    anonymousId: str | int | None = None
    groupId: str | int | None = None
    previousId: str | int | None = None


_NAMES = _Names.__struct_fields__
_decode_names = msgspec.json.Decoder(_Names).decode
_decode_any = msgspec.json.Decoder().decode


def _decode(body: bytes) -> dict[str, Any]:
    try:
        tree = _decode_any(body)
    except (ValueError, RecursionError):  # lone surrogates, numbers beyond any range
        tree = json.loads(body, parse_int=float)
    return tree if isinstance(tree, dict) else {}
