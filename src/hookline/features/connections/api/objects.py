"""``/api/v1/sources`` and ``/api/v1/destinations``, and what the calls of every kind of configured object share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import Controller, Response, delete, get, patch, post, put
from litestar.params import JSONBody, QueryParameter
from msgspec.structs import replace

from hookline.api.calls import current_author, note_unchanged
from hookline.api.handlers import FromServices
from hookline.api.listing import After, FieldsOf, Id, Limit, Listing, Patch, by_id, has_condition, require_match, tagged
from hookline.api.problem import FieldError, Problem, invalid_body, not_found, pointer_of
from hookline.api.services import Services, connections_past
from hookline.connections.edits import Delete, Edit, Put
from hookline.connections.history import WORDS, Kind
from hookline.connections.model import Destination, Source, StandardWebhooks, WebhookSettings, new_write_key
from hookline.connections.rotation import new_secret
from hookline.connections.secrets import redact
from hookline.connections.state import ObjectT, Stored, kind_of
from hookline.connections.store import ChangeRefused, VersionConflict
from hookline.deliver.send.client_certificate import fault_and_details
from hookline.events.timestamps import iso
from hookline.features.connections.service import journal_ends
from hookline.kinds.model import KindSettings

AnyStored = Stored[Any] | None

STATUS_OF_CODE = {
    "not_found": 404,
    "source_in_use": 409,
    "destination_in_use": 409,
    "definition_in_use": 409,
    "duplicate_id": 409,
    "not_enabled": 409,
    "draining": 409,
    "rotated_out": 409,
    "changed_meanwhile": 412,
    "reference_needs_owner": 403,
}
"""Every other problem of an object is 422."""


class Sources(Controller):
    """The websites, apps and servers that send events."""

    path = "/sources"

    @get(needs="viewer")
    async def list_sources(self, services: FromServices, limit: Limit = 50, after: After = None) -> Listing[Source]:
        """List the sources by id."""
        sources = [stored.object for stored in services.store.sources()]
        return by_id(sources, [source.id for source in sources], limit, after)

    @post(needs="editor")
    async def create_source(
        self, services: FromServices, data: JSONBody[Annotated[dict[str, Any], FieldsOf(Source)]]
    ) -> Response[Source]:
        """Create a source. Without write keys in the body, Hookline generates one."""
        if isinstance(data, dict) and "writeKeys" not in data:
            data = {**data, "writeKeys": [new_write_key()]}
        made = create_object(services, converted(data, Source))
        return created(made.object, made.since, "sources")

    @get("/{id:str}", needs="viewer", tagged=True)
    async def get_source(self, services: FromServices, object_id: Id) -> Response[Source]:
        """Return one source."""
        stored = _source(services, object_id)
        return tagged(stored.object, object_tag(stored.since))

    @put("/{id:str}", needs="editor", tagged=True)
    async def put_source(self, services: FromServices, object_id: Id, data: JSONBody[Source]) -> Response[Source]:
        """Create or replace a source."""
        return put_object(services, object_id, data, services.store.source(object_id), "sources")

    @patch("/{id:str}", needs="editor", tagged=True)
    async def patch_source(self, services: FromServices, object_id: Id, data: Patch) -> Response[Source]:
        """Change some fields of a source (JSON Merge Patch, RFC 7396: null removes)."""
        patched = patch_object(services, _source(services, object_id), data)
        return tagged(patched.object, object_tag(patched.since))

    @delete("/{id:str}", needs="editor", tagged=True)
    async def delete_source(self, services: FromServices, object_id: Id) -> None:
        """Delete a source that no destination uses."""
        delete_object(services, "source", services.store.source(object_id), object_id)


RemoveSecrets = Annotated[
    bool,
    QueryParameter(
        name="removeSecrets",
        description="Remove the secrets of the destination from the history now, not after 30 days.",
    ),
]


class SecretsRemoved(msgspec.Struct, frozen=True, rename="camel"):
    """The number of secrets removed from the history of the destination."""

    destination: str
    removed: bool


class ShownCertificate(msgspec.Struct, frozen=True, rename="camel"):
    """A client certificate: location, subject, issuer, validity, and what is wrong with it (null if nothing). Its
    fields are null if it cannot be read."""

    client_certificate: str
    subject: str | None
    issuer: str | None
    valid_from: str | None
    expires_at: str | None
    problem: str | None


def shown_certificate(services: Services, destination: Destination) -> ShownCertificate | None:
    """Return what people see of a destination's client certificate, None when it has none."""
    pair = destination.settings.certificate_pair
    if pair is None:
        return None
    fault, details = fault_and_details(pair, services.settings)
    if details is None:
        return ShownCertificate(pair[0], None, None, None, None, fault)
    valid_from, expires_at = (iso(int(at.timestamp() * 1000)) for at in (details.valid_from, details.expires_at))
    return ShownCertificate(pair[0], details.subject, details.issuer, valid_from, expires_at, fault)


