"""What a list of notices shows: those open, resolved or all, about everything or about one thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hookline.control.notice_log import Notice
from hookline.control.services import Services
from hookline.telemetry.notices import KINDS, OTHERS
from hookline.web.address import address, destination_href
from hookline.web.notice_view import NoticeView, notice_view

ROWS = 50
STATES = (("open", "Open"), ("resolved", "Resolved"), ("all", "All"))


class NoticeRow(NamedTuple):
    """One notice; ``href`` leads to what it is about, empty where that has no page."""

    view: NoticeView
    notice: Notice
    href: str


class NoticesPage(NamedTuple):
    """One page of the list."""

    rows: Sequence[NoticeRow]
    tabs: Sequence[tuple[str, str, bool]]
    state: str
    first: str
    after: str


def notices_page(
    services: Services, query: Mapping[str, str], path: str, default: str, subject: str | None = None
) -> NoticesPage:
    """Return the newest notices of the state asked for; of one subject when it is given."""
    asked = query.get("state", default)
    state = asked if asked in dict(STATES) else default
    after = query.get("after", "")
    before_id = int(after) if after.isascii() and after.isdecimal() and len(after) < 19 else None
    is_open = None if state == "all" else state == "open"
    found = services.notices.newest(ROWS + 1, before_id, is_open, subject=subject)
    return NoticesPage(
        rows=[NoticeRow(notice_view(notice), notice, _href(notice)) for notice in found[:ROWS]],
        tabs=[(title, address(path, {"state": id}), id == state) for id, title in STATES],
        state=state,
        first=address(path, {"state": state}) if before_id else "",
        after=address(path, {"state": state}, after=found[ROWS - 1].id) if len(found) > ROWS else "",
    )


def _href(notice: Notice) -> str:
    kind = KINDS.get(notice.kind)
    if kind is None or notice.subject == OTHERS:
        return ""
    if kind.noun == "destination":
        return destination_href(notice.subject)
    return f"/sources/{notice.subject}" if kind.noun == "source" else ""
