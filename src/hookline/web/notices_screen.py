"""``/notices``: what Hookline has to say about itself."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get

from hookline.control.services import FromServices
from hookline.web.notices_page import notices_page
from hookline.web.screen import query_of, screen


@get("/notices", needs="viewer")
async def show_notices(request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
    """Show the notices, open ones first."""
    view = notices_page(services, query_of(request), "/notices", "open")
    return screen(request, "notices.html", "overview", view=view)
