"""The items of one source that were refused at the edge, newest first, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from hookline.control.event_filter import EventFilter, event_name
from hookline.control.event_log import LoggedEvent
from hookline.control.services import Services
from hookline.web.address import event_href

ITEMS_SHOWN = 50
SEARCH_SECONDS_MAX = 0.03
"""A page does not keep anybody waiting: what was not looked at by then is on the next one."""


class RejectedItem(NamedTuple):
    """One refused item; ``message`` says what was wrong with it."""

    key: str
    href: str
    received_at: str
    type: str
    name: str
    code: str
    message: str


class RejectedItems(NamedTuple):
    """Some items; ``after_href`` leads to older ones, and is empty when everything was looked at."""

    items: Sequence[RejectedItem]
    first_href: str
    after_href: str


async def rejected_items(services: Services, source: str, after: str | None) -> RejectedItems:
    """Look for the newest ones, or those older than the cursor ``after``."""
    wanted = EventFilter(source=source, status="rejected")
    page = await services.events.newest(wanted, ITEMS_SHOWN, after, SEARCH_SECONDS_MAX)
    here = f"/sources/{source}/rejected"
    return RejectedItems(
        items=[_item(logged) for logged in page.events],
        first_href=here if after else "",
        after_href=f"{here}?after={quote(page.after)}" if page.after else "",
    )


def _item(logged: LoggedEvent) -> RejectedItem:
    event = logged.status
    return RejectedItem(
        key=logged.cursor,
        href=event_href(event.message_id, event.source),
        received_at=event.received_at,
        type=logged.record.type,
        name=event_name(logged.record) or event.message_id,
        code=event.rejection.code if event.rejection else "",
        message=event.rejection.message if event.rejection else "",
    )
