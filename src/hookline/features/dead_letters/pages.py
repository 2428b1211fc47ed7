"""``/dead-letters/{id}``: one dead letter with its event, every attempt, and what can be done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from litestar import Request, Response, get
from litestar.params import FromPath

from hookline.api.handlers import FromServices
from hookline.api.services import deliver_reader
from hookline.features.dead_letters.service import DeadLetter, dead_letter_of
from hookline.features.events.pages import pretty
from hookline.features.events.service import event_log
from hookline.features.issues.service import IssueLink, issue_of
from hookline.features.people.pages import PersonLink, person_link
from hookline.outcomes.delivery import Attempt, ReplayStatus
from hookline.web.lists import destination_href, event_href
from hookline.web.rendering import Screens, screen, unknown


class DeadLetterPage(NamedTuple):
    """The whole page; ``payload`` and ``user`` are empty when the event is no longer kept."""

    letter: DeadLetter
    event_href: str
    dead_letters_href: str
    attempts: tuple[Attempt, ...]
    retries: Sequence[ReplayStatus]
    """What replays are about to do with it."""
    payload: str
    user: PersonLink
    issue: IssueLink | None


@get("/dead-letters/{id:str}", needs="viewer")
async def show_dead_letter(request: Request[Any, Any, Any], services: FromServices, id: FromPath[str]) -> Response[str]:
    """Show one dead letter."""
    row = (
        deliver_reader(services).dead_letters.get(int(id)) if id.isascii() and id.isdecimal() and len(id) < 19 else None
    )
    if row is None:
        hint = "It was delivered by a retry, or it is older than the retention time."
        return unknown(request, "destinations", "Dead letter", "There is no such dead letter", id, hint)
    letter = dead_letter_of(row)
    found = await event_log(services).events_at([(letter.partition, letter.offset)])
    statuses = found[0].status.destinations if found else ()
    here = next((each for each in statuses if each.id == letter.destination), None)
    view = DeadLetterPage(
        letter=letter,
        event_href=event_href(letter.message_id, letter.source),
        dead_letters_href=destination_href(letter.destination, "dead-letters"),
        attempts=here.attempts if here is not None else (),
        retries=[each for each in here.replays if each.status in ("queued", "retrying")] if here is not None else (),
        payload=pretty(msgspec.json.encode(found[0].status.event)) if found else "",
        user=person_link(found[0].status) if found else PersonLink("", ""),
        issue=issue_of(services, row),
    )
    return screen(request, "dead-letter.html", "destinations", view=view)


SCREENS = Screens((show_dead_letter,), docs={"dead-letter.html": "how-to/receiver-is-down"})
