"""The pages of replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from litestar import Request, Response, get
from litestar.params import FromPath

from hookline.api.handlers import FromServices
from hookline.api.services import Services
from hookline.features.replays.service import ReplayView, replay_store, view_of
from hookline.replays.model import Replay, ReplayRequest, lane_of, replay_id
from hookline.web.lists import address, source_label
from hookline.web.rendering import Screens, Station, milliseconds, number, query_of, screen, unknown

ROWS = 50
MARKS = {
    "preparing": ("wait", "◔", "counting"),
    "queued": ("wait", "◔", "starting"),
    "running": ("wait", "◔", "running"),
    "paused": ("warn", "▲", "paused"),
    "cancelling": ("off", "○", "cancelling"),
    "cancelled": ("off", "○", "cancelled"),
    "done": ("good", "●", "done"),
}
WORDS = {
    "from": "Accepted from",
    "to": "Accepted before",
    "source": "Source",
    "type": "Type",
    "event": "Event",
    "userId": "User",
    "messageIds": "Message ids",
    "deadLetteredSince": "Not delivered since",
    "ignoreFilters": "Ignores filters",
}
"""What the form calls the fields of a request."""
_LEFT_OUT = frozenset({"destination", "rate", "dryRun", "deadLetters"})
"""Fields of a request that the page shows elsewhere."""


class ReplayRow(NamedTuple):
    """One replay with its state as colour, shape and word, and what was asked for."""

    view: ReplayView
    mark: tuple[str, str, str]
    what: Sequence[tuple[str, str]]


class ReplayList(NamedTuple):
    """One page of the list."""

    rows: Sequence[ReplayRow]
    destination: str
    first: str
    after: str


class ReplayPage(NamedTuple):
    """One replay: ``can`` is what may be done with it (``pause``, ``resume``, ``cancel``, ``forget``)."""

    row: ReplayRow
    stations: Sequence[Station]
    can: Sequence[str]


def replay_list(services: Services, query: Mapping[str, str], path: str, destination: str = "") -> ReplayList:
    """Return the newest replays, of one destination when it is given."""
    before = lane_of(query.get("after", ""))
    found = replay_store(services).newest(ROWS + 1, before, destination or None)
    asked = {"destination": destination} if path == "/replays" else {}
    return ReplayList(
        rows=[_row(services, replay) for replay in found[:ROWS]],
        destination=destination,
        first=address(path, asked) if before else "",
        after=address(path, asked, after=replay_id(found[ROWS - 1].lane)) if len(found) > ROWS else "",
    )


NOT_SENT = {"done": "erased or no longer stored", "cancelled": "not sent"}
"""What became of the events that an ended replay counted and did not send."""


def replay_page(services: Services, replay: Replay) -> ReplayPage:
    """Return the page of one replay."""
    row = _row(services, replay)
    view = row.view
    uncounted = "not counted" if view.ended_at is not None and view.to_count is None else "counting"
    total = uncounted if view.total is None else number(view.total)
    left = None if view.total is None else max(0, view.total - view.done)
    stations = [
        Station(
            "Found",
            total,
            "event" if view.total == 1 else "events",
            "good" if view.total else "wait" if view.total is None else "off",
        ),
        Station("Sent", number(view.done), _left(left, view.state), "good" if view.done else "off"),
        Station("Delivered", number(view.delivered), _eta(view), "good" if view.delivered else "off"),
        Station("Not delivered", number(view.failed), "see dead letters" if view.failed else "none", _bad(view.failed)),
    ]
    can = {"paused": ("resume", "cancel"), "cancelling": ()}.get(view.state, ("pause", "cancel"))
    return ReplayPage(row, stations, can if view.ended_at is None else ("forget",))


def _row(services: Services, replay: Replay) -> ReplayRow:
    view = view_of(services, replay)
    return ReplayRow(view, MARKS.get(view.state, ("off", "○", view.state)), _what(services, view.request))


def _what(services: Services, request: ReplayRequest) -> list[tuple[str, str]]:
    """Return what was asked for, as the form calls it; everything that was not given is left out."""
    fields: dict[str, object] = msgspec.to_builtins(request)
    if request.source is not None:
        fields["source"] = source_label(services.store, request.source).name
    what = [(WORDS.get(name, name), _text(value)) for name, value in fields.items() if name not in _LEFT_OUT]
    return [("Dead letters", "selected"), *what] if request.dead_letters is not None else what


def _text(value: object) -> str:
    if isinstance(value, list):
        return f"{number(len(value))} of them" if len(value) > 3 else ", ".join(map(str, value))
    return "yes" if value is True else str(value)


def _left(left: int | None, state: str) -> str:
    """Say what is not sent: still to come, or never, of a replay that has ended."""
    if left is None:
        return ""
    if not left:
        return "all sent"
    return f"{number(left)} {NOT_SENT.get(state, 'left')}"


def _eta(view: ReplayView) -> str:
    if not view.eta_seconds:
        return ""
    hours = view.eta_seconds / 3600
    return f"about {milliseconds(view.eta_seconds * 1000) if hours < 1 else f'{hours:.1f} h'} left"


def _bad(count: int) -> str:
    return "dead" if count else "off"


@get("/replays", needs="viewer")
async def show_replays(request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
    """Show the replays, newest first."""
    query = query_of(request)
    view = replay_list(services, query, "/replays", query.get("destination", ""))
    return screen(request, "replays.html", "destinations", view=view)


@get("/replays/{id:str}", needs="viewer")
async def show_replay(request: Request[Any, Any, Any], services: FromServices, id: FromPath[str]) -> Response[str]:
    """Show one replay with its progress."""
    lane = lane_of(id)
    replay = None if lane is None else replay_store(services).get(lane)
    if replay is None:
        hint = "It was never created, or it ended too long ago to be kept."
        return unknown(request, "destinations", "Replay", "There is no such replay", id, hint)
    return screen(request, "replay.html", "destinations", view=replay_page(services, replay))


SCREENS = Screens(
    (
        show_replays,
        show_replay,
    ),
    docs={"replays.html": "how-to/replay-a-day", "replay.html": "how-to/replay-a-day"},
)
