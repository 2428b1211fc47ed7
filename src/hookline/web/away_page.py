"""What is shown in place of a page while PostgreSQL cannot be reached, or what is in a database cannot be read."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response

from hookline.control.problem import AWAY_RETRY_SECONDS
from hookline.database.open import DatabaseUnreadable
from hookline.database.sqlite import DatabaseAway
from hookline.web.rendering import html, render_for_nobody


def away_page(_: Request[Any, Any, Any], away: DatabaseAway) -> Response[str]:
    """Say so; the page asks again by itself. Who asks cannot be told now, so it shows nothing but that."""
    unreadable = isinstance(away, DatabaseUnreadable)
    text = render_for_nobody("away.html", {"seconds": AWAY_RETRY_SECONDS, "unreadable": unreadable})
    return html(text, 503, {"Retry-After": str(AWAY_RETRY_SECONDS)})
