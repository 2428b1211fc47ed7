"""``/events/{messageId}``: one event."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.params import FromPath, QueryParameter

from hookline.control.events import id_in_path
from hookline.control.services import FromServices
from hookline.web.event_page import event_page
from hookline.web.screen import screen, unknown

SourceId = Annotated[str | None, QueryParameter(max_length=1_000)]


@get("/events/{message_id:path}", needs="viewer")
async def show_event(
    request: Request[Any, Any, Any],
    services: FromServices,
    message_id: FromPath[str],
    source: SourceId = None,
) -> Response[str]:
    """Show one event."""
    wanted = id_in_path(request, "/events/")
    event = await services.events.of_message(wanted, source)
    if event is None:
        reason = await services.events.why_unknown(wanted, source)
        hint = f"{reason[:1].upper()}{reason[1:]}."
        return unknown(request, "events", "Event", "No event has this message id", wanted, hint)
    return screen(request, "event.html", "events", view=event_page(services, event))
