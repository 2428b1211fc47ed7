"""``/usage`` and the same for a spreadsheet, ``/usage.csv``."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get
from litestar.params import FromQuery

from hookline.control.services import FromServices
from hookline.web.screen import screen
from hookline.web.usage_page import RANGES, UsageRange, as_csv, usage_items, usage_page


@get("/usage", needs="viewer")
async def show_usage(
    request: Request[Any, Any, Any], services: FromServices, range: FromQuery[UsageRange] = "30d"
) -> Response[str]:
    """Show the usage over a range."""
    return screen(request, "usage.html", "usage", view=await usage_page(services, range), ranges=RANGES)


@get("/usage.csv", needs="viewer")
async def download_usage(services: FromServices, range: FromQuery[UsageRange] = "30d") -> Response[str]:
    """Return the usage per period and source as a file."""
    headers = {"Content-Disposition": f'attachment; filename="usage-{range}.csv"'}
    return Response(as_csv(usage_items(services, range)), media_type="text/csv", headers=headers)
