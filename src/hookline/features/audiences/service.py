"""Show and sync audiences and traits: counts of members, requests, and why a person is in or has a value."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from hookline.api.services import Services, part
from hookline.beats import next_beat
from hookline.connections.definitions.model import Audience, ComputedTrait
from hookline.connections.store import Store
from hookline.database.location import Schema, location_of
from hookline.database.open import ensure
from hookline.database.sqlite import DatabaseError, DatabaseTooNew, engine
from hookline.events.timestamps import iso
from hookline.features.people.service import ProfileLog, ProfileReader, profile_log
from hookline.people.definitions.definition import Key, compute
from hookline.people.definitions.feature import features_of
from hookline.people.definitions.reason import Deciding, Reason, explain
from hookline.people.previews import PreviewRequests
from hookline.people.sync.results import Counted, OverlapStep, SyncRequests
from hookline.settings import Settings
from hookline.telemetry.log import logger


class DecidingEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An event that decided a clause, and when it happened. Its other fields are null once the event is no longer
    stored."""

    at: str
    source: str | None
    message_id: str | None


class Clause(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One clause of the condition: what it says, whether it holds, and until when if nothing new happens.

    Clauses about events have ``found``, how many count, and up to ten of them, newest first; an ``if`` has the values
    it asked for, by path, those of up to ten groups as a list, and in ``valuesMore`` how many more groups have one;
    ``all``, ``any`` and ``not`` have ``terms``.
    """

    path: str
    text: str
    held: bool
    until: str | None
    found: int | None
    events: tuple[DecidingEvent, ...]
    values: dict[str, Any]
    values_more: dict[str, int]
    terms: tuple[Clause, ...]


class SyncedMember(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A member as of the last sync: since when, and whether that was sent to destinations."""

    since: str
    sent: bool


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The membership of a person at ``at``, how long it lasts if nothing new happens, and why. ``synced`` is the
    membership as of the last sync, null for none. ``historyComplete`` is false while the journal is still being read
    for a condition.
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
        synced=None if member is None else SyncedMember(since=iso(member.since_ms), sent=member.synced),
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
        values_more=reason.values_more,
        terms=tuple(_clause(reader, each) for each in reason.terms),
    )


def deciding_event(reader: ProfileReader, deciding: Deciding) -> DecidingEvent:
    """Return the event at a place, as far as the journal still has it."""
    record = reader.record(deciding.position)
    return DecidingEvent(
        at=iso(deciding.at_ms),
        source=None if record is None else record.source,
        message_id=None if record is None else record.message_id,
    )


def _instant(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)


class TraitExplanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The value of a computed trait at ``at``, until when it lasts if nothing new happens, and what it is computed
    from: ``found`` events match, ``used`` of them have a value of the right kind, and up to ten of those are listed,
    newest first. ``historyComplete`` is false while the journal is still being read.
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


PATIENCE_SECONDS = 0.02
"""What a page waits: few members are counted by then."""
GOOD_SECONDS_MIN = 2.0
"""A number is taken for right so long, or for a hundred times as long as counting took."""
GOOD_PER_SECOND_COUNTED = 100
REMEMBERED_MAX = 4_000


class CountRequest(NamedTuple):
    """Hold what is to be counted: the value, as JSON, that stands for none, and the number of the last sync."""

    empty: str
    sync: int


class _CachedCount(NamedTuple):
    people: int
    sync: int
    good_until: float


class MemberCounts:
    """Used on the event loop."""

    def __init__(self, profiles: ProfileLog) -> None:
        self._profiles = profiles
        self._known: dict[Key, _CachedCount] = {}
        self._counting: asyncio.Task[None] | None = None

    async def of(self, wanted: Mapping[Key, CountRequest]) -> dict[Key, int]:
        """Return the numbers that are known; those of others will be, a moment later."""
        now = time.monotonic()
        stale = {key: each for key, each in wanted.items() if not self._is_good(key, each, now)}
        if stale and (self._counting is None or self._counting.done()):
            self._counting = asyncio.create_task(self._count(stale))
        if stale and self._counting is not None:
            done, _ = await asyncio.wait([self._counting], timeout=PATIENCE_SECONDS)
            for task in done:
                task.result()
        return {key: self._known[key].people for key in wanted if key in self._known}

    def _is_good(self, key: Key, wanted: CountRequest, now: float) -> bool:
        known = self._known.get(key)
        return known is not None and known.sync == wanted.sync and known.good_until > now

    async def _count(self, wanted: Mapping[Key, CountRequest]) -> None:
        for key, (empty, sync) in wanted.items():
            began, people, after = time.monotonic(), 0, 0
            while (step := await self._profiles.read(partial(_step, key=key, empty=empty, after=after))) is not None:
                people += step.people
                if step.last is None:
                    break
                after = step.last
            now = time.monotonic()
            good = max(GOOD_SECONDS_MIN, GOOD_PER_SECOND_COUNTED * (now - began))
            self._known.pop(key, None)
            self._known[key] = _CachedCount(people, sync, now + good)
            while len(self._known) > REMEMBERED_MAX:
                del self._known[next(iter(self._known))]


