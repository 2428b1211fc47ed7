"""Signing in to the pages: the admin token in one password field, or the one-time link; and signing out."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from litestar import Controller, Request, Response, get, post
from litestar.datastructures import Cookie
from litestar.params import FromPath

from hookline.control.access import Connection, require_same_origin
from hookline.control.services import FromServices, Services
from hookline.control.sessions import LIFETIME_SECONDS, Sessions
from hookline.web.rendering import page, redirect

NEXT_CHARACTERS_MAX = 2_000


class SignIn(Controller):
    """The form, its answer, the link and the way out."""

    @get("/login")
    async def show_login(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """Show the form, or go on when already signed in."""
        after = local_path(request.query_params.get("next"))
        if is_signed_in(request, services):
            return redirect(after)
        return page("login.html", after=after, error=None)

    @post("/login")
    async def sign_in(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """Check the token and open a session."""
        require_same_origin(request)
        form = await request.form()
        after = local_path(str(form.get("next", "/")))
        address = request.client.host if request.client else "unknown"
        wait_seconds = services.throttle.retry_after_seconds(address)
        if wait_seconds is not None:
            minutes = -(-wait_seconds // 60)
            error = f"Too many wrong tokens. Try again in {minutes} minutes, or use a one-time link."
            return page("login.html", 429, {"Retry-After": str(wait_seconds)}, after=after, error=error)
        if not services.token.matches(str(form.get("token", "")).strip()):
            services.throttle.failed(address)
            error = "That is not the admin token. It is in the file admin-token of the data folder."
            return page("login.html", 403, after=after, error=error)
        return _with_session(redirect(after), request, services.sessions)

    @get("/open/{code:str}")
    async def open_by_link(
        self, request: Request[Any, Any, Any], services: FromServices, code: FromPath[str]
    ) -> Response[str]:
        """Open a session with the code of the one-time link."""
        if is_signed_in(request, services):
            return redirect("/")
        if not services.link.consume(code):
            error = "This link was already used, or is older than 15 minutes. The admin token opens the page as well."
            return page("login.html", 403, after="/", error=error)
        # A page that goes on by itself, not a redirect: after one that began on another site (a web terminal) the
        # browser would not send the strict cookie back.
        return _with_session(page("opened.html"), request, services.sessions)

    @post("/logout")
    async def sign_out(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """End the session."""
        require_same_origin(request)
        sessions = services.sessions
        sessions.close(request.cookies.get(sessions.cookie_name))
        answer = redirect("/login")
        answer.cookies.append(_cookie(sessions, "", 0))
        return answer


def is_signed_in(request: Connection, services: Services) -> bool:
    """Whether the browser has an open session."""
    return services.sessions.is_open(request.cookies.get(services.sessions.cookie_name))


def to_login(request: Request[Any, Any, Any]) -> Response[str]:
    """Send to the form, and back here afterwards."""
    query = request.scope["query_string"].decode("latin-1")
    here = request.scope["raw_path"].decode("latin-1").partition("?")[0] + (f"?{query}" if query else "")
    after = local_path(here)
    return redirect("/login" if after == "/" else "/login?" + urlencode({"next": after}))


def local_path(text: str | None) -> str:
    """The path if it leads to one of our pages, else the first page: no way to be sent elsewhere after signing in."""
    if not text or len(text) > NEXT_CHARACTERS_MAX or not text.isascii() or not text.isprintable():
        return "/"
    if not text.startswith("/") or text.startswith("//") or "\\" in text:
        return "/"
    return text


def _with_session(answer: Response[str], request: Request[Any, Any, Any], sessions: Sessions) -> Response[str]:
    sessions.close(request.cookies.get(sessions.cookie_name))
    answer.cookies.append(_cookie(sessions, sessions.open(), int(LIFETIME_SECONDS)))
    return answer


def _cookie(sessions: Sessions, value: str, seconds: int) -> Cookie:
    return Cookie(
        key=sessions.cookie_name,
        value=value,
        max_age=seconds,
        path="/",
        secure=sessions.secure,
        httponly=True,
        samesite="strict",
    )
