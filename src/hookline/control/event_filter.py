"""Which stored events are meant: the filter that lists, the live stream and the pages share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from hookline.journal.record import Record


class EventFilter(NamedTuple):
    """What a search asks for; None asks for nothing. ``text`` is looked for anywhere in the event."""

    source: str | None = None
    type: str | None = None
    event: str | None = None
    user_id: str | None = None
    message_id: str | None = None
    status: str | None = None
    text: str | None = None

    def matcher(self) -> Callable[[Record], bool]:
        """Return whether a record is wanted, as far as it tells by itself: of statuses it only knows ``rejected``."""
        holds_text = _holding(self.text) if self.text else None

        def matches(record: Record) -> bool:
            return (
                (self.source is None or record.source == self.source)
                and (self.type is None or record.type == self.type)
                and (self.user_id is None or record.user_key == self.user_id)
                and (self.message_id is None or record.message_id == self.message_id)
                and (self.status != "rejected" or record.rejection is not None)
                and (self.event is None or event_name(record) == self.event)
                and (holds_text is None or holds_text(record))
            )

        return matches


EVERYTHING = EventFilter()


def event_name(record: Record) -> str:
    """Return what a person calls the event: a track call's event, a page's or screen's name; empty for other types."""
    return name_in(record.type, record.body)


def name_in(message_type: str, body: bytes) -> str:
    """Return the name in an event's JSON; rejected items are kept as they came, so it may not be JSON at all."""
    try:
        named = _named.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    name = named.event if message_type == "track" else named.name
    return name if isinstance(name, str) else ""


class _Named(msgspec.Struct):
    event: object = None
    name: object = None


_named = msgspec.json.Decoder(_Named)


def _holding(text: str) -> Callable[[Record], bool]:
    """Looks for a text, capital or small, in an event's ids and JSON, where its writer may have escaped it or not."""
    folded = text.lower()
    # Bytes fold ASCII only, which lower-casing before the encoding has done for the rest of what people type.
    as_written = json.dumps(folded, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    escaped = json.dumps(folded)[1:-1].encode()
    forms = {as_written, escaped}

    def holds(record: Record) -> bool:
        if folded in record.message_id.lower() or folded in record.user_key.lower():
            return True
        body = record.body.lower()
        return any(form in body for form in forms)

    return holds
