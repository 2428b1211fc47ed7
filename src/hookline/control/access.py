"""Who may call the admin API: holders of the admin token, and browsers that are signed in to the pages."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from hookline.control.problem import CODES, Problem
from hookline.control.services import Services

Connection = ASGIConnection[Any, Any, Any, Any]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def require_access(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard of every API route: a bearer token, or a session whose request comes from our own pages."""
    services: Services = connection.app.state.services
    scheme, _space, presented = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        if services.token.matches(presented.strip()):
            return
        raise _unauthorized("The admin token is not the right one.")
    if services.sessions.is_open(connection.cookies.get(services.sessions.cookie_name)):
        if connection.scope.get("method") not in SAFE_METHODS:
            require_same_origin(connection)
        return
    raise _unauthorized(CODES[401][1])


def require_same_origin(connection: Connection) -> None:
    """Refuse what another site made a browser send (CSRF): the browser itself says where a request comes from."""
    site = connection.headers.get("sec-fetch-site")
    if site is not None:
        same = site == "same-origin"
    else:
        # Browsers leave Sec-Fetch-Site out on plain http to other hosts than this machine.
        origin = connection.headers.get("origin", "")
        same = bool(origin) and urlsplit(origin).netloc.lower() == connection.headers.get("host", "").lower()
    if not same:
        raise Problem(403, "cross_site_request", "This request did not come from Hookline's own pages.")


def _unauthorized(detail: str) -> Problem:
    return Problem(401, "unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="hookline"'})
