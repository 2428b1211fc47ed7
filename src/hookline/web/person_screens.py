"""``/people`` and the pages of single people: looked for by an id, and everything that is known of one."""

from __future__ import annotations

import time
from typing import Any

from litestar import Controller, Request, Response, get
from litestar.params import FromPath

from hookline.control.events import id_in_path
from hookline.control.listing import id_number
from hookline.control.person_log import PersonReader
from hookline.control.person_privacy import withheld
from hookline.control.person_view import Defined, defined
from hookline.control.services import FromServices, Services
from hookline.people.store.people import Identity, ListedPerson
from hookline.web.address import person_href
from hookline.web.deletion_screens import ACTIONS
from hookline.web.person_page import IDS_SHOWN, TRAITS_SHOWN, person_page
from hookline.web.rendering import redirect
from hookline.web.screen import query_of, screen, unknown

MET_SHOWN = 20
SEARCH_SECONDS_MAX = 0.15

PageRequest = Request[Any, Any, Any]


class PersonScreens(Controller):
    """Looking only; accounts of this service are ``/settings/people``."""

    path = "/people"

    @get(needs="viewer")
    async def show_people(self, request: PageRequest, services: FromServices) -> Response[str]:
        """Look for a person by an id, or show those who were met last."""
        query = query_of(request)
        for kind, name in (("user", "userId"), ("anonymous", "anonymousId")):
            if query.get(name):  # ids that no path can hold
                return await _show(request, services, Identity(kind, query[name]))
        id = query.get("id", "").strip()
        found = await _identity_of(services, id) if id else None
        if found is not None:
            return redirect(person_href(*((found.id, None) if found.kind == "user" else (None, found.id))))
        met = await services.person_log.read(_met_last)
        known = defined(services)
        return screen(
            request,
            "people.html",
            "people",
            asked=id,
            met=None if met is None else [each for each in met if not _is_suppressed(services, each)],
            is_defined=_is_defined(known),
        )

    @get("/user/{id:path}", needs="viewer")
    async def show_user(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[str]:
        """Show the person of a user id."""
        return await _show(request, services, Identity("user", id_in_path(request, "/people/user/")))

    @get("/anonymous/{id:path}", needs="viewer")
    async def show_anonymous(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[str]:
        """Show the person of an anonymous id."""
        return await _show(request, services, Identity("anonymous", id_in_path(request, "/people/anonymous/")))


async def _show(request: PageRequest, services: Services, asked: Identity) -> Response[str]:
    query = query_of(request)
    known, now_ms = defined(services), int(time.time() * 1000)
    view = await services.person_log.read(
        lambda reader: person_page(
            reader,
            asked,
            known,
            after=query.get("after"),
            until_ms=id_number(query.get("until", "")),
            why=query.get("why", ""),
            now_ms=now_ms,
        )
    )
    is_known = view.person is not None or bool(view.moments) or "after" in query
    hidden = withheld(services, asked.id, view.owned, is_known)
    if hidden is not None:
        return screen(request, "person_withheld.html", "people", asked=asked, hidden=hidden)
    if not is_known:
        hint = "No stored event has this id. Ids are case-sensitive."
        return unknown(request, "people", "Person", "No person has this id", asked.id, hint)
    return screen(
        request,
        "person.html",
        "people",
        view=view,
        is_defined=_is_defined(known),
        actions=ACTIONS,
        ids_shown=IDS_SHOWN,
        traits_shown=TRAITS_SHOWN,
    )


async def _identity_of(services: Services, id: str) -> Identity | None:
    """Whose id it is: a user's before a device's; None when it is nobody's."""
    if withheld(services, id, None, is_known=False) is not None:
        return Identity("user", id)
    return await services.person_log.read(lambda reader: _looked_up(reader, id))


def _looked_up(reader: PersonReader, id: str) -> Identity | None:
    either = [Identity("user", id), Identity("anonymous", id)]
    known = [(asked, reader.find(asked)) for asked in either]
    for asked, found in known:
        if found.person is not None:
            return asked
    for asked, found in known:
        if reader.timeline.page(found.owned, 1, SEARCH_SECONDS_MAX).found:
            return asked
    return None


def _is_defined(known: Defined) -> bool:
    """Return whether there is anything that people are kept for."""
    return bool(known.audiences or known.traits)


def _met_last(reader: PersonReader) -> list[ListedPerson] | None:
    return None if reader.profiles is None else reader.profiles.people.met_last(MET_SHOWN)


def _is_suppressed(services: Services, met: ListedPerson) -> bool:
    return services.suppressions.get(services.digests.of(met.identity.id)) is not None
