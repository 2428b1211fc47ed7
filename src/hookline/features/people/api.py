"""``/api/v1/people``: everything that is known of one person, and what the person did."""

from __future__ import annotations

from litestar import Controller, get

from hookline.api.listing import After, AnonymousId, Limit, Listing, UserId
from hookline.api.problem import FieldError, Problem, problems
from hookline.api.services import FromServices
from hookline.features.people.service import PersonReader, person_log
from hookline.features.people.view import PersonEvent, PersonView, defined, person_events, person_view, refuse_withheld
from hookline.people.store.people import Identity
from hookline.people.timeline import Ownership

ID_CHARACTERS_MAX = 1_000
SEARCH_SECONDS_MAX = 1.0


class Persons(Controller):
    """A person is named by any of their ids; accounts of this service are ``/api/v1/users``."""

    path = "/people"

    @get(needs="viewer", responses=problems(404))
    async def get_person(
        self, services: FromServices, user_id: UserId = None, anonymous_id: AnonymousId = None
    ) -> PersonView:
        """Return one person: identities, traits and groups with where they come from, audiences and computed traits as
        the last syncs left them. Give `userId` or `anonymousId`."""
        asked = asked_for(user_id, anonymous_id)
        known = defined(services)

        def look(reader: PersonReader) -> tuple[PersonView | None, Ownership]:
            person, owned = reader.find(asked)
            return person_view(reader.profiles, person, known) if reader.profiles and person else None, owned

        found, owned = await person_log(services).read(look)
        refuse_withheld(services, asked.id, owned, found is not None)
        if found is None:
            raise Problem(404, "not_found", "Nothing is known of a person with this id.")
        return found

    @get("/events", needs="viewer", responses=problems(404))
    async def list_person_events(
        self,
        services: FromServices,
        user_id: UserId = None,
        anonymous_id: AnonymousId = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Listing[PersonEvent]:
        """List the person's events of all identities, newest first. A page may be short when looking took long; `after`
        goes on."""
        asked = asked_for(user_id, anonymous_id)

        def look(reader: PersonReader) -> tuple[Listing[PersonEvent], Ownership]:
            found = reader.find(asked)
            return person_events(reader, found, limit, after, SEARCH_SECONDS_MAX), found.owned

        page, owned = await person_log(services).read(look)
        refuse_withheld(services, asked.id, owned, bool(page.items) or after is not None)
        return page


def asked_for(user_id: str | None, anonymous_id: str | None) -> Identity:
    """Return who is meant; raise Problem unless exactly one id is given."""
    if user_id is not None and anonymous_id is None:
        return Identity("user", user_id)
    if anonymous_id is not None and user_id is None:
        return Identity("anonymous", anonymous_id)
    errors = [FieldError("?userId", "give either userId or anonymousId")]
    raise Problem(400, "invalid_parameter", "Give either `userId` or `anonymousId`.", errors)
