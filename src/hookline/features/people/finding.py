"""Find people by the beginning of an id or of an indexed trait; nothing of those whose data is withheld."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from hookline.api.problem import Problem
from hookline.api.services import Services
from hookline.events.timestamps import iso
from hookline.features.people.service import ProfileReader, profile_log
from hookline.features.people.view import either, without_withheld
from hookline.people.store.search import PersonRow


class MatchedTrait(msgspec.Struct, frozen=True):
    """The trait that matched, and its value."""

    name: str
    value: str


class PersonSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One person of a list. ``anonymousId`` is set if there is no user id. ``name`` and ``email`` are null if they are
    unknown or not indexed. ``matched`` is null if the id matched."""

    user_id: str | None
    anonymous_id: str | None
    name: str | None
    email: str | None
    first_seen_at: str
    matched: MatchedTrait | None


class PeopleFound(msgspec.Struct, frozen=True, kw_only=True):
    """A page of people. ``indexed`` is the share of people whose traits can be searched; it is below 1 only while the
    index is built."""

    items: list[PersonSummary]
    after: str | None
    indexed: float


NOBODY = PeopleFound(items=[], after=None, indexed=1.0)


async def find_people(services: Services, text: str, limit: int) -> PeopleFound:
    """Return who has an id or an indexed trait that begins so; exact ids first."""

    def look(reader: ProfileReader) -> tuple[list[PersonRow], float]:
        return reader.search.find(text, limit), reader.search.built()

    found = await profile_log(services).read(look)
    if found is None:
        return NOBODY
    rows, built = found
    return PeopleFound(items=await asyncio.to_thread(_shown, services, rows), after=None, indexed=built)


async def list_people(services: Services, limit: int, after: str | None) -> PeopleFound:
    """Return the people with a user id, those first who were seen first last; raise Problem for a bad cursor."""
    before = _position(after)

    def look(reader: ProfileReader) -> tuple[list[PersonRow], str, float]:
        return *reader.search.identified(limit, before), reader.search.built()

    found = await profile_log(services).read(look)
    if found is None:
        return NOBODY
    rows, next_after, built = found
    shown = await asyncio.to_thread(_shown, services, rows)
    return PeopleFound(items=shown, after=next_after or None, indexed=built)


def _position(after: str | None) -> tuple[int, int] | None:
    if after is None:
        return None
    numbers = after.split(":")
    if len(numbers) != 2 or not all(each.isascii() and each.isdecimal() and len(each) < 19 for each in numbers):
        raise Problem(400, "invalid_parameter", "Use the value of `after` exactly as the last answer gave it.")
    return int(numbers[0]), int(numbers[1])


def _shown(services: Services, rows: Iterable[PersonRow]) -> list[PersonSummary]:
    return [
        _summary(row) for row in without_withheld(services, rows, lambda row: either(row.user_id, row.anonymous_id))
    ]


def _summary(row: PersonRow) -> PersonSummary:
    return PersonSummary(
        user_id=row.user_id,
        anonymous_id=row.anonymous_id,
        name=row.name or None,
        email=row.email or None,
        first_seen_at=iso(row.first_seen_ms),
        matched=MatchedTrait(row.matched, row.value) if row.matched else None,
    )
