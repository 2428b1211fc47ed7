"""The events of one person as the API and the time line show them: of all identities, newest first."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hookline.control.event_filter import event_name
from hookline.control.event_log import parse_cursor
from hookline.control.listing import Listing
from hookline.control.person_log import FoundPerson, PersonReader
from hookline.events.timestamps import iso
from hookline.journal.record import Record
from hookline.people.ingest.extraction import RecordView, text, view_of

SUMMARY_CHARACTERS_MAX = 200


class PersonEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One stored event. ``name`` is that of a track call, page or screen; ``timestamp`` the event's own time.

    ``summary`` is what a call without a name is about: the names of the traits that identify gives, what a sync told,
    the group, the previous id.

    ``origin`` is ``sdk`` for what was sent, and ``audience`` or ``trait`` for what a sync told about the person.
    ``rejected`` is the code with which it was refused.
    """

    message_id: str
    source: str
    type: str
    name: str
    summary: str
    user_id: str | None
    anonymous_id: str | None
    received_at: str
    timestamp: str
    origin: str
    rejected: str | None


def person_events(
    reader: PersonReader, known: FoundPerson, limit: int, after: str | None, seconds: float
) -> Listing[PersonEvent]:
    """Return one page; it may be short when looking took longer than ``seconds``. Raise Problem for a bad cursor."""
    page = reader.timeline.page(known.owned, limit, seconds, parse_cursor(after) if after else None)
    return Listing([_event(stored.record) for stored in page.found], cursor(page.before))


def cursor(before: Mapping[int, int]) -> str | None:
    """Return where the next page begins; None when there is none."""
    return ",".join(f"{partition}:{offset}" for partition, offset in before.items()) or None


def _event(record: Record) -> PersonEvent:
    view = view_of(record)
    return PersonEvent(
        message_id=record.message_id,
        source=record.source,
        type=record.type,
        name=event_name(record),
        summary=_summary(record, view),
        user_id=text(view.userId) or None,
        anonymous_id=text(view.anonymousId) or None,
        received_at=iso(record.received_at),
        timestamp=record.timestamp,
        origin=record.origin,
        rejected=None if record.rejection is None else record.rejection.code,
    )


def _summary(record: Record, view: RecordView) -> str:
    found = ""
    if record.type == "identify":
        traits = _given(view)
        told = (f"{name}: {bytes(value).decode()}" for name, value in traits.items())
        found = ", ".join(traits if record.origin == "sdk" else told)
    elif record.type == "group":
        found = text(view.groupId)
    elif record.type == "alias":
        found = text(view.previousId)
    return found if len(found) <= SUMMARY_CHARACTERS_MAX else found[:SUMMARY_CHARACTERS_MAX] + "…"


def _given(view: RecordView) -> dict[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(view.traits, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError):
        return {}
