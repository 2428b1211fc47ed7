"""``/api/v1/audience-previews``: how many people a condition finds, and some of them, before it is saved."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

import msgspec
from litestar import Controller, get, post
from litestar.params import JSONBody

from hookline.api.calls import the_call
from hookline.api.listing import Id
from hookline.api.problem import FieldError, Problem, invalid_body, not_found, pointer_of
from hookline.api.services import FromServices, Services
from hookline.connections.definitions.check import Surroundings, definition_problems, problems_together
from hookline.connections.definitions.model import Audience, ComputedTrait, Condition, Definition
from hookline.features.audiences.service import preview_requests
from hookline.features.people.service import ProfileReader, profile_log
from hookline.people.previews.requests import (
    ID_PREFIX,
    PREVIEWS_MAX,
    Preview,
    PreviewId,
    PreviewState,
    RequestedPreview,
)

ID_BYTES = 8
TAKEN_MS = 30_000
"""Within this the role, if it runs, has taken it up."""
NOT_TAKEN = "The role profiles has not taken it up yet: see whether it runs, and what its log says."
UNNAMED = {"id": "preview", "name": "Preview"}
"""What a definition is called that has no id yet."""


class PreviewRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What to look at: the ``condition`` of an audience, or a ``computedTrait``, whose id and name may be left out."""

    condition: Condition | None = None
    computed_trait: dict[str, Any] | None = None


class SampledPerson(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Somebody who was found. Who has no user id has ``anonymousId`` instead; ``value`` is a computed trait's, or true
    for a member."""

    user_id: str | None
    anonymous_id: str | None
    value: Any = None


class PreviewView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A preview: ``reading`` while the journal is read up for it, then ``counting``; ``done`` or ``failed`` at last.

    ``people`` were looked at and ``members`` found so far; of a computed trait these have a value. ``sample`` are up to
    ten of them. ``detail`` says why it failed, or waits, and what to do.
    """

    id: str
    state: PreviewState
    progress: float
    people: int | None = None
    members: int | None = None
    sample: tuple[SampledPerson, ...] = ()
    detail: str | None = None


class AudiencePreviews(Controller):
    """Nothing is saved and nobody is told."""

    path = "/audience-previews"

    @post(status_code=202, needs="editor")
    async def create_audience_preview(self, services: FromServices, data: JSONBody[PreviewRequest]) -> PreviewView:
        """Count how many people a condition, or a computed trait, finds before it is saved; nobody is told. At most 10
        at a time, kept for an hour at most."""
        the_call().only_looked = True
        definition = _definition(services, data)
        wish = RequestedPreview(
            asked_ms=int(time.time() * 1000),
            audience=definition if isinstance(definition, Audience) else None,
            computed_trait=definition if isinstance(definition, ComputedTrait) else None,
        )
        under_way = await profile_log(services).read(lambda reader: reader.previews.open()) or 0
        if under_way + len(preview_requests(services).asked(wish.asked_ms)) >= PREVIEWS_MAX:
            detail = f"{PREVIEWS_MAX} previews are under way; ask again once one of them is done."
            raise Problem(409, "too_many_previews", detail)
        id = PreviewId(f"{ID_PREFIX}{secrets.token_hex(ID_BYTES)}")
        await asyncio.to_thread(preview_requests(services).ask, id, wish)
        return PreviewView(id=id, state="reading", progress=0.0)

    @get("/{id:str}", needs="viewer")
    async def get_audience_preview(self, services: FromServices, preview_id: Id) -> PreviewView:
        """Return how far a preview is, how many people it found, and up to ten of them."""
        id = PreviewId(preview_id)
        since_ms = preview_requests(services).since_ms(id)  # first: it is written down before it is taken away there
        found = await profile_log(services).read(lambda reader: _view(reader, reader.previews.get(id)))
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
    definition: Definition
    if wanted.condition is not None:
        definition = Audience(id=UNNAMED["id"], name=UNNAMED["name"], condition=wanted.condition)
    else:
        try:
            definition = msgspec.convert({**UNNAMED, **(wanted.computed_trait or {})}, ComputedTrait)
        except msgspec.ValidationError as error:
            raise invalid_body(error) from None
    among = Surroundings(
        {each.object.id: each.object for each in services.store.in_force("audience")},
        {each.object.id: each.object for each in services.store.in_force("computedTrait")},
        {each.object.id for each in services.store.destinations()},
    )
    problems = definition_problems(definition) or list(problems_together(definition, among))
    if problems:
        within = "" if wanted.condition is not None else "/computedTrait"
        errors = [FieldError(within + pointer_of(each.path), each.message) for each in problems]
        raise Problem(422, problems[0].code, f"{problems[0].path}: {problems[0].message}.", errors)
    return definition


def _view(reader: ProfileReader, preview: Preview | None) -> PreviewView | None:
    if preview is None:
        return None
    return PreviewView(
        id=preview.id,
        state=preview.state,
        progress=preview.progress,
        people=preview.people,
        members=preview.members,
        sample=tuple(_sampled(reader, each.person, each.value) for each in preview.sample),
        detail=preview.detail,
    )


def _sampled(reader: ProfileReader, number: int, value: object) -> SampledPerson:
    person = reader.people.person(number)
    user_id = person.user_id
    return SampledPerson(user_id=user_id, anonymous_id=person.anonymous_id() if user_id is None else None, value=value)
