"""``/api/v1/people``: everything that is known of one person, and what the person did."""

from __future__ import annotations

import asyncio
from typing import Annotated

from litestar import Controller, get
from litestar.params import QueryParameter

from hookline.api.handlers import FromServices, problems
from hookline.api.listing import After, AnonymousId, Limit, Listing, UserId
from hookline.api.problem import FieldError, Problem
from hookline.features.people.finding import PeopleFound, find_people, list_people
from hookline.features.people.service import PersonReader, person_log
from hookline.features.people.view import PersonEvent, PersonView, defined, person_events, person_view, refuse, withheld
from hookline.people.store.people import Identity
from hookline.people.timeline import Ownership

ID_CHARACTERS_MAX = 1_000
GROUPS_MAX = 100
SEARCH_SECONDS_MAX = 1.0
NOT_KEPT = (
    "Hookline keeps people once there is an audience or a computed trait. "
    "Until then, GET /api/v1/people/events (hookline people events) lists the events with the id."
)


class Persons(Controller):
    """A person is named by any of their ids; accounts of this service are ``/api/v1/users``."""

    path = "/people"

    @get(needs="viewer", responses=problems(404))
    async def get_person(
        self, services: FromServices, user_id: UserId = None, anonymous_id: AnonymousId = None
    ) -> PersonView:
        """Return one person: ids, traits and groups with their origins, and audiences and computed traits as of their
        last syncs. Give `userId` or `anonymousId`."""
        asked = asked_for(user_id, anonymous_id)
        known = defined(services)

        def look(reader: PersonReader) -> tuple[PersonView | None, Ownership]:
            person, owned = reader.find(asked)
            if reader.profiles is None or person is None:
                return None, owned
            return person_view(reader.profiles, person, known, GROUPS_MAX), owned

        found, owned = await person_log(services).read(look)
        refuse(await asyncio.to_thread(withheld, services, asked, owned, found is not None))
        if found is None:
            unkept = "" if known.audiences or known.traits else f" {NOT_KEPT}"
            raise Problem(404, "not_found", f"Nothing is known about a person with this id.{unkept}")
        return found

    @get("/search", needs="viewer")
    async def search_people(
        self,
        services: FromServices,
        search: Annotated[
            str,
            QueryParameter(
                max_length=ID_CHARACTERS_MAX,
                description="The beginning of an id, or of a word of an indexed trait. Without it, all people.",
            ),
        ] = "",
        limit: Limit = 50,
        after: After = None,
    ) -> PeopleFound:
        """Find people by the beginning of an id, e-mail, name or other trait listed in `people.search_traits`, exact
        ids first. Without `search`: list the people with a user id, newest first."""
        return await (find_people(services, search, limit) if search.strip() else list_people(services, limit, after))

    @get("/events", needs="viewer", responses=problems(404))
    async def list_person_events(
        self,
        services: FromServices,
        user_id: UserId = None,
        anonymous_id: AnonymousId = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Listing[PersonEvent]:
        """List the events of a person under all ids, newest first. Of more than 1,000 ids, the first 1,000 and the
        given one count. A slow search may return a short page; continue with `after`."""
        asked = asked_for(user_id, anonymous_id)

        def look(reader: PersonReader) -> tuple[Listing[PersonEvent], Ownership]:
            found = reader.find(asked)
            return person_events(reader, found, limit, after, SEARCH_SECONDS_MAX), found.owned

        page, owned = await person_log(services).read(look)
        is_known = bool(page.items) or after is not None
        refuse(await asyncio.to_thread(withheld, services, asked, owned, is_known))
        return page


def asked_for(user_id: str | None, anonymous_id: str | None) -> Identity:
    """Return who is meant; raise Problem unless exactly one id is given."""
    if user_id is not None and anonymous_id is None:
        return Identity("user", user_id)
    if anonymous_id is not None and user_id is None:
        return Identity("anonymous", anonymous_id)
    errors = [FieldError("?userId", "give either userId or anonymousId")]
    raise Problem(400, "invalid_parameter", "Give either `userId` or `anonymousId`.", errors)
