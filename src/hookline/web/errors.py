"""Answer when something went wrong, and serve ``/static``: style sheets, scripts and icons, all from this server."""

from __future__ import annotations

import gzip
from functools import cache
from typing import Any

from litestar import Request, Response, get
from litestar.params import FromPath

from hookline.api.auth.access import PageRefused
from hookline.api.calls import PARTS_HEADER, current_caller
from hookline.api.handlers import respond
from hookline.api.problem import AWAY_RETRY_SECONDS, not_found
from hookline.database.sqlite import DatabaseAway
from hookline.web.rendering import STATIC_FOLDER, html, render, render_for_nobody


def refused_page(_: Request[Any, Any, Any], refused: PageRefused) -> Response[str]:
    """Say which role it takes."""
    return html(render("forbidden.html", {"layout": "app.html", "here": "", "reason": refused.detail}), 403)


def nothing_page(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Say to a browser that there is nothing at this address; programs get the problem document."""
    if "text/html" not in request.headers.get("accept", "") or PARTS_HEADER in request.headers:
        return respond(request, error)
    caller = current_caller()
    layout = "app.html" if caller is not None and caller.session else "door.html"
    return html(render("nothing.html", {"layout": layout, "here": "", "path": request.url.path}), 404)


def away_page(_: Request[Any, Any, Any], away: DatabaseAway) -> Response[str]:
    """Say so; the page asks again by itself. Who asks cannot be told now, so it shows nothing but that."""
    text = render_for_nobody("away.html", {"seconds": AWAY_RETRY_SECONDS, "away": away})
    return html(text, 503, {"Retry-After": str(AWAY_RETRY_SECONDS)})


MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
"""The address of an asset holds its version, so it may be kept for ever."""


@get("/static/{path:path}", sync_to_thread=False, needs="open")
def get_asset(request: Request[Any, Any, Any], path: FromPath[str]) -> Response[bytes]:
    """Return one of the known files, compressed for browsers that take it."""
    name = path.lstrip("/")
    if name not in known_assets():
        raise not_found("asset", name)
    media_type = known_assets()[name]
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response((STATIC_FOLDER / name).read_bytes(), media_type=media_type, headers=HEADERS)
    return Response(_compressed(name), media_type=media_type, headers={**HEADERS, "Content-Encoding": "gzip"})


@cache
def known_assets() -> dict[str, str]:
    """Media type by path below the folder: nothing else is ever read."""
    files = (path for path in STATIC_FOLDER.rglob("*") if path.suffix in MEDIA_TYPES)
    return {path.relative_to(STATIC_FOLDER).as_posix(): MEDIA_TYPES[path.suffix] for path in files}


@cache
def _compressed(name: str) -> bytes:
    return gzip.compress((STATIC_FOLDER / name).read_bytes(), mtime=0)
