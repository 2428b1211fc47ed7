"""An event as a person sees it, field by field: what the paths of expressions address.

The same fields as in a webhook body, under the names of the collection API; what a body leaves out is missing here
too. Reads no more of the event than it is asked for.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

import msgspec

from hookline.events import untyped
from hookline.events.accepted import Accepted
from hookline.events.body import render_plain

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

_OWN = {"type": "type", "source": "source", "messageId": "message_id", "timestamp": "timestamp"}
"""Fields that stand beside the caller's JSON, with their names there."""
_IN_BODY = {"previousId": "Previous ID"}


class Stored(Accepted, Protocol):
    """An accepted event with what the collection edge knows of it; a journal record has it."""

    @property
    def source(self) -> str:
        """Return the id of the source."""

    @property
    def message_id(self) -> str:
        """Return the messageId, made up if the caller gave none."""

    @property
    def origin(self) -> str:
        """Return who made it: ``sdk`` for a caller."""


class EventView:
    """The fields of one event as decoded JSON, read when they are asked for; never raises."""

    __slots__ = ("_event", "_named", "_whole")

    def __init__(self, event: Stored) -> None:
        self._event = event
        self._named: _Names | None = None
        self._whole: dict[str, Any] | None = None

    def get(self, name: str, default: Any, /) -> Any:
        """Return a field's value, or the default when the event has none."""
        own = _OWN.get(name)
        if own is not None:
            return getattr(self._event, own)
        if self._whole is None and name in _NAMES:
            named = self._named or self._read_names()
            if named is not None:
                value = getattr(named, name)
                return default if value is None or value == "" else str(value)
        return (self._whole or self._read_all()).get(name, default)

    def all(self) -> dict[str, Any]:
        """Return every field there is, as a new dictionary."""
        return dict(self._whole or self._read_all())

    def _read_names(self) -> _Names | None:
        """Read the ids and names alone: most conditions ask for nothing else."""
        try:
            self._named = _decode_names(self._event.body)
        except (ValueError, RecursionError):  # a field of another type: the body knows what becomes of it
            return None
        return self._named

    def _read_all(self) -> dict[str, Any]:
        self._whole = fields_of(self._event)
        return self._whole


def fields_of(event: Stored, body: bytes | None = None) -> dict[str, Any]:
    """Return every field of an event; ``body`` is its rendered body, where that is known or has been changed."""
    try:
        read = _decode(render_plain(event) if body is None else body)
    except (ValueError, RecursionError):  # not an event at all: it has no fields
        read = {}
    whole = {name: getattr(event, own) for name, own in _OWN.items()}
    for name in _IN_ORDER:
        written = _IN_BODY.get(name, name)
        if written in read:
            whole[name] = read[written]
    if "User ID" in read:
        whole["userId"] = read["User ID"]
    return whole


def integrations_of(event: Stored) -> dict[str, Any] | None:
    """Return which integrations the caller chose: the event's own choices over those of its batch, None for none."""
    if event.origin != "sdk":  # it was routed here, which is no choice for whatever is behind a receiver
        return None
    own, shared = (_object_in(each) for each in (event.body, event.envelope))
    return {**(shared or {}), **(own or {})} if own is not None or shared is not None else None


def _object_in(body: bytes | None) -> dict[str, Any] | None:
    try:
        found = None if body is None else _decode(body).get("integrations")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class _Names(msgspec.Struct, gc=False):
    event: str | int | None = None
    name: str | int | None = None
    category: str | int | None = None
    userId: str | int | None = None
    anonymousId: str | int | None = None
    groupId: str | int | None = None
    previousId: str | int | None = None


_NAMES = frozenset(_Names.__struct_fields__)
_IN_ORDER = (*_Names.__struct_fields__, *EVENT_OBJECTS)
_decode_names = msgspec.json.Decoder(_Names).decode


def _decode(body: bytes) -> dict[str, Any]:
    try:
        tree = untyped.decode(body)
    except (ValueError, RecursionError):  # lone surrogates, numbers beyond any range
        tree = json.loads(body, parse_int=float)
    return tree if isinstance(tree, dict) else {}
