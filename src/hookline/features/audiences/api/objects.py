"""``/api/v1/audiences`` and ``/api/v1/computed-traits``: the calls that sources and destinations have, for what is said
about people. Deleting one tells nobody: the trait stays at the destinations as it was sent last."""

from __future__ import annotations

from litestar import Controller, Response, delete, get, patch, post, put
from litestar.params import JSONBody

from hookline.api.json_body import Patch
from hookline.api.listing import After, Id, Limit, Listing, by_id, tagged
from hookline.api.problem import not_found
from hookline.api.services import FromServices, Services
from hookline.connections.definitions.model import Audience, ComputedTrait
from hookline.connections.state import Stored
from hookline.features.connections.api.objects import (
    create_object,
    created,
    delete_object,
    object_tag,
    patch_object,
    put_object,
)


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
        """Create an audience; every member is told to its destinations at once."""
        made = create_object(services, data)
        return created(made.object, made.since, "audiences")

    @get("/{id:str}", needs="viewer", tagged=True)
    async def get_audience(self, services: FromServices, object_id: Id) -> Response[Audience]:
        """Return one audience."""
        stored = stored_audience(services, object_id)
        return tagged(stored.object, object_tag(stored.since))

    @put("/{id:str}", needs="editor", tagged=True)
    async def put_audience(self, services: FromServices, object_id: Id, data: JSONBody[Audience]) -> Response[Audience]:
        """Create or replace an audience; who comes and goes by a new condition is told with the next sync."""
        stored = services.store.audience(object_id)
        return put_object(services, object_id, data, stored, "audiences")

    @patch("/{id:str}", needs="editor", tagged=True)
    async def patch_audience(self, services: FromServices, object_id: Id, data: Patch) -> Response[Audience]:
        """Change some fields of an audience (JSON Merge Patch, RFC 7396: null removes)."""
        patched = patch_object(services, stored_audience(services, object_id), data)
        return tagged(patched.object, object_tag(patched.since))

    @delete("/{id:str}", needs="editor", tagged=True)
    async def delete_audience(self, services: FromServices, object_id: Id) -> None:
        """Delete an audience that no other asks for."""
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
        """Create a computed trait; every value is told to its destinations at once."""
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
        """Create or replace a computed trait; values that differ then are told with the next sync."""
        stored = services.store.computed_trait(object_id)
        return put_object(services, object_id, data, stored, "computed-traits")

    @patch("/{id:str}", needs="editor", tagged=True)
    async def patch_computed_trait(self, services: FromServices, object_id: Id, data: Patch) -> Response[ComputedTrait]:
        """Change some fields of a computed trait (JSON Merge Patch, RFC 7396: null removes)."""
        patched = patch_object(services, stored_computed_trait(services, object_id), data)
        return tagged(patched.object, object_tag(patched.since))

    @delete("/{id:str}", needs="editor", tagged=True)
    async def delete_computed_trait(self, services: FromServices, object_id: Id) -> None:
        """Delete a computed trait that no audience asks for."""
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
