"""The pages of issues: the list, one issue, and the worst ones for the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from litestar import Request, Response, get
from litestar.params import FromPath

from hookline.api.calls import list_thread
from hookline.api.handlers import FromServices
from hookline.api.services import Services, list_reader
from hookline.features.dead_letters.service import DeadLetter, dead_letter_of
from hookline.features.issues.api import cursor_of, parse_cursor
from hookline.features.issues.service import (
    IssueDetail,
    IssueView,
    detail_of,
    issue_store,
    issue_watch,
    letters_of,
    views_of,
)
from hookline.features.issues.store import HOURS_KEPT, NOTE_CHARACTERS_MAX, STATES, Issue
from hookline.web.chart_view import ChartView, Line, chart
from hookline.web.lists import address, destination_href, event_href
from hookline.web.rendering import Screens, Stop, query_of, screen, unknown

ROWS = 50
DESTINATIONS_SHOWN = 200
WORST_SHOWN = 3
LETTERS_SHOWN = 5
HOUR_SECONDS = 3_600
HOURS_SHOWN_MIN = 12
MARKS = {
    "open": ("warn", "▲", "open"),
    "ignored": ("off", "○", "ignored"),
    "resolved": ("good", "●", "resolved"),
}
TITLES = {"open": "Open", "ignored": "Ignored", "resolved": "Resolved", "all": "All"}
BECAUSE = {
    "delivered": "it was not seen for a while, and the destination delivered events meanwhile",
    "disabled": "the destination is disabled",
    "deleted": "the destination was deleted",
}


class IssueRow(NamedTuple):
    """One issue; ``name`` is that of its destination, or its id where it is gone."""

    view: IssueView
    mark: tuple[str, str, str]
    name: str
    href: str


class IssueList(NamedTuple):
    """One page of the list; ``left`` are dead letters of resolved issues among its rows."""

    rows: Sequence[IssueRow]
    tabs: Sequence[tuple[str, str, bool]]
    state: str
    destination: str
    destinations: Sequence[str]
    first: str
    after: str


class IssuePage(NamedTuple):
    """One issue with what can be done about it."""

    row: IssueRow
    detail: IssueDetail
    chart: ChartView
    because: str
    destination_href: str
    attempts_href: str
    dead_letters_href: str
    event_href: str
    note_characters_max: int
    can_retry: bool
    letters: Sequence[DeadLetter]


def issue_rows(services: Services, views: Sequence[IssueView]) -> list[IssueRow]:
    """Return issues as the pages show them."""
    named = ((view, services.store.destination(view.destination)) for view in views)
    return [
        IssueRow(
            view, MARKS[view.state], view.destination if stored is None else stored.object.name, f"/issues/{view.id}"
        )
        for view, stored in named
    ]


def issue_list(services: Services, query: Mapping[str, str]) -> IssueList:
    """Return the page of the list that the query asks for; reads deliver's rows, so not on an event loop."""
    store = issue_store(services)
    state = asked if (asked := query.get("state", "")) in TITLES else "open"
    destination, before = query.get("destination", ""), parse_cursor(query.get("after", ""))
    found = store.newest(ROWS + 1, before, None if state == "all" else state, destination or None)
    counts = store.counts(destination or None)
    counts["all"] = sum(counts[each] for each in STATES)
    asked_for = {"state": state, "destination": destination}
    return IssueList(
        rows=issue_rows(services, views_of(services, found[:ROWS])),
        tabs=[
            (f"{title} {counts[id]}", address("/issues", {"state": id, "destination": destination}), id == state)
            for id, title in TITLES.items()
        ],
        state=state,
        destination=destination,
        destinations=sorted({*store.destinations(DESTINATIONS_SHOWN), *([destination] if destination else [])}),
        first=address("/issues", asked_for) if before else "",
        after=address("/issues", asked_for, after=cursor_of(found[ROWS - 1])) if len(found) > ROWS else "",
    )


async def worst_issues(services: Services) -> list[IssueRow]:
    """Return the open issues that concern most events, for the overview."""
    if not issue_watch(services).open:
        return []
    found = await list_thread(services).run(lambda: views_of(services, issue_store(services).worst(WORST_SHOWN)))
    return issue_rows(services, found)


def issue_page(services: Services, issue: Issue, detail: IssueDetail) -> IssuePage:
    """Return the page of one issue; reads deliver's rows, so not on an event loop."""
    (row,) = issue_rows(services, [detail])
    status = {"outcome": detail.outcome, "httpStatus": "" if detail.http_status is None else detail.http_status}
    sample, stored = detail.sample, services.store.destination(detail.destination)
    return IssuePage(
        row=row,
        detail=detail,
        chart=_chart(detail, services.store.now_ms() // 1000),
        because=BECAUSE[detail.resolved_because] if detail.resolved_because else "",
        destination_href=destination_href(detail.destination),
        attempts_href=address(destination_href(detail.destination, "attempts"), status),
        dead_letters_href=address(destination_href(detail.destination, "dead-letters"), status),
        event_href=event_href(sample.message_id, sample.source)
        if sample and sample.message_id and sample.source
        else "",
        note_characters_max=NOTE_CHARACTERS_MAX,
        letters=[
            dead_letter_of(each)
            for each in list_reader(services).dead_letters.newest(LETTERS_SHOWN, None, letters_of(services, issue))
        ],
        can_retry=stored is not None and stored.lane is not None and bool(detail.dead_letters or detail.retrying),
    )


def _chart(detail: IssueDetail, now: int) -> ChartView:
    counts = {int(datetime.fromisoformat(each.at).timestamp()): each.attempts for each in detail.hours}
    first, end = (_hour(at) for at in (datetime.fromisoformat(detail.first_seen_at).timestamp(), now))
    # Some hours before it was first seen are shown, in which nothing failed: one place on the axis would be no line.
    start = min(first - HOUR_SECONDS, end - (HOURS_SHOWN_MIN - 1) * HOUR_SECONDS)
    times = range(max(end - (HOURS_KEPT - 1) * HOUR_SECONDS, start), end + 1, HOUR_SECONDS)
    values: list[float | None] = [float(counts.get(at, 0)) for at in times]
    return chart("failures", "Failed attempts", "an hour", list(times), [(Line("failed attempts", "warn"), values)])


def _hour(seconds: float) -> int:
    return int(seconds) // HOUR_SECONDS * HOUR_SECONDS


@get("/issues", needs="viewer")
async def show_issues(request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
    """Show the issues, last seen first."""
    view = await list_thread(services).run(issue_list, services, query_of(request))
    return screen(request, "issues.html", "issues", view=view)


@get("/issues/{id:str}", needs="viewer")
async def show_issue(request: Request[Any, Any, Any], services: FromServices, id: FromPath[str]) -> Response[str]:
    """Show one issue."""
    issue = issue_store(services).get(id)
    if issue is None:
        hint = "It was resolved, and nothing of it is stored any more."
        return unknown(request, "issues", "Issue", "There is no such issue", id, hint)
    view = await list_thread(services).run(issue_page, services, issue, await detail_of(services, issue))
    return screen(request, "issue.html", "issues", view=view)


def open_issues(services: Services) -> int:
    """Return how many issues are open."""
    return sum(issue_watch(services).open.values())


SCREENS = Screens(
    (show_issues, show_issue),
    (
        Stop(
            "issues",
            "Issues",
            "/issues",
            "i",
            "M12 4l9 16H3zM12 10v4M12 17h.01",
            open_issues,
        ),
    ),
    docs={"issues": "how-to/use-issues"},
)
