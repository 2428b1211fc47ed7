"""``/api/v1/views``: saved views of lists."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Controller, delete, get, patch, post
from litestar.params import Body, JSONBody, QueryParameter

from hookline.api.auth.access import local_path
from hookline.api.calls import note_unchanged, the_caller
from hookline.api.handlers import FromServices
from hookline.api.listing import MERGE_PATCH, Id, Listing, id_number
from hookline.api.problem import FieldError, Problem, not_found
from hookline.api.services import Services
from hookline.events.timestamps import iso
from hookline.features.views.service import View, change_view, delete_view, owner_of, save_view, view, views_of

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Query = Annotated[str, msgspec.Meta(max_length=2_000, pattern=r"^[!-~]*\Z")]
OfPath = Annotated[
    str | None, QueryParameter(name="path", max_length=1_000, description="Only views of this page, such as `/events`.")
]


class SavedView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A list with its filters: ``href`` leads there. ``mine``: the caller saved it. ``changeable``: the caller may
    rename, share or delete it."""

    id: str
    name: str
    href: str
    shared: bool
    mine: bool
    changeable: bool
    created_at: str


class NewView(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view to save: the path of a page and its query, as they stand in the address. A shared one is for everybody and
    needs the role editor."""

    name: Name
    path: Annotated[str, msgspec.Meta(max_length=1_000)]
    query: Query = ""
    shared: bool = False


class ViewChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields that a PATCH may change."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    shared: bool | msgspec.UnsetType = msgspec.UNSET


class Views(Controller):
    """Everybody keeps their own; editors share them."""

    path = "/views"

    @get(needs="viewer")
    async def list_views(self, services: FromServices, path_: OfPath = None) -> Listing[SavedView]:
        """List your own and the shared views by name."""
        return Listing([_shown(each) for each in views_of(services, the_caller(), path_)])

    @post(needs="signed_in", status_code=201, request_max_body_size=64_000)
    async def save_view(self, services: FromServices, data: JSONBody[NewView]) -> SavedView:
        """Save a view."""
        _require_sharer(data.shared)
        _note_unseen(data.shared)
        if local_path(data.path) != data.path or "?" in data.path or "#" in data.path:
            sentence = "This is not the path of a page, such as /events."
            raise Problem(422, "invalid_path", sentence, [FieldError("/path", sentence)])
        return _shown(save_view(services, the_caller(), data.name, data.path, data.query.lstrip("?"), data.shared))

    @patch("/{id:str}", needs="signed_in", request_max_body_size=64_000)
    async def change_view(
        self, services: FromServices, view_id: Id, data: Annotated[ViewChange, Body(media_type=MERGE_PATCH)]
    ) -> SavedView:
        """Rename a view, or share it."""
        found = _changeable(services, view_id)
        name = found.name if data.name is msgspec.UNSET else data.name
        shared = bool(found.shared) if data.shared is msgspec.UNSET else data.shared
        if shared != bool(found.shared):
            _require_sharer(is_shared=True)
        changed = found._replace(name=name, shared=shared)
        _note_unseen((found.shared or shared) and changed != found)
        change_view(services, found.id, name, shared)
        return _shown(changed)

    @delete("/{id:str}", needs="signed_in")
    async def delete_view(self, services: FromServices, view_id: Id) -> None:
        """Delete a view."""
        found = _changeable(services, view_id)
        _note_unseen(found.shared)
        delete_view(services, found.id)


def _shown(each: View) -> SavedView:
    caller = the_caller()
    return SavedView(
        id=f"v{each.id}",
        name=each.name,
        href=each.path + (f"?{each.query}" if each.query else ""),
        shared=bool(each.shared),
        mine=each.owner == owner_of(caller),
        changeable=each.is_changed_by(caller),
        created_at=iso(each.created_at),
    )


def _note_unseen(is_seen: bool) -> None:
    """Keep what nobody else sees out of the audit log: whoever only reads could else push out what others did."""
    if not is_seen:
        note_unchanged()


def _require_sharer(is_shared: bool) -> None:
    caller = the_caller()
    if is_shared and not caller.may("editor"):
        raise Problem(403, "forbidden", f"To share a view needs the role editor; {caller.name} is {caller.role}.")


def _changeable(services: Services, view_id: str) -> View:
    number = id_number(view_id, "v")
    found = None if number is None else view(services, the_caller(), number)
    if found is None:
        raise not_found("view", view_id)
    if not found.is_changed_by(the_caller()):
        raise Problem(403, "forbidden", "Only editors change shared views.")
    return found
