"""``/api/v1/audiences/{id}/members``, ``explain`` and ``history``: who is in an audience, why, and since when."""

from __future__ import annotations

import time

import msgspec
from litestar import Controller, get

from hookline.api.listing import After, AnonymousId, Id, Limit, Listing, UserId, number_after
from hookline.api.problem import FieldError, Problem
from hookline.api.services import FromServices
from hookline.connections.definitions.model import ComputedTrait
from hookline.events.timestamps import iso
from hookline.features.audiences.api.objects import stored_audience
from hookline.features.audiences.explanations import Explanation, explanation_of
from hookline.features.people.service import ProfileReader, profile_log

ID_CHARACTERS_MAX = 1_000
CHANGES_SHOWN_MAX = 200
"""The newest; more there are only of a person who was several."""


class MemberView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A person the audience's last sync found in it. Who has no user id has ``anonymousId`` instead, and is told once
    there is one. ``until`` is when the person goes if nothing new happens."""

    user_id: str | None
    anonymous_id: str | None
    since: str
    until: str | None
    told: bool


class MembershipChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A person became a member, or ceased to be one, at ``at``, as the sync of this number found; null where that came
    before it was written down."""

    at: str
    member: bool
    sync: int | None


class AudienceMembers(Controller):
    """The people of one audience."""

    path = "/audiences/{id:str}"

    @get("/members", needs="viewer")
    async def list_members(
        self, services: FromServices, object_id: Id, limit: Limit = 50, after: After = None
    ) -> Listing[MemberView]:
        """List the members of an audience as its last sync left them, in the order in which they were first seen."""
        stored_audience(services, object_id)
        above = number_after(after) or 0
        found = await profile_log(services).read(lambda reader: _members(reader, object_id, limit, above))
        return Listing([], None) if found is None else found

    @get("/explain", needs="viewer")
    async def explain_membership(
        self,
        services: FromServices,
        object_id: Id,
        user_id: UserId = None,
        anonymous_id: AnonymousId = None,
    ) -> Explanation:
        """Return whether a person belongs to an audience right now, and what decides each clause: give `userId` or
        `anonymousId`."""
        audience = stored_audience(services, object_id).object
        _require_one(user_id, anonymous_id)
        traits: dict[str, ComputedTrait] = {
            each.object.id: each.object for each in services.store.in_force("computedTrait")
        }
        now_ms = int(time.time() * 1000)
        found = await profile_log(services).read(
            lambda reader: explanation_of(reader, audience, traits, user_id, anonymous_id, now_ms)
        )
        if found is None:
            raise _nobody()
        return found

    @get("/history", needs="viewer")
    async def list_membership_changes(
        self,
        services: FromServices,
        object_id: Id,
        user_id: UserId = None,
        anonymous_id: AnonymousId = None,
    ) -> Listing[MembershipChange]:
        """List when a person came to an audience and went from it, newest first: give `userId` or `anonymousId`."""
        stored_audience(services, object_id)
        _require_one(user_id, anonymous_id)
        found = await profile_log(services).read(lambda reader: _history(reader, object_id, user_id, anonymous_id))
        if found is None:
            raise _nobody()
        return found


def _nobody() -> Problem:
    return Problem(404, "not_found", "Nothing is known of a person with this id.")


def _require_one(user_id: str | None, anonymous_id: str | None) -> None:
    if (user_id is None) == (anonymous_id is None):
        errors = [FieldError("?userId", "give either userId or anonymousId")]
        raise Problem(400, "invalid_parameter", "Give either `userId` or `anonymousId`.", errors)


def _history(
    reader: ProfileReader, audience: str, user_id: str | None, anonymous_id: str | None
) -> Listing[MembershipChange] | None:
    people = reader.people
    person = people.by_user_id(user_id) if user_id is not None else people.by_anonymous_id(anonymous_id or "")
    if person is None:
        return None
    changes = reader.membership_changes(person, audience)[:CHANGES_SHOWN_MAX]
    return Listing([MembershipChange(at=iso(each.at_ms), member=each.member, sync=each.sync) for each in changes], None)


def _members(reader: ProfileReader, audience: str, limit: int, after: int) -> Listing[MemberView]:
    found = reader.results.members(audience, limit + 1, after)
    page = found[:limit]
    views = [
        MemberView(
            user_id=each.user_id,
            anonymous_id=None if each.user_id is not None else reader.people.person(each.person).anonymous_id(),
            since=iso(each.since_ms),
            until=None if each.until_ms is None else iso(each.until_ms),
            told=each.told,
        )
        for each in page
    ]
    return Listing(views, str(page[-1].person) if len(found) > limit else None)
