"""What is shown in place of a page that the caller's role does not allow."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response

from hookline.control.accounts.access import PageRefused
from hookline.web.rendering import html, render


def refused_page(_: Request[Any, Any, Any], refused: PageRefused) -> Response[str]:
    """Say which role it takes."""
    return html(render("forbidden.html", {"layout": "app.html", "here": "", "reason": refused.detail}), 403)