class Destinations(Controller):
    """Say where events go."""

    path = "/destinations"

    @get(needs="viewer")
    async def list_destinations(
        self, services: FromServices, limit: Limit = 50, after: After = None
    ) -> Listing[Destination]:
        """List the destinations by id."""
        destinations = [_shown(services, stored.object) for stored in services.store.destinations()]
        return by_id(destinations, [each.id for each in destinations], limit, after)

    @post(needs="editor")
    async def create_destination(
        self, services: FromServices, data: JSONBody[Annotated[dict[str, Any], FieldsOf(Destination)]]
    ) -> Response[Destination]:
        """Create a destination. Events acknowledged from now on are sent to it."""
        fields, secret = generate_secret(data, None)
        made = create_object(services, converted(fields, Destination))
        return created(revealed(_shown(services, made.object), secret), made.since, "destinations")

    @get("/{id:str}", needs="viewer", tagged=True)
    async def get_destination(self, services: FromServices, object_id: Id) -> Response[Destination]:
        """Return one destination, secrets masked."""
        stored = _destination(services, object_id)
        return tagged(_shown(services, stored.object), object_tag(stored.since))

    @get("/{id:str}/client-certificate", needs="viewer")
    async def get_client_certificate(self, services: FromServices, object_id: Id) -> ShownCertificate:
        """Return the client certificate of a destination: subject, expiry, and what is wrong with it."""
        shown = shown_certificate(services, _destination(services, object_id).object)
        if shown is None:
            raise Problem(404, "no_client_certificate", f"Destination {object_id!r} has no client certificate.")
        return shown

    @put("/{id:str}", needs="editor", tagged=True)
    async def put_destination(
        self, services: FromServices, object_id: Id, data: JSONBody[Annotated[dict[str, Any], FieldsOf(Destination)]]
    ) -> Response[Destination]:
        """Create or replace a destination. Delivery continues from its current position."""
        stored = services.store.destination(object_id)
        fields, secret = generate_secret(data, None if stored is None else stored.object)
        replaced = replace_object(services, object_id, converted(fields, Destination), stored)
        destination = revealed(_shown(services, replaced.object), secret)
        if stored is None:
            return created(destination, replaced.since, "destinations")
        return tagged(destination, object_tag(replaced.since))

    @patch("/{id:str}", needs="editor", tagged=True)
    async def patch_destination(self, services: FromServices, object_id: Id, data: Patch) -> Response[Destination]:
        """Change some fields of a destination (JSON Merge Patch, RFC 7396: null removes)."""
        stored = _destination(services, object_id)
        fields, secret = generate_secret(data, stored.object)
        patched = patch_object(services, stored, fields)
        return tagged(revealed(_shown(services, patched.object), secret), object_tag(patched.since))

    @delete("/{id:str}", needs="editor", tagged=True)
    async def delete_destination(
        self, services: FromServices, object_id: Id, remove_secrets: RemoveSecrets = False
    ) -> None:
        """Delete a destination. Events queued for it are not sent."""
        delete_object(services, "destination", services.store.destination(object_id), object_id)
        if remove_secrets:
            await _remove_old_secrets(services, object_id)

    @post("/{id:str}/remove-old-secrets", status_code=200, needs="editor")
    async def remove_old_secrets(self, services: FromServices, object_id: Id) -> SecretsRemoved:
        """Remove all secrets no longer in use from the history of a destination now. Otherwise each is removed 30 days
        after it was replaced. Also works for deleted destinations."""
        if not connections_past(services).had("destination", object_id):
            raise not_found("destination", object_id)
        removed = await _remove_old_secrets(services, object_id)
        if not removed:
            note_unchanged()
        return SecretsRemoved(object_id, removed)


