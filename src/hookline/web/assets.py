"""``/static``: style sheet, scripts and icon, all our own and from this server."""

from __future__ import annotations

from functools import cache

from litestar import Response, get
from litestar.params import FromPath

from hookline.control.problem import not_found
from hookline.web.rendering import STATIC_FOLDER

MEDIA_TYPES = {
    "hookline.css": "text/css",
    "live.js": "text/javascript",
    "theme.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


@get("/static/{name:str}", sync_to_thread=False)
def get_asset(name: FromPath[str]) -> Response[bytes]:
    """Return one of the known files; the address holds its version, so it may be kept for ever."""
    if name not in MEDIA_TYPES:
        raise not_found("asset", name)
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(_content(name), media_type=MEDIA_TYPES[name], headers=headers)


@cache
def _content(name: str) -> bytes:
    return (STATIC_FOLDER / name).read_bytes()
