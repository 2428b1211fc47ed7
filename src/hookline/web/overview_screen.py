"""``/``: the overview."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get
from litestar.params import FromQuery

from hookline.control.services import FromServices
from hookline.insights.resolutions import Range
from hookline.web.overview import overview
from hookline.web.screen import screen


@get("/", needs="viewer")
async def show_overview(
    request: Request[Any, Any, Any], services: FromServices, range: FromQuery[Range] = "1h"
) -> Response[str]:
    """Show the overview over a range."""
    return screen(request, "overview.html", "overview", view=await overview(services, range))