def change(services: Services, edits: Sequence[Edit], owner: str | None = None) -> int:
    """Make the edits and return the version in force; what is wrong with them becomes a problem."""
    return refused_as_problem(
        lambda: services.store.change(edits, current_author(), owner, lambda: journal_ends(services.settings))
    )


ResultT = TypeVar("ResultT")


def refused_as_problem(work: Callable[[], ResultT]) -> ResultT:
    """Run a change of connections; its refusal becomes a problem with a pointer for each thing wrong."""
    try:
        done = work()
    except VersionConflict as error:
        raise Problem(409, error.code, f"{error}.") from None
    except ChangeRefused as error:
        first = error.problems[0]
        errors = [FieldError(pointer_of(each.path), each.message) for each in error.problems]
        raise Problem(STATUS_OF_CODE.get(first.code, 422), first.code, f"{error}.", errors) from None
    note_unchanged()  # but for the version that it made, if any
    return done


def _source(services: Services, object_id: str) -> Stored[Source]:
    stored = services.store.source(object_id)
    if stored is None:
        raise not_found("source", object_id)
    return stored


def _destination(services: Services, object_id: str) -> Stored[Destination]:
    stored = services.store.destination(object_id)
    if stored is None:
        raise not_found("destination", object_id)
    return stored


def _shown(services: Services, destination: Destination) -> Destination:
    return redact(destination, now_ms=services.store.now_ms())


async def _remove_old_secrets(services: Services, id: str) -> bool:
    store = services.store
    # What left force in this very millisecond counts too.
    return bool(await asyncio.to_thread(store.remove_old_secrets, store.now_ms() + 1, id))


def _stored(services: Services, wanted: ObjectT) -> Stored[ObjectT]:
    """Return the object as the store now has it: with secrets in place of masks."""
    kind = kind_of(wanted)
    stored = services.store.stored(kind, wanted.id)
    if stored is None:
        raise not_found(WORDS[kind], wanted.id)
    return stored


def create_object(services: Services, wanted: ObjectT) -> Stored[ObjectT]:
    """Make the object, whose id must be free."""
    if services.store.stored(kind_of(wanted), wanted.id) is not None:
        detail = f"The id {wanted.id!r} is taken; choose another, or PUT to replace the object."
        raise Problem(409, "already_exists", detail, [FieldError("/id", "taken")])
    change(services, [Put(wanted)])
    return _stored(services, wanted)


def replace_object(
    services: Services, object_id: str, wanted: ObjectT, stored: Stored[ObjectT] | None, made_of_it: bool = False
) -> Stored[ObjectT]:
    """Put the object in place of the stored one, if there is one; ``made_of_it``: of no other one."""
    if wanted.id != object_id:
        detail = f"The body's id is {wanted.id!r} but the address names {object_id!r}; an id never changes."
        raise Problem(422, "id_mismatch", detail, [FieldError("/id", f"must be {object_id!r}")])
    since = _wanted_since(stored)
    change(services, [Put(wanted, since=stored.since if made_of_it and stored is not None else since)])
    return _stored(services, wanted)


