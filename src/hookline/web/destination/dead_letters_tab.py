"""The dead letters of a destination: filtered, newest first, and how many a retry or discard of all would meet."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hookline.connections.model import Destination
from hookline.connections.state import Stored
from hookline.control.dead_letter_log import DeadLetter
from hookline.control.services import Services
from hookline.outcomes.outcome import Outcome
from hookline.replays.dead_letters import DeadLetterFilter
from hookline.web.address import address, destination_href

ROWS = 50
FILTERS = ("outcome", "type", "event", "status")
STATUSES = ("failed", "expired", "discarded")


class DeadLettersTab(NamedTuple):
    """One page; ``matched`` counts all that the filters ask for."""

    rows: Sequence[DeadLetter]
    asked: Mapping[str, str]
    outcomes: Sequence[str]
    statuses: Sequence[str]
    matched: int
    first: str
    after: str


async def dead_letters_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> DeadLettersTab:
    """Return the page of the list that the query asks for."""
    asked = {name: query.get(name, "") for name in FILTERS}
    after = query.get("after", "")
    wanted = DeadLetterFilter(
        destination=stored.object.id,
        outcome=asked["outcome"] or None,
        type=asked["type"] or None,
        event=asked["event"] or None,
        status=asked["status"] or None,
    )
    before_id = int(after) if after.isascii() and after.isdecimal() and len(after) < 19 else None
    found, counts = await asyncio.to_thread(
        lambda: (services.dead_letters.newest(ROWS + 1, before_id, wanted), services.dead_letters.count(wanted))
    )
    path = destination_href(stored.object.id, "dead-letters")
    return DeadLettersTab(
        rows=found[:ROWS],
        asked=asked,
        outcomes=[outcome.value for outcome in Outcome if outcome is not Outcome.SUCCESS],
        statuses=STATUSES,
        matched=sum(counts.values()),
        first=address(path, asked) if before_id else "",
        after=address(path, asked, after=found[ROWS - 1].id) if len(found) > ROWS else "",
    )
