"""Serve ``/api/v1/audiences`` and ``/api/v1/computed-traits``: the objects, and the syncs of each."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Controller, Response, delete, get, patch, post, put
from litestar.params import JSONBody

from hookline.api.audit.log import AuditChange
from hookline.api.calls import the_call
from hookline.api.handlers import FromServices
from hookline.api.listing import After, AnonymousId, Id, Limit, Listing, Patch, UserId, by_id, number_after, tagged
from hookline.api.problem import Problem, not_found
from hookline.api.services import Services
from hookline.connections.definitions.model import Audience, ComputedTrait, Definition
from hookline.connections.state import Stored
from hookline.events import untyped
from hookline.events.timestamps import iso
from hookline.features.audiences.service import TraitExplanation, sync_requests, trait_explanation_of
from hookline.features.connections.api.objects import (
    create_object,
    created,
    delete_object,
    object_tag,
    patch_object,
    put_object,
)
from hookline.features.people.api import asked_for
from hookline.features.people.service import ProfileReader, profile_log
from hookline.features.people.view import either, refuse, withheld_person, without_withheld
from hookline.people.definitions.definition import Key
from hookline.people.sync.results import empty_value


class Audiences(Controller):
    """The people for whom a condition holds."""

    path = "/audiences"

    @get(needs="viewer")
    async def list_audiences(self, services: FromServices, limit: Limit = 50, after: After = None) -> Listing[Audience]:
        """List the audiences by id."""
        audiences: list[Audience] = [stored.object for stored in services.store.in_force("audience")]
        return by_id(audiences, [each.id for each in audiences], limit, after)

    @post(needs="editor")
    async def create_audience(self, services: FromServices, data: JSONBody[Audience]) -> Response[Audience]:
        """Create an audience. Its members are synced to its destinations immediately."""
        made = create_object(services, data)
        return created(made.object, made.since, "audiences")

    @get("/{id:str}", needs="viewer", tagged=True)
    async def get_audience(self, services: FromServices, object_id: Id) -> Response[Audience]:
        """Return one audience."""
        stored = stored_audience(services, object_id)
        return tagged(stored.object, object_tag(stored.since))

    @put("/{id:str}", needs="editor", tagged=True)
    async def put_audience(self, services: FromServices, object_id: Id, data: JSONBody[Audience]) -> Response[Audience]:
        """Create or replace an audience. If the condition changes, the next sync syncs who joins and who leaves."""
        stored = services.store.audience(object_id)
        return put_object(services, object_id, data, stored, "audiences")

    @patch("/{id:str}", needs="editor", tagged=True)
    async def patch_audience(self, services: FromServices, object_id: Id, data: Patch) -> Response[Audience]:
        """Change some fields of an audience (JSON Merge Patch, RFC 7396: null removes)."""
        patched = patch_object(services, stored_audience(services, object_id), data)
        return tagged(patched.object, object_tag(patched.since))

    @delete("/{id:str}", needs="editor", tagged=True)
    async def delete_audience(self, services: FromServices, object_id: Id) -> None:
        """Delete an audience that no other audience uses."""
        delete_object(services, "audience", services.store.audience(object_id), object_id)


class ComputedTraits(Controller):
    """Values made of each person's events."""

    path = "/computed-traits"

    @get(needs="viewer")
    async def list_computed_traits(
        self, services: FromServices, limit: Limit = 50, after: After = None
    ) -> Listing[ComputedTrait]:
        """List the computed traits by id."""
        traits: list[ComputedTrait] = [stored.object for stored in services.store.in_force("computedTrait")]
        return by_id(traits, [each.id for each in traits], limit, after)

    @post(needs="editor")
    async def create_computed_trait(
        self, services: FromServices, data: JSONBody[ComputedTrait]
    ) -> Response[ComputedTrait]:
        """Create a computed trait. Its values are synced to its destinations immediately."""
        made = create_object(services, data)
        return created(made.object, made.since, "computed-traits")

    @get("/{id:str}", needs="viewer", tagged=True)
    async def get_computed_trait(self, services: FromServices, object_id: Id) -> Response[ComputedTrait]:
        """Return one computed trait."""
        stored = stored_computed_trait(services, object_id)
        return tagged(stored.object, object_tag(stored.since))

    @put("/{id:str}", needs="editor", tagged=True)
    async def put_computed_trait(
        self, services: FromServices, object_id: Id, data: JSONBody[ComputedTrait]
    ) -> Response[ComputedTrait]:
        """Create or replace a computed trait. The next sync syncs the values that changed."""
        stored = services.store.computed_trait(object_id)
        return put_object(services, object_id, data, stored, "computed-traits")

    @patch("/{id:str}", needs="editor", tagged=True)
    async def patch_computed_trait(self, services: FromServices, object_id: Id, data: Patch) -> Response[ComputedTrait]:
        """Change some fields of a computed trait (JSON Merge Patch, RFC 7396: null removes)."""
        patched = patch_object(services, stored_computed_trait(services, object_id), data)
        return tagged(patched.object, object_tag(patched.since))

    @delete("/{id:str}", needs="editor", tagged=True)
    async def delete_computed_trait(self, services: FromServices, object_id: Id) -> None:
        """Delete a computed trait that no audience uses."""
        delete_object(services, "computedTrait", services.store.computed_trait(object_id), object_id)


def stored_audience(services: Services, object_id: str) -> Stored[Audience]:
    """Return the audience with this id; raise Problem when there is none."""
    stored = services.store.audience(object_id)
    if stored is None:
        raise not_found("audience", object_id)
    return stored


def stored_computed_trait(services: Services, object_id: str) -> Stored[ComputedTrait]:
    """Return the computed trait with this id; raise Problem when there is none."""
    stored = services.store.computed_trait(object_id)
    if stored is None:
        raise not_found("computed trait", object_id)
    return stored


