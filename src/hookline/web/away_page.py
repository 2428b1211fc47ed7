"""What is shown in place of a page while a database cannot be used."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response

from hookline.control.http.problem import AWAY_RETRY_SECONDS
from hookline.database.sqlite import DatabaseAway
from hookline.web.rendering import html, render_for_nobody


def away_page(_: Request[Any, Any, Any], away: DatabaseAway) -> Response[str]:
    """Say so; the page asks again by itself. Who asks cannot be told now, so it shows nothing but that."""
    text = render_for_nobody("away.html", {"seconds": AWAY_RETRY_SECONDS, "away": away})
    return html(text, 503, {"Retry-After": str(AWAY_RETRY_SECONDS)})
