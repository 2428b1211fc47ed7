"""``/api/v1/deletion-requests``: what people asked to have deleted or no longer stored, and how far it has come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated

import msgspec
from litestar import Controller, Response, delete, get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from hookline.api.audit.log import AuditChange
from hookline.api.calls import current_author, note_unchanged, the_call
from hookline.api.handlers import FromServices
from hookline.api.listing import After, Id, Limit, Listing, id_number, number_after
from hookline.api.problem import FieldError, Problem, not_found
from hookline.api.services import Services
from hookline.events.timestamps import iso
from hookline.features.privacy.evidence import DeletionEvidence, evidence_of
from hookline.features.privacy.service import (
    delete_messages,
    deletion_requests,
    deletion_watch,
    id_digests,
    suppressions,
)
from hookline.privacy.model import (
    ID_CHARACTERS_MAX,
    PEOPLE_MAX,
    Action,
    DeletionRequest,
    DeletionRequestInput,
    Erased,
    State,
    request_id,
)
from hookline.privacy.model import Id as UserId
from hookline.privacy.requests import TooManyRequests
from hookline.privacy.suppressions import Suppression, TooManySuppressed

PREFIX = "dr"


class MessageProgress(msgspec.Struct, frozen=True):
    """Delete messages, one per person and affected source with enabled destinations; ``open`` ones are not settled."""

    total: int
    open: int


class DeletionRequestView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One request, without names. ``people`` is the number of people, ``erased`` what is erased so far. ``delay``
    is the error that holds it up; it is tried again by itself."""

    id: str
    action: Action
    state: State
    people: int
    messages: MessageProgress
    erased: Erased
    author: str
    created_at: str
    updated_at: str
    done_at: str | None
    delay: str | None


class DeletionRequests(Controller):
    """A request is made once and carried out; it cannot be taken back."""

    path = "/deletion-requests"

    @get(needs="viewer")
    async def list_deletion_requests(
        self,
        services: FromServices,
        limit: Limit = 50,
        after: After = None,
        user_id: Annotated[
            str | None,
            QueryParameter(
                name="userId",
                max_length=ID_CHARACTERS_MAX,
                description="Only requests for this user id.",
            ),
        ] = None,
    ) -> Listing[DeletionRequestView]:
        """List the deletion requests, newest first."""
        found = deletion_requests(services).newest(limit + 1, number_after(after, PREFIX), user_id)
        page = found[:limit]
        return Listing(
            [view_of(services, each) for each in page], request_id(page[-1].number) if len(found) > limit else None
        )

    @post(needs="editor")
    async def create_deletion_request(
        self, services: FromServices, data: JSONBody[DeletionRequestInput]
    ) -> Response[DeletionRequestView]:
        """Erase the data of people and send delete messages to receivers (`delete`), stop storing their events
        (`suppress`), or `both`."""
        if (data.user_id is None) == (data.user_ids is None):
            errors = [FieldError("/userId", "give either userId or userIds")]
            raise Problem(422, "invalid_object", "Give either `userId` or `userIds`.", errors)
        try:
            made = await asyncio.to_thread(deletion_requests(services).create, data.ids, data.action, current_author())
        except TooManyRequests as error:
            raise Problem(409, "too_many_deletion_requests", f"{error}.") from None
        except TooManySuppressed as error:
            raise Problem(409, "too_many_suppressed", f"{error}.") from None
        deletion_watch(services).wake()
        view = view_of(services, made)
        # The audit log outlives the person's data, so it says how many people and not who.
        fields = (("action", view.action), ("people", view.people))
        name = f"deletion-requests/{view.id}"
        the_call().changed(name, *(AuditChange(name, path, None, value) for path, value in fields))
        return Response(view, status_code=201, headers={"Location": f"/api/v1/deletion-requests/{view.id}"})

    @get("/{id:str}", needs="viewer")
    async def get_deletion_request(self, services: FromServices, id: Id) -> DeletionRequestView:
        """Return one deletion request and its progress."""
        return view_of(services, deletion_request(services, id))

    @get("/{id:str}/evidence", needs="viewer")
    async def get_deletion_evidence(self, services: FromServices, id: Id) -> DeletionEvidence:
        """Return the report of a deletion request: what was affected, when the delete message was delivered to each
        destination, what was erased."""
        return await asyncio.to_thread(evidence_of, services, deletion_request(services, id))


