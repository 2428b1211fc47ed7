"""The pages behind the sign-in: the overview and one page per event, each also as parts for the live update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

from litestar import Controller, Request, Response, get
from litestar.params import FromPath, QueryParameter
from litestar.types import ControllerRouterHandler

from hookline.control.events import id_in_path
from hookline.control.problem import CODES, Problem
from hookline.control.services import FromServices, Services
from hookline.web.assets import get_asset
from hookline.web.event_page import event_page
from hookline.web.overview import overview
from hookline.web.rendering import page
from hookline.web.sign_in import SignIn, is_signed_in, to_login

SourceId = Annotated[str | None, QueryParameter(max_length=1_000)]


class Pages(Controller):
    """Views on the admin API's services."""

    @get("/")
    async def show_overview(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """Show the overview."""
        if not is_signed_in(request, services):
            return to_login(request)
        return page("overview.html", here="overview", live="/parts/overview", view=await overview(services))

    @get("/parts/overview")
    async def overview_parts(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """Return the overview's parts as they are now."""
        _require_session(request, services)
        return page("overview_parts.html", view=await overview(services))

    @get("/events/{message_id:path}")
    async def show_event(
        self,
        request: Request[Any, Any, Any],
        services: FromServices,
        message_id: FromPath[str],
        source: SourceId = None,
    ) -> Response[str]:
        """Show one event."""
        if not is_signed_in(request, services):
            return to_login(request)
        wanted = id_in_path(request, "/events/")
        live = f"/parts/events/{quote(wanted, safe='')}" + (f"?source={quote(source, safe='')}" if source else "")
        fate = await services.events.of_message(wanted, source)
        if fate is None:
            return page("unknown_event.html", 404, here="events", live=live, message_id=wanted)
        return page("event.html", here="events", live=live, view=event_page(services, fate))

    @get("/parts/events/{message_id:path}")
    async def event_parts(
        self,
        request: Request[Any, Any, Any],
        services: FromServices,
        message_id: FromPath[str],
        source: SourceId = None,
    ) -> Response[str]:
        """Return one event's parts as they are now."""
        _require_session(request, services)
        fate = await services.events.of_message(id_in_path(request, "/parts/events/"), source)
        if fate is None:
            return Response("", status_code=204, media_type="text/html")
        return page("event_parts.html", view=event_page(services, fate))


def routes() -> Sequence[ControllerRouterHandler]:
    """All routes of the pages, for ``control.app.build``."""
    return [Pages, SignIn, get_asset]


def _require_session(request: Request[Any, Any, Any], services: Services) -> None:
    if not is_signed_in(request, services):
        raise Problem(401, *CODES[401])
