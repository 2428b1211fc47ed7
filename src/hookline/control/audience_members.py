"""``/api/v1/audiences/{id}/members`` and ``explain``: who is in an audience, and why somebody is or is not."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from litestar import Controller, get
from litestar.params import FromPath, QueryParameter

from hookline.connections.definitions.model import ComputedTrait
from hookline.control.audience_explanation import Explanation, explanation_of
from hookline.control.definitions import stored_audience
from hookline.control.listing import After, Limit, Listing, number_after
from hookline.control.problem import FieldError, Problem
from hookline.control.profile_log import ProfileReader
from hookline.control.services import FromServices
from hookline.events.timestamps import iso

ID_CHARACTERS_MAX = 1_000


class MemberView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A person the audience's last sync found in it. Who has no user id has ``anonymousId`` instead, and is told once
    there is one. ``until`` is when the person goes if nothing new happens."""

    user_id: str | None
    anonymous_id: str | None
    since: str
    until: str | None
    told: bool


class AudienceMembers(Controller):
    """The people of one audience."""

    path = "/audiences/{object_id:str}"

    @get("/members", needs="viewer")
    async def list_members(
        self, services: FromServices, object_id: FromPath[str], limit: Limit = 50, after: After = None
    ) -> Listing[MemberView]:
        """Return the members as the last sync left them, in the order in which they were first seen."""
        stored_audience(services, object_id)
        above = number_after(after) or 0
        found = await services.profiles.read(lambda reader: _members(reader, object_id, limit, above))
        return Listing([], None) if found is None else found

    @get("/explain", needs="viewer")
    async def explain_membership(
        self,
        services: FromServices,
        object_id: FromPath[str],
        user_id: Annotated[str | None, QueryParameter(name="userId", max_length=ID_CHARACTERS_MAX)] = None,
        anonymous_id: Annotated[str | None, QueryParameter(name="anonymousId", max_length=ID_CHARACTERS_MAX)] = None,
    ) -> Explanation:
        """Return whether a person belongs to the audience right now, and what of the person decides each clause."""
        audience = stored_audience(services, object_id).object
        if (user_id is None) == (anonymous_id is None):
            errors = [FieldError("?userId", "give either userId or anonymousId")]
            raise Problem(400, "invalid_parameter", "Give either `userId` or `anonymousId`.", errors)
        traits: dict[str, ComputedTrait] = {
            each.object.id: each.object for each in services.store.in_force("computedTrait")
        }
        now_ms = int(time.time() * 1000)
        found = await services.profiles.read(
            lambda reader: explanation_of(reader, audience, traits, user_id, anonymous_id, now_ms)
        )
        if found is None:
            raise Problem(404, "not_found", "Nothing is known of a person with this id.")
        return found


def _members(reader: ProfileReader, audience: str, limit: int, after: int) -> Listing[MemberView]:
    found = reader.standing.members(audience, limit + 1, after)
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
