"""The requests to a destination, newest first, filtered by what they came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hookline.connections.model import Destination
from hookline.connections.state import Stored
from hookline.control.attempt_search import AttemptSearch, ShownAttempt
from hookline.control.services import Services
from hookline.outcomes.attempt_key import Key, attempt_key
from hookline.outcomes.attempt_log import AttemptFilter
from hookline.outcomes.outcome import Outcome
from hookline.web.address import address, destination_href

ROWS = 50
FILTERS = ("outcome", "httpStatus", "url")
NEWEST: Key = (1 << 62, 0, 0, 0, 0)


class AttemptsTab(NamedTuple):
    """One page of the list."""

    rows: Sequence[ShownAttempt]
    asked: Mapping[str, str]
    outcomes: Sequence[str]
    urls: Sequence[str]
    first: str
    after: str


async def attempts_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> AttemptsTab:
    """Return the page of the list that the query asks for."""
    id = stored.object.id
    asked = {name: query.get(name, "") for name in FILTERS}
    outcomes = [outcome.value for outcome in Outcome]
    digits = asked["httpStatus"]
    status = int(digits) if digits.isascii() and digits.isdecimal() else None
    wanted = AttemptFilter(asked["outcome"] if asked["outcome"] in outcomes else None, status)
    before = attempt_key(query["after"]) if query.get("after") else None
    search = AttemptSearch(services.attempt_log, services.destination_past, services.events, id)
    page = await services.events.run(lambda: search.page(wanted, asked["url"] or None, ROWS, before or NEWEST))
    path = destination_href(id, "attempts")
    return AttemptsTab(
        rows=page.attempts,
        asked=asked,
        outcomes=outcomes,
        urls=[webhook.url for webhook in stored.object.settings.webhooks],
        first=address(path, asked) if before else "",
        after=address(path, asked, after=page.after) if page.after else "",
    )
