"""Who may call a route: what it needs is declared with it (``needs=…``), and this guard holds every caller to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

from litestar import Litestar, Request, Response
from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie
from litestar.handlers import BaseRouteHandler
from litestar.routes import HTTPRoute

from hookline.api.auth.sessions import LIFETIME_MS, Sessions
from hookline.api.caller import API, NEEDS, SAFE_METHODS, Need
from hookline.api.calls import PARTS_HEADER, current_call
from hookline.api.problem import Problem

Connection = ASGIConnection[Any, Any, Any, Any]

NEXT_CHARACTERS_MAX = 2_000


class UndeclaredRoute(Exception):
    """A route does not say rightly what it needs of its caller, so nothing is served."""


class PageRefused(Problem):
    """A page that the caller's role does not allow."""


class SignInNeeded(Exception):
    """A page is asked for by nobody known; ``location`` is that of the form, which leads back here."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


def require_need(connection: Connection, handler: BaseRouteHandler) -> None:
    """Guard of every route: let a caller in that meets the route's need, and comes from our own pages if it is one."""
    if connection.scope.get("method") == "OPTIONS":  # Litestar's own: which methods an address has, as anybody can read
        return
    need: Need = handler.opt["needs"]
    call = current_call()
    if need == "open" or call is None:
        return
    path = connection.scope["path"]
    caller = call.caller
    # A token opens no page: pages are for browsers, which have a session.
    if caller is None or not (path.startswith(API) or caller.session):
        if path.startswith(API) or PARTS_HEADER in connection.headers:
            raise _unauthorized(call.identity.refusal)
        raise SignInNeeded(login_location(connection))
    if caller.session and connection.scope.get("method") not in SAFE_METHODS:
        require_same_origin(connection)
    if not caller.may(need):
        refused = Problem if path.startswith(API) else PageRefused
        raise refused(403, "forbidden", f"This needs the role {need}; {caller.name} is {caller.role}.")


def require_same_origin(connection: Connection) -> None:
    """Refuse what another site made a browser send (CSRF): the browser itself says where a request comes from."""
    site = connection.headers.get("sec-fetch-site")
    if site is not None:
        same = site == "same-origin"
    else:
        # Browsers leave Sec-Fetch-Site out on plain http to other hosts than this machine.
        origin = connection.headers.get("origin", "")
        same = bool(origin) and urlsplit(origin).netloc.lower() == connection.headers.get("host", "").lower()
        # Fronts make another Host of it (nginx's $host has no port): our own pages are ours all the same.
        call = current_call()
        same = same or (bool(origin) and call is not None and origin.lower() == call.public_origin)
    if not same:
        raise Problem(403, "cross_site_request", "This request did not come from Hookline's own pages.")


def check_needs(app: Litestar) -> None:
    """Raise UndeclaredRoute unless every route declares what it needs, and none that changes something only a viewer.

    A route that changes nothing but what is the caller's own needs ``signed_in``.
    """
    for method, path, need in needs_of(app):
        if need not in NEEDS:
            raise UndeclaredRoute(f"{method} {path} does not declare what it needs: needs=… ({', '.join(NEEDS)})")
        if need == "viewer" and method not in SAFE_METHODS:
            raise UndeclaredRoute(f"{method} {path} changes something and lets viewers in; it needs at least an editor")


def needs_of(app: Litestar) -> Iterator[tuple[str, str, Any]]:
    """Yield every method and path with what it declares; OPTIONS, which Litestar adds by itself, left out."""
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                for method in handler.http_methods:
                    if method != "OPTIONS":
                        yield str(method), route.path, handler.opt.get("needs")


def login_location(connection: Connection) -> str:
    """Return the form's address, with the way back here."""
    query = connection.scope["query_string"].decode("latin-1")
    here = connection.scope["raw_path"].decode("latin-1").partition("?")[0] + (f"?{query}" if query else "")
    after = local_path(here)
    return "/login" if after == "/" else "/login?" + urlencode({"next": after})


def to_login(_: Request[Any, Any, Any], error: SignInNeeded) -> Response[str]:
    """Send the browser to the form."""
    return Response("", status_code=303, media_type="text/html", headers={"Location": error.location})


def local_path(text: str | None) -> str:
    """Return the path if it leads to one of our pages, else the first page: no way to be sent elsewhere after signing
    in."""
    if not text or len(text) > NEXT_CHARACTERS_MAX or not text.isascii() or not text.isprintable():
        return "/"
    if not text.startswith("/") or text.startswith("//") or "\\" in text:
        return "/"
    return text


def _unauthorized(detail: str) -> Problem:
    return Problem(401, "unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="hookline"'})


def session_cookie(sessions: Sessions, key: str) -> Cookie:
    """Return the cookie that no script sees and no other site sends; with an empty key the browser forgets it."""
    return Cookie(
        key=sessions.cookie_name,
        value=key,
        max_age=LIFETIME_MS // 1000 if key else 0,
        path="/",
        secure=sessions.secure,
        httponly=True,
        samesite="strict",
    )