class SyncView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A sync that has ended. ``at`` is the moment for which people were evaluated. ``came`` people joined or got
    another value, ``went`` left or lost their value, and ``people`` had a value after it (null for syncs by older
    versions). People without a user id are counted, but not synced."""

    number: int
    at: str
    finished_at: str
    came: int
    went: int
    people: int | None


class SyncAsked(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The request was accepted. Once the sync has ended, it is in ``syncs`` with an ``at`` not before ``askedAt``."""

    id: str
    asked_at: str


class AudienceSyncs(Controller):
    """Syncs of an audience."""

    path = "/audiences/{id:str}"

    @get("/syncs", needs="viewer")
    async def list_audience_syncs(
        self, services: FromServices, object_id: Id, limit: Limit = 50, after: After = None
    ) -> Listing[SyncView]:
        """List the syncs of one audience, newest first: when, and how many people joined and left."""
        stored_audience(services, object_id)
        return await _syncs(services, ("audience", object_id), limit, after)

    @post("/sync", status_code=202, needs="editor")
    async def sync_audience(self, services: FromServices, object_id: Id) -> SyncAsked:
        """Sync one audience now, or right after a running sync."""
        return await _ask(services, ("audience", object_id), stored_audience(services, object_id).object)


class ComputedTraitSyncs(Controller):
    """Syncs of a computed trait."""

    path = "/computed-traits/{id:str}"

    @get("/syncs", needs="viewer")
    async def list_computed_trait_syncs(
        self, services: FromServices, object_id: Id, limit: Limit = 50, after: After = None
    ) -> Listing[SyncView]:
        """List the syncs of one computed trait, newest first: when, and how many people got or lost a value."""
        stored_computed_trait(services, object_id)
        return await _syncs(services, ("trait", object_id), limit, after)

    @post("/sync", status_code=202, needs="editor")
    async def sync_computed_trait(self, services: FromServices, object_id: Id) -> SyncAsked:
        """Sync one computed trait now, or right after a running sync."""
        return await _ask(services, ("trait", object_id), stored_computed_trait(services, object_id).object)


async def _ask(services: Services, key: Key, definition: Definition) -> SyncAsked:
    if not definition.enabled:
        raise Problem(
            409, "definition_disabled", f"{definition.id!r} is disabled; enable it, and it is synced at once."
        )
    asked_at = iso(services.store.steady_ms())  # as syncs say when they were
    await asyncio.to_thread(sync_requests(services).ask, key)
    name = f"{'audiences' if key[0] == 'audience' else 'computed-traits'}/{key[1]}"
    the_call().changed(name, AuditChange(name, "sync", None, asked_at))
    return SyncAsked(id=definition.id, asked_at=asked_at)


async def _syncs(services: Services, key: Key, limit: int, after: str | None) -> Listing[SyncView]:
    before = number_after(after)
    found = await profile_log(services).read(lambda reader: reader.results.syncs(key, limit + 1, before)) or []
    page = [
        SyncView(
            number=each.number,
            at=iso(each.at_ms),
            finished_at=iso(each.finished_ms),
            came=each.came,
            went=each.went,
            people=each.people,
        )
        for each in found[:limit]
    ]
    return Listing(page, str(page[-1].number) if len(found) > limit else None)


class TraitValue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The value of a person as of the last sync. A person without a user id has ``anonymousId`` instead, and is synced
    once there is a user id. ``until`` is when the value may change if nothing new happens."""

    user_id: str | None
    anonymous_id: str | None
    value: Any
    since: str
    until: str | None
    synced: bool


class TraitValues(Controller):
    """The values of one computed trait."""

    path = "/computed-traits/{id:str}"

    @get("/values", needs="viewer")
    async def list_values(
        self, services: FromServices, object_id: Id, limit: Limit = 50, after: After = None
    ) -> Listing[TraitValue]:
        """List the values of a computed trait as of its last sync, in the order in which people were first seen;
        without those who are suppressed or being erased."""
        trait = stored_computed_trait(services, object_id).object
        above = number_after(after) or 0
        found = await profile_log(services).read(lambda reader: _values(services, reader, trait, limit, above))
        return Listing([], None) if found is None else found

    @get("/explain", needs="viewer")
    async def explain_value(
        self,
        services: FromServices,
        object_id: Id,
        user_id: UserId = None,
        anonymous_id: AnonymousId = None,
    ) -> TraitExplanation:
        """Return the value of a person now, and the events it is computed from. Give `userId` or `anonymousId`."""
        trait = stored_computed_trait(services, object_id).object
        refuse(await withheld_person(services, asked_for(user_id, anonymous_id)))
        now_ms = services.store.steady_ms()
        found = await profile_log(services).read(
            lambda reader: trait_explanation_of(reader, trait, user_id, anonymous_id, now_ms)
        )
        if found is None:
            raise Problem(404, "not_found", "Nothing is known about a person with this id.")
        return found


def _values(
    services: Services, reader: ProfileReader, trait: ComputedTrait, limit: int, after: int
) -> Listing[TraitValue]:
    found = reader.sync_states.held(("trait", trait.id), empty_value(trait), limit + 1, after)
    page = found[:limit]
    values = [
        TraitValue(
            user_id=each.user_id,
            anonymous_id=None if each.user_id is not None else reader.people.person(each.person).anonymous_id(),
            value=untyped.decode(each.value),
            since=iso(each.since_ms),
            until=None if each.until_ms is None else iso(each.until_ms),
            synced=each.synced,
        )
        for each in page
    ]
    shown = without_withheld(services, values, lambda each: either(each.user_id, each.anonymous_id))
    return Listing(shown, str(page[-1].person) if len(found) > limit else None)
