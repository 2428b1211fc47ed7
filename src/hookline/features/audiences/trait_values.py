"""``/api/v1/computed-traits/{id}/values`` and ``explain``: who has which value, and what it is made of."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from litestar import Controller, get

from hookline.api.listing import After, AnonymousId, Id, Limit, Listing, UserId, number_after
from hookline.api.problem import FieldError, Problem
from hookline.api.services import FromServices
from hookline.connections.definitions.model import ComputedTrait
from hookline.events.timestamps import iso
from hookline.features.audiences.api import stored_computed_trait
from hookline.features.audiences.explanations import TraitExplanation, trait_explanation_of
from hookline.features.people.log import ProfileReader
from hookline.features.people.service import profile_log
from hookline.people.sync.state import empty_value


class TraitValue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The value of a person as the computed trait's last sync left it. Who has no user id has ``anonymousId`` instead,
    and is told once there is one. ``until`` is when it may change if nothing new happens."""

    user_id: str | None
    anonymous_id: str | None
    value: Any
    since: str
    until: str | None
    told: bool


class TraitValues(Controller):
    """The values of one computed trait."""

    path = "/computed-traits/{id:str}"

    @get("/values", needs="viewer")
    async def list_values(
        self, services: FromServices, object_id: Id, limit: Limit = 50, after: After = None
    ) -> Listing[TraitValue]:
        """List the values of a computed trait as its last sync left them, in the order in which people were first
        seen."""
        trait = stored_computed_trait(services, object_id).object
        above = number_after(after) or 0
        found = await profile_log(services).read(lambda reader: _values(reader, trait, limit, above))
        return Listing([], None) if found is None else found

    @get("/explain", needs="viewer")
    async def explain_value(
        self,
        services: FromServices,
        object_id: Id,
        user_id: UserId = None,
        anonymous_id: AnonymousId = None,
    ) -> TraitExplanation:
        """Return which value a person has right now, and which events it is made of: give `userId` or `anonymousId`."""
        trait = stored_computed_trait(services, object_id).object
        if (user_id is None) == (anonymous_id is None):
            errors = [FieldError("?userId", "give either userId or anonymousId")]
            raise Problem(400, "invalid_parameter", "Give either `userId` or `anonymousId`.", errors)
        now_ms = int(time.time() * 1000)
        found = await profile_log(services).read(
            lambda reader: trait_explanation_of(reader, trait, user_id, anonymous_id, now_ms)
        )
        if found is None:
            raise Problem(404, "not_found", "Nothing is known of a person with this id.")
        return found


def _values(reader: ProfileReader, trait: ComputedTrait, limit: int, after: int) -> Listing[TraitValue]:
    found = reader.sync_states.held(("trait", trait.id), empty_value(trait), limit + 1, after)
    page = found[:limit]
    values = [
        TraitValue(
            user_id=each.user_id,
            anonymous_id=None if each.user_id is not None else reader.people.person(each.person).anonymous_id(),
            value=msgspec.json.decode(each.value),
            since=iso(each.since_ms),
            until=None if each.until_ms is None else iso(each.until_ms),
            told=each.told,
        )
        for each in page
    ]
    return Listing(values, str(page[-1].person) if len(found) > limit else None)
