"""``/replays`` and ``/replays/{id}``."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get
from litestar.params import FromPath

from hookline.control.services import FromServices
from hookline.replays.model import lane_of
from hookline.web.replay_pages import replay_list, replay_page
from hookline.web.screen import query_of, screen, unknown


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
    replay = None if lane is None else services.replays.get(lane)
    if replay is None:
        hint = "It was never created, or it ended too long ago to be kept."
        return unknown(request, "destinations", "Replay", "There is no such replay", id, hint)
    return screen(request, "replay.html", "destinations", view=replay_page(services, replay))
