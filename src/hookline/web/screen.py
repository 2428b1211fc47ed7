"""One screen in its two renderings: the whole page, and only its live parts for the script that keeps it current.

Both come from the same address and the same template; the script asks with the header ``X-Parts``.
"""

from __future__ import annotations

from gzip import compress
from typing import Any

from litestar import Request, Response

from hookline.api.auth.access import PARTS_HEADER
from hookline.web.rendering import html, render

QUERY_CHARACTERS_MAX = 1_000
GZIP_LEVEL = 3
"""A page of 100 KB becomes a tenth of that in about a millisecond."""


def screen(request: Request[Any, Any, Any], template: str, here: str, **values: object) -> Response[Any]:
    """Render a screen; ``here`` is the rail's entry it belongs to."""
    layout = "parts.html" if _wants_parts(request) else "app.html"
    text = render(template, {"layout": layout, "here": here, **values})
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return html(text)
    # Secrets beside what an address holds are no oracle here: other sites' requests come without the strict cookie.
    headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return Response(compress(text.encode(), GZIP_LEVEL, mtime=0), media_type="text/html", headers=headers)


def unknown(request: Request[Any, Any, Any], here: str, heading: str, title: str, id: str, hint: str) -> Response[str]:
    """Say that an address names nothing; the page watches and moves on when it does."""
    if _wants_parts(request):
        return html("", 204)
    values = {"heading": heading, "title": title, "id": id, "hint": hint}
    return html(render("unknown.html", {"layout": "app.html", "here": here, **values}), 404)


def query_of(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Return the address's query, no value longer than anything that can be looked for."""
    return {name: str(value)[:QUERY_CHARACTERS_MAX] for name, value in request.query_params.items()}


def _wants_parts(request: Request[Any, Any, Any]) -> bool:
    return PARTS_HEADER in request.headers
