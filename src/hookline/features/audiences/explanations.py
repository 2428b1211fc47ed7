"""Why a person is in an audience, or has a trait's value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hookline.connections.definitions.model import Audience, ComputedTrait
from hookline.events.timestamps import iso
from hookline.features.people.service import ProfileReader
from hookline.people.definitions.compute import compute
from hookline.people.definitions.explain import explain
from hookline.people.definitions.feature import features_of
from hookline.people.definitions.reason import Deciding, Reason


class DecidingEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An event that decided: when it happened. What it was is null once the journal has it no more."""

    at: str
    source: str | None
    message_id: str | None


class Clause(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One clause of the condition: what it says, whether it holds, and until when if nothing new happens.

    Clauses about events have ``found``, how many count, and up to ten of them, newest first; an ``if`` has the values
    it asked for, by path, those of groups as a list; ``all``, ``any`` and ``not`` have ``terms``.
    """

    path: str
    text: str
    held: bool
    until: str | None
    found: int | None
    events: tuple[DecidingEvent, ...]
    values: dict[str, Any]
    terms: tuple[Clause, ...]


class SyncedMember(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the last sync left: since when a member, and whether destinations were told so."""

    since: str
    told: bool


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether a person belongs to an audience at ``at``, until when that holds if nothing new happens, and why.

    ``synced`` is the membership as the last sync left it, null for none. ``historyComplete`` is false while the
    journal is still read up for a condition, and for a disabled audience, for which nothing is kept.
    """

    audience: str
    user_id: str | None
    at: str
    member: bool
    until: str | None
    synced: SyncedMember | None
    history_complete: bool
    reason: Clause


def explanation_of(
    reader: ProfileReader,
    audience: Audience,
    traits: Mapping[str, ComputedTrait],
    user_id: str | None,
    anonymous_id: str | None,
    now_ms: int,
) -> Explanation | None:
    """Explain a checked audience for the person of one of the ids; None when nobody has it."""
    people, results = reader.people, reader.results
    person = people.by_user_id(user_id) if user_id is not None else people.by_anonymous_id(anonymous_id or "")
    if person is None:
        return None
    verdict = explain(audience, results.facts(person), now_ms, traits)
    member = results.member(audience.id, person)
    return Explanation(
        audience=audience.id,
        user_id=person.user_id,
        at=iso(now_ms),
        member=verdict.member,
        until=_instant(verdict.until_ms),
        synced=None if member is None else SyncedMember(since=iso(member.since_ms), told=member.told),
        history_complete=results.is_complete(features_of(audience)),
        reason=_clause(reader, verdict.reason),
    )


def _clause(reader: ProfileReader, reason: Reason) -> Clause:
    return Clause(
        path=reason.path,
        text=reason.text,
        held=reason.held,
        until=_instant(reason.until_ms),
        found=reason.found,
        events=tuple(deciding_event(reader, each) for each in reason.entries),
        values=reason.values,
        terms=tuple(_clause(reader, each) for each in reason.terms),
    )


def deciding_event(reader: ProfileReader, deciding: Deciding) -> DecidingEvent:
    """Return the event at a place, as far as the journal still has it."""
    record = reader.record(deciding.place)
    return DecidingEvent(
        at=iso(deciding.at_ms),
        source=None if record is None else record.source,
        message_id=None if record is None else record.message_id,
    )


def _instant(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)


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
