"""Serve who is in an audience and why, and how many people a condition would find (``/api/v1/audience-previews``)."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any, TypeVar

import msgspec
from litestar import Controller, get, post
from litestar.params import JSONBody

from hookline.api.calls import the_call
from hookline.api.handlers import FromServices
from hookline.api.listing import After, AnonymousId, Id, Limit, Listing, UserId, number_after
from hookline.api.problem import FieldError, Problem, invalid_body, not_found, pointer_of
from hookline.api.services import Services
from hookline.connections.definitions.check import Surroundings, definition_problems, problems_together
from hookline.connections.definitions.model import Audience, ComputedTrait, Condition, Definition
from hookline.events.timestamps import iso
from hookline.features.audiences.api.objects import stored_audience
from hookline.features.audiences.service import Explanation, explanation_of, preview_requests
from hookline.features.people.api import asked_for
from hookline.features.people.service import ProfileReader, profile_log
from hookline.features.people.view import either, refuse, withheld_person, without_withheld
from hookline.people.previews import (
    ID_PREFIX,
    PREVIEWS_MAX,
    SAMPLE_MAX,
    Preview,
    PreviewId,
    PreviewState,
    RequestedPreview,
    Sampled,
    Side,
)

DefinitionT = TypeVar("DefinitionT", Audience, ComputedTrait)

ID_CHARACTERS_MAX = 1_000
CHANGES_SHOWN_MAX = 200
"""The newest; more there are only of a person who was several."""


class MemberView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A member as of the last sync. A person without a user id has ``anonymousId`` instead, and is synced once there is
    a user id. ``until`` is when the person leaves if nothing new happens."""

    user_id: str | None
    anonymous_id: str | None
    since: str
    until: str | None
    synced: bool


class MembershipChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A person joined or left at ``at``. ``sync`` is the number of the sync that found it, null for changes from before
    this was recorded."""

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
        """List the members of an audience as of its last sync, in the order in which they were first seen; without
        those who are suppressed or being erased."""
        stored_audience(services, object_id)
        above = number_after(after) or 0
        found = await profile_log(services).read(lambda reader: _members(services, reader, object_id, limit, above))
        return Listing([], None) if found is None else found

    @get("/explain", needs="viewer")
    async def explain_membership(
        self,
        services: FromServices,
        object_id: Id,
        user_id: UserId = None,
        anonymous_id: AnonymousId = None,
    ) -> Explanation:
        """Return whether a person is in an audience now, and what decides each clause. Give `userId` or
        `anonymousId`."""
        audience = stored_audience(services, object_id).object
        refuse(await withheld_person(services, asked_for(user_id, anonymous_id)))
        traits: dict[str, ComputedTrait] = {
            each.object.id: each.object for each in services.store.in_force("computedTrait")
        }
        now_ms = services.store.steady_ms()
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
        """List when a person joined and left an audience, newest first. Give `userId` or `anonymousId`."""
        stored_audience(services, object_id)
        refuse(await withheld_person(services, asked_for(user_id, anonymous_id)))
        found = await profile_log(services).read(lambda reader: _history(reader, object_id, user_id, anonymous_id))
        if found is None:
            raise _nobody()
        return found


def _nobody() -> Problem:
    return Problem(404, "not_found", "Nothing is known about a person with this id.")


def _history(
    reader: ProfileReader, audience: str, user_id: str | None, anonymous_id: str | None
) -> Listing[MembershipChange] | None:
    people = reader.people
    person = people.by_user_id(user_id) if user_id is not None else people.by_anonymous_id(anonymous_id or "")
    if person is None:
        return None
    changes = reader.membership_changes(person, audience)[:CHANGES_SHOWN_MAX]
    return Listing([MembershipChange(at=iso(each.at_ms), member=each.member, sync=each.sync) for each in changes], None)


def _members(services: Services, reader: ProfileReader, audience: str, limit: int, after: int) -> Listing[MemberView]:
    found = reader.results.members(audience, limit + 1, after)
    page = found[:limit]
    views = [
        MemberView(
            user_id=each.user_id,
            anonymous_id=None if each.user_id is not None else reader.people.person(each.person).anonymous_id(),
            since=iso(each.since_ms),
            until=None if each.until_ms is None else iso(each.until_ms),
            synced=each.synced,
        )
        for each in page
    ]
    shown = without_withheld(services, views, lambda each: either(each.user_id, each.anonymous_id))
    return Listing(shown, str(page[-1].person) if len(found) > limit else None)


ID_BYTES = 8
TAKEN_MS = 30_000
"""Within this the role, if it runs, has taken it up."""
NOT_TAKEN = "The role profiles has not started on it yet: check that it runs, and read its log."
UNNAMED = {"id": f"preview-{secrets.token_hex(ID_BYTES)}", "name": "Preview"}
"""What a definition is called that has no id yet; nobody can have given this id to another, to which it refers."""


class PreviewRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The definition to preview: the ``condition`` of an audience, or a ``computedTrait``, whose id and name may be
    left out.

    ``against`` is another condition to compare a condition with: ``{"audience": ID}`` are the members of an audience as
    of its last sync. ``replaces`` is the id of an earlier preview that is no longer needed.
    """

    condition: Condition | None = None
    computed_trait: dict[str, Any] | None = None
    against: Condition | None = None
    replaces: str | None = None


