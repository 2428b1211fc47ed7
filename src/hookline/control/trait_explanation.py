"""What a person's value of a computed trait is made of, right now."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.connections.definitions.model import ComputedTrait
from hookline.control.audience_explanation import DecidingEvent, deciding_event
from hookline.control.profile_log import ProfileReader
from hookline.events.timestamps import iso
from hookline.people.definitions.compute import compute
from hookline.people.definitions.features import features_of


class TraitExplanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The value of a computed trait at ``at``, until when it holds if nothing new happens, and what it is made of.

    ``found`` events count, ``used`` of them have a value of the right kind, up to ten of those are named, newest
    first. ``historyComplete`` is false while the journal is still read up, and for a disabled trait.
    """

    computed_trait: str
    user_id: str | None
    at: str
    value: Any
    until: str | None
    text: str
    found: int
    used: int
    events: tuple[DecidingEvent, ...]
    history_complete: bool


def trait_explanation_of(
    reader: ProfileReader, trait: ComputedTrait, user_id: str | None, anonymous_id: str | None, now_ms: int
) -> TraitExplanation | None:
    """Explain a checked computed trait for the person of one of the ids; None when nobody has it."""
    people = reader.people
    person = people.by_user_id(user_id) if user_id is not None else people.by_anonymous_id(anonymous_id or "")
    if person is None:
        return None
    computed = compute(trait, reader.results.facts(person), now_ms)
    return TraitExplanation(
        computed_trait=trait.id,
        user_id=person.user_id,
        at=iso(now_ms),
        value=computed.value,
        until=None if computed.until_ms is None else iso(computed.until_ms),
        text=computed.text,
        found=computed.found,
        used=computed.used,
        events=tuple(deciding_event(reader, each) for each in computed.entries),
        history_complete=reader.results.is_complete(features_of(trait)),
    )
