"""The page of notices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from litestar import Request, Response, get

from hookline.api.handlers import FromServices
from hookline.api.services import Services
from hookline.features.notices.log import Notice
from hookline.features.notices.service import notice_log
from hookline.telemetry.notices import KINDS
from hookline.web.lists import address
from hookline.web.rendering import Screens, query_of, screen

MARKS = {"critical": ("dead", "■", "critical"), "warning": ("warn", "▲", "warning"), "info": ("wait", "◔", "info")}


class NoticeView(NamedTuple):
    """One notice; ``href`` leads to where its next step is taken, empty where there is no such page, and ``verb`` says
    what one does there."""

    id: int
    kind: str
    shape: str
    word: str
    message: str
    next_step: str
    since: str
    acknowledged: bool
    webhook_error: str
    href: str
    verb: str


def notice_view(notice: Notice) -> NoticeView:
    """Return one notice; what is acknowledged is shown quietly."""
    kind, shape, word = MARKS[notice.severity]
    known = KINDS.get(notice.kind)
    acknowledged = notice.acknowledged_at is not None
    return NoticeView(
        id=notice.id,
        kind="off" if acknowledged else kind,
        shape=shape,
        word=f"{word}, acknowledged" if acknowledged else word,
        message=notice.message,
        next_step=notice.next_step,
        since=notice.since,
        acknowledged=acknowledged,
        webhook_error=notice.webhook_error or "",
        href=notice.page,
        verb=known.page[0] if known is not None and known.page is not None else "",
    )


ROWS = 50
STATES = (("open", "Open"), ("resolved", "Resolved"), ("all", "All"))


class NoticeRow(NamedTuple):
    """One notice, and the view of it."""

    view: NoticeView
    notice: Notice


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
    found = notice_log(services).newest(ROWS + 1, before_id, is_open, subject=subject)
    return NoticesPage(
        rows=[NoticeRow(notice_view(notice), notice) for notice in found[:ROWS]],
        tabs=[(title, address(path, {"state": id}), id == state) for id, title in STATES],
        state=state,
        first=address(path, {"state": state}) if before_id else "",
        after=address(path, {"state": state}, after=found[ROWS - 1].id) if len(found) > ROWS else "",
    )


@get("/notices", needs="viewer")
async def show_notices(request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
    """Show the notices, open ones first."""
    view = notices_page(services, query_of(request), "/notices", "open")
    return screen(request, "notices.html", "overview", view=view)


SCREENS = Screens((show_notices,), docs={"notices.html": "reference/notices"})