def put_object(
    services: Services, object_id: str, wanted: ObjectT, stored: Stored[ObjectT] | None, collection: str
) -> Response[ObjectT]:
    """Put the object in place of the stored one, or create it, and answer with it."""
    replaced = replace_object(services, object_id, wanted, stored)
    if stored is None:
        return created(replaced.object, replaced.since, collection)
    return tagged(replaced.object, object_tag(replaced.since))


def patch_object(services: Services, stored: Stored[ObjectT], patch: dict[str, Any]) -> Stored[ObjectT]:
    """Change some fields of the stored object (RFC 7396)."""
    try:
        fields = merged(msgspec.to_builtins(_before(stored.object)), patch)
    except RecursionError:
        raise Problem(400, "malformed_json", "The body is nested too deeply.") from None
    # A file that is applied meanwhile, in another thread, would be undone by what was read before it.
    return replace_object(services, stored.object.id, converted(fields, type(stored.object)), stored, made_of_it=True)


def _before(object: ObjectT) -> ObjectT:
    """Return what a patch is laid over: of a destination that makes requests ``keep`` in place of its secrets, so that
    they stay with the hosts that have them when the patch names another."""
    if isinstance(object, Destination) and isinstance(object.settings, KindSettings):
        return redact(object, keep=True)  # type: ignore[return-value]
    return object


def delete_object(services: Services, kind: Kind, stored: AnyStored, object_id: str) -> None:
    """Delete the stored object."""
    change(services, [Delete(kind, object_id, since=_wanted_since(stored))])


def _wanted_since(stored: AnyStored) -> int | None:
    """Return what the edit is tied to where the caller said ``If-Match``, so that nothing can come in between."""
    if not has_condition():
        return None
    require_match(None if stored is None else object_tag(stored.since))
    return None if stored is None else stored.since


def object_tag(since: int) -> str:
    """Return the entity tag of an object in force since this version."""
    return f'"{since}"'


def created(made: ObjectT, since: int, collection: str) -> Response[ObjectT]:
    """Return the answer 201 with the object's address and tag."""
    return tagged(made, object_tag(since), 201, {"Location": f"/api/v1/{collection}/{made.id}"})


def converted(fields: dict[str, Any], kind: type[ObjectT]) -> ObjectT:
    """Return the object that decoded fields describe; what is wrong with them becomes a problem."""
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise invalid_body(error) from None


Json = Any
"""Free-form JSON."""


def merged(target: Json, patch: Json) -> Json:
    """``target`` with ``patch`` laid over it: null removes a key, objects merge, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


_POINTER = "/settings/standardWebhooks/generate"


def generate_secret(fields: Any, stored: Destination | None) -> tuple[Any, str | None]:
    """Return the body with a new secret in place of ``generate``, and that secret; None when none was asked for.

    Refused where a secret is stored already: replacing that one must be a rotation, or receivers would fail.
    """
    settings: Any = fields.get("settings") if isinstance(fields, dict) else None
    standard: Any = settings.get("standardWebhooks") if isinstance(settings, dict) else None
    if not isinstance(standard, dict) or "generate" not in standard:
        return fields, None
    if standard["generate"] is not True or standard.get("secret") is not None:
        detail = "Write generate: true without a secret to have one made, or a secret without generate."
        raise Problem(422, "invalid_object", detail, [FieldError(_POINTER, "true, and no secret beside it")])
    if stored is not None and stored.settings.standard_webhooks is not None:
        detail = "There is a secret already; replace it with rotate-secret, so that receivers can follow."
        raise Problem(409, "secret_exists", detail, [FieldError(_POINTER, "there is a secret already")])
    secret = new_secret("standardWebhooks")
    given = {**standard, "secret": secret}
    del given["generate"]
    return {**fields, "settings": {**settings, "standardWebhooks": given}}, secret


def revealed(destination: Destination, secret: str | None) -> Destination:
    """Return the redacted destination with the secret that was just made for it, if one was."""
    if secret is None or not isinstance(destination.settings, WebhookSettings):
        return destination
    settings = replace(destination.settings, standard_webhooks=StandardWebhooks(secret=secret))
    return replace(destination, settings=settings)
