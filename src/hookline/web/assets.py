"""``/static``: style sheets, scripts and icon, all from this server; what others wrote has a folder of its own."""

from __future__ import annotations

import gzip
from functools import cache
from typing import Any

from litestar import Request, Response, get
from litestar.params import FromPath

from hookline.api.problem import not_found
from hookline.web.rendering import STATIC_FOLDER

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