def view_of(services: Services, request: DeletionRequest) -> DeletionRequestView:
    """Return a request as the API shows it."""
    return DeletionRequestView(
        id=request_id(request.number),
        action=request.action,
        state=request.state,
        people=request.people,
        messages=MessageProgress(*delete_messages(services).count(request.number)),
        erased=deletion_requests(services).erased(request.number),
        author=request.author,
        created_at=iso(request.at_ms),
        updated_at=iso(request.updated_ms),
        done_at=None if request.done_ms is None else iso(request.done_ms),
        delay=deletion_watch(services).delay(request.number),
    )


def deletion_request(services: Services, id: str) -> DeletionRequest:
    """Return the request with this id; raise Problem when there is none."""
    number = id_number(id, PREFIX)
    found = None if number is None else deletion_requests(services).get(number)
    if found is None:
        raise not_found("deletion request", id)
    return found


class SuppressionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One suppressed id. ``digest`` is its keyed hash (BLAKE2b, hexadecimal); the id itself is not stored."""

    digest: str
    since: str
    author: str
    request: str | None


class Lifting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The ids whose events are stored again. Give one of the two fields."""

    user_id: UserId | None = None
    user_ids: Annotated[tuple[UserId, ...], msgspec.Meta(min_length=1, max_length=PEOPLE_MAX)] | None = None


class Lifted(msgspec.Struct, frozen=True):
    """The number of ids that were removed from the list."""

    lifted: int


class SuppressionsApi(Controller):
    """Ids come onto the list by deletion requests."""

    path = "/suppressions"

    @get(needs="viewer")
    async def list_suppressions(
        self, services: FromServices, limit: Limit = 50, after: After = None
    ) -> Listing[SuppressionView]:
        """List the suppressed ids by their keyed hashes, newest first."""
        found = suppressions(services).page(limit + 1, None if after is None else _place(after))
        page = found[:limit]
        return Listing([_view(each) for each in page], _cursor(page[-1]) if len(found) > limit else None)

    @post("/lift", status_code=200, needs="editor")
    async def lift_suppressions(self, services: FromServices, data: JSONBody[Lifting]) -> Lifted:
        """Stop suppressing these ids, as user ids and as anonymous ids. Their events are stored again within a
        second."""
        if (data.user_id is None) == (data.user_ids is None):
            errors = [FieldError("/userId", "give either userId or userIds")]
            raise Problem(422, "invalid_object", "Give either `userId` or `userIds`.", errors)
        ids = data.user_ids or (data.user_id or "",)
        lifted = suppressions(services).lift_ids(ids)
        if lifted:
            _note_lifted(id_digests(services).of(id) for id in ids)
        else:
            note_unchanged()
        return Lifted(lifted)

    @delete("/{digest:str}", needs="editor")
    async def delete_suppression(self, services: FromServices, digest: FromPath[str]) -> None:
        """Stop suppressing the id with this hash."""
        if suppressions(services).get(_digest(digest)) is None:
            raise not_found("suppression", digest)
        suppressions(services).lift([_digest(digest)])
        _note_lifted([_digest(digest)])


def _note_lifted(digests: Iterable[bytes]) -> None:
    changed = (AuditChange("suppressions", digest.hex(), True, None) for digest in digests)
    the_call().changed("suppressions", *changed)


def _view(suppression: Suppression) -> SuppressionView:
    return SuppressionView(
        digest=suppression.digest.hex(),
        since=iso(suppression.at_ms),
        author=suppression.author,
        request=None if suppression.request is None else request_id(suppression.request),
    )


def _cursor(last: Suppression) -> str:
    """Return where the next page begins, which stays a place when what was last is lifted."""
    return f"{last.at_ms}:{last.digest.hex()}"


def _place(after: str) -> tuple[int, bytes]:
    at, _, digest = after.partition(":")
    at_ms, found = id_number(at), _digest(digest)
    if at_ms is None or not found:
        raise Problem(400, "invalid_parameter", "Use the value of `after` exactly as the last answer gave it.")
    return at_ms, found


def _digest(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