def _step(reader: ProfileReader, key: Key, empty: str, after: int) -> Counted:
    return reader.sync_states.count(key, empty, after)


class MembersPart(NamedTuple):
    """Say how many people are in one part of a comparison, and the numbers of the first of them."""

    people: int
    sample: tuple[int, ...]


class Overlap(NamedTuple):
    """Hold who is in two audiences, and who only in one of them."""

    both: MembersPart
    only_a: MembersPart
    only_b: MembersPart


async def overlap_of(profiles: ProfileLog, a: str, b: str, shown: int) -> Overlap:
    """Count the members of two audiences against each other, in steps of a few milliseconds each."""
    both, only_a = await _against(profiles, a, b, shown)
    _, only_b = await _against(profiles, b, a, shown)
    return Overlap(both, only_a, only_b)


async def _against(profiles: ProfileLog, this: str, other: str, shown: int) -> tuple[MembersPart, MembersPart]:
    """Return the members of one audience who are in the other, and those who are not."""
    counts, samples, after = [0, 0], ([], []), 0  # type: tuple[list[int], tuple[list[int], list[int]], int]
    while (step := await profiles.read(partial(_overlap_step, this=this, other=other, after=after))) is not None:
        for person, is_in_other in step.members:
            counts[is_in_other] += 1
            if len(samples[is_in_other]) < shown:
                samples[is_in_other].append(person)
        if step.last is None:
            break
        after = step.last
    alone, together = (MembersPart(counts[at], tuple(samples[at])) for at in (False, True))
    return together, alone


def _overlap_step(reader: ProfileReader, this: str, other: str, after: int) -> OverlapStep:
    return reader.sync_states.overlap(this, other, after)


POLL_SECONDS = 1.0
MARK = "profiles.wanted"
"""The file that says so to the supervisor where the database is none."""


class DefinitionWatch:
    """Looks until there is one; what was made stays."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._location = location_of(settings, "profiles")
        self._mark = settings.data_path / MARK if isinstance(self._location, Schema) else self._location
        self._store = store
        self._previews = PreviewRequests(settings.data_path / "run")

    async def run_forever(self) -> None:
        """Look until it is there; it stays."""
        failed = False
        while not self._mark.exists():
            try:
                self.look()
            except (engine.Error, OSError, DatabaseError) as error:
                if not failed:
                    logger().warning(
                        "profiles_not_made", error=str(error), next_step="it is tried again until it works"
                    )
                failed = True
            await next_beat(POLL_SECONDS)
        if failed:
            logger().info("profiles_made")

    def look(self) -> None:
        """Make it if it is asked for."""
        if self._store.in_force("audience") or self._store.in_force("computedTrait") or self._is_preview_asked():
            with suppress(DatabaseTooNew):  # then it is made, and profiles stand by
                ensure(self._location, "profiles")
            self._mark.touch()

    def _is_preview_asked(self) -> bool:
        return bool(self._previews.asked(int(time.time() * 1000)))


@part
def preview_requests(services: Services) -> PreviewRequests:
    """Return how previews are asked for."""
    return PreviewRequests(services.settings.data_path / "run")


@part
def sync_requests(services: Services) -> SyncRequests:
    """Return how syncs are asked for."""
    return SyncRequests(services.settings.data_path / "run")


@part
def member_counts(services: Services) -> MemberCounts:
    """Return how many members audiences have."""
    return MemberCounts(profile_log(services))


@part
def definition_watch(services: Services) -> DefinitionWatch:
    """Return what makes the database of people once it is needed."""
    return DefinitionWatch(services.settings, services.store)