class SampledPerson(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One person of the sample. A person without a user id has ``anonymousId`` instead. ``value`` is the value of a
    computed trait, or true for a member."""

    user_id: str | None
    anonymous_id: str | None
    value: Any = None


class PreviewComparison(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The difference of a condition from the one it is compared with, which finds ``members``: ``kept`` are found by
    both, ``added`` only by the condition, ``removed`` only by the other; with up to ten of each."""

    members: int
    kept: int
    added: int
    removed: int
    kept_sample: tuple[SampledPerson, ...]
    added_sample: tuple[SampledPerson, ...]
    removed_sample: tuple[SampledPerson, ...]


class PreviewView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A preview: ``reading`` while Hookline reads stored events for it, then ``counting``, then ``done`` or ``failed``.

    ``people`` is how many were evaluated so far, ``members`` how many of them match, or have a value of the computed
    trait. ``sample`` has up to ten of these. ``detail`` says why the preview failed, or waits, and what to do.
    ``comparison`` is set once the preview is done, if another condition was given.
    """

    id: str
    state: PreviewState
    progress: float
    people: int | None = None
    members: int | None = None
    sample: tuple[SampledPerson, ...] = ()
    detail: str | None = None
    comparison: PreviewComparison | None = None


class AudiencePreviews(Controller):
    """Nothing is saved and nothing is synced."""

    path = "/audience-previews"

    @post(status_code=202, needs="editor")
    async def create_audience_preview(self, services: FromServices, data: JSONBody[PreviewRequest]) -> PreviewView:
        """Count how many people match a condition or have a value, before you save it. Nothing is synced. At most 10
        previews run at a time; each is kept for an hour."""
        the_call().only_looked = True
        definition = _definition(services, data)
        replaces = PreviewId(data.replaces or "")
        wish = RequestedPreview(
            asked_ms=int(time.time() * 1000),
            audience=definition if isinstance(definition, Audience) else None,
            computed_trait=definition if isinstance(definition, ComputedTrait) else None,
            against=None if data.against is None else _checked(services, _unnamed(data.against), "/against"),
            replaces=replaces or None,
        )
        if preview_requests(services).since_ms(replaces) is not None:  # nobody has begun with it
            await asyncio.to_thread(preview_requests(services).done, replaces)
        under_way = await profile_log(services).read(lambda reader: reader.previews.open(replaces)) or 0
        if under_way + len(preview_requests(services).asked(wish.asked_ms)) >= PREVIEWS_MAX:
            detail = f"{PREVIEWS_MAX} previews are running; ask again when one of them is done."
            raise Problem(409, "too_many_previews", detail)
        id = PreviewId(f"{ID_PREFIX}{secrets.token_hex(ID_BYTES)}")
        await asyncio.to_thread(preview_requests(services).ask, id, wish)
        return PreviewView(id=id, state="reading", progress=0.0)

    @get("/{id:str}", needs="viewer")
    async def get_audience_preview(self, services: FromServices, preview_id: Id) -> PreviewView:
        """Return the progress of a preview, how many people it found, and up to ten of them."""
        id = PreviewId(preview_id)
        since_ms = preview_requests(services).since_ms(id)  # first: it is written down before it is taken away there
        found = await profile_log(services).read(lambda reader: _view(services, reader, reader.previews.get(id)))
        if found is not None:
            return found
        if since_ms is None:
            raise not_found("preview", preview_id)
        waits = time.time() * 1000 - since_ms > TAKEN_MS
        return PreviewView(id=id, state="reading", progress=0.0, detail=NOT_TAKEN if waits else None)


def _definition(services: Services, wanted: PreviewRequest) -> Definition:
    """Return what a preview is asked of; raise Problem for what could not be saved either."""
    if (wanted.condition is None) == (wanted.computed_trait is None):
        raise Problem(422, "invalid_object", "Give either a `condition` or a `computedTrait`.")
    if wanted.condition is not None:
        return _checked(services, _unnamed(wanted.condition), "/condition")
    if wanted.against is not None:
        raise Problem(422, "invalid_object", "Only a `condition` can be compared with another one.")
    try:
        trait = msgspec.convert({**UNNAMED, **(wanted.computed_trait or {})}, ComputedTrait)
    except msgspec.ValidationError as error:
        raise invalid_body(error, "/computedTrait") from None
    return _checked(services, trait, "/computedTrait")


def _unnamed(condition: Condition) -> Audience:
    return Audience(id=UNNAMED["id"], name=UNNAMED["name"], condition=condition)


def _checked(services: Services, definition: DefinitionT, within: str) -> DefinitionT:
    """Return a definition that could be saved; raise Problem for others, with pointers from ``within`` on."""
    among = Surroundings(
        {each.object.id: each.object for each in services.store.in_force("audience")},
        {each.object.id: each.object for each in services.store.in_force("computedTrait")},
        {each.object.id for each in services.store.destinations()},
    )
    problems = definition_problems(definition) or list(problems_together(definition, among))
    if problems:
        errors = [
            FieldError(within + pointer_of(each.path).removeprefix("/condition"), each.message) for each in problems
        ]
        raise Problem(422, problems[0].code, f"{problems[0].path}: {problems[0].message}.", errors)
    return definition


def _view(services: Services, reader: ProfileReader, preview: Preview | None) -> PreviewView | None:
    if preview is None:
        return None
    return PreviewView(
        id=preview.id,
        state=preview.state,
        progress=preview.progress,
        people=preview.people,
        members=preview.members,
        sample=_sampled(services, reader, [each for each in preview.sample if each.side != "removed"][:SAMPLE_MAX]),
        detail=preview.detail,
        comparison=_comparison(services, reader, preview),
    )


def _comparison(services: Services, reader: ProfileReader, preview: Preview) -> PreviewComparison | None:
    if preview.members is None or preview.compared is None or preview.kept is None:
        return None
    sides: tuple[Side, ...] = ("kept", "added", "removed")
    kept, added, removed = (
        _sampled(services, reader, [each for each in preview.sample if each.side == side]) for side in sides
    )
    return PreviewComparison(
        members=preview.compared,
        kept=preview.kept,
        added=preview.members - preview.kept,
        removed=preview.compared - preview.kept,
        kept_sample=kept,
        added_sample=added,
        removed_sample=removed,
    )


def _sampled(services: Services, reader: ProfileReader, sample: list[Sampled]) -> tuple[SampledPerson, ...]:
    people = [(reader.people.person(each.person), each.value) for each in sample]
    found = [
        SampledPerson(
            user_id=person.user_id,
            anonymous_id=person.anonymous_id() if person.user_id is None else None,
            value=value,
        )
        for person, value in people
    ]
    return tuple(without_withheld(services, found, lambda each: either(each.user_id, each.anonymous_id)))
