"""``/api/v1/suppressions``: whose events are not stored, by keyed hash of the id, and how that is lifted."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Controller, delete, get, post
from litestar.params import FromPath, JSONBody

from hookline.api.audit.entry import AuditChange
from hookline.api.calls import the_call
from hookline.api.listing import After, Limit, Listing
from hookline.api.problem import FieldError, Problem, not_found
from hookline.api.services import FromServices, Services
from hookline.events.timestamps import iso
from hookline.features.privacy.service import id_digests, suppressions
from hookline.privacy.model import PEOPLE_MAX, Id, request_id
from hookline.privacy.suppressions import Suppression


class SuppressionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One suppressed id: ``digest`` is its keyed hash (BLAKE2b, hexadecimal), the id itself is not kept."""

    digest: str
    since: str
    author: str
    request: str | None


class Lifting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Whose events are to be stored again; one of the two is given."""

    user_id: Id | None = None
    user_ids: Annotated[tuple[Id, ...], msgspec.Meta(min_length=1, max_length=PEOPLE_MAX)] | None = None


class Lifted(msgspec.Struct, frozen=True):
    """How many ids were on the list and are no longer."""

    lifted: int


class SuppressionsApi(Controller):
    """Ids come onto the list by deletion requests."""

    path = "/suppressions"

    @get(needs="viewer")
    async def list_suppressions(
        self, services: FromServices, limit: Limit = 50, after: After = None
    ) -> Listing[SuppressionView]:
        """List the suppressed ids by their keyed hashes, newest first."""
        before = None
        if after is not None:
            last = suppressions(services).get(_digest(after))
            if last is None:
                raise Problem(400, "invalid_parameter", "Use the value of `after` exactly as the last answer gave it.")
            before = last.at_ms, last.digest
        found = suppressions(services).page(limit + 1, before)
        page = [_view(each) for each in found[:limit]]
        return Listing(page, page[-1].digest if len(found) > limit else None)

    @post("/lift", status_code=200, needs="editor")
    async def lift_suppressions(self, services: FromServices, data: JSONBody[Lifting]) -> Lifted:
        """Store the events of these users or anonymous ids again, within a second."""
        if (data.user_id is None) == (data.user_ids is None):
            errors = [FieldError("/userId", "give either userId or userIds")]
            raise Problem(422, "invalid_object", "Give either `userId` or `userIds`.", errors)
        ids = data.user_ids or (data.user_id or "",)
        return Lifted(_lift(services, [id_digests(services).of(id) for id in ids]))

    @delete("/{digest:str}", needs="editor")
    async def delete_suppression(self, services: FromServices, digest: FromPath[str]) -> None:
        """Store the events of the id with this hash again."""
        if suppressions(services).get(_digest(digest)) is None:
            raise not_found("suppression", digest)
        _lift(services, [_digest(digest)])


def _lift(services: Services, digests: list[bytes]) -> int:
    lifted = suppressions(services).lift(digests)
    changed = (AuditChange("suppressions", digest.hex(), True, None) for digest in digests)
    the_call().changed("suppressions", *changed)
    return lifted


def _view(suppression: Suppression) -> SuppressionView:
    return SuppressionView(
        digest=suppression.digest.hex(),
        since=iso(suppression.at_ms),
        author=suppression.author,
        request=None if suppression.request is None else request_id(suppression.request),
    )


def _digest(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
