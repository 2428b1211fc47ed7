"""Signing in to the pages: an account, the admin token alone in the password field, or the one-time link; and out."""

from __future__ import annotations

from typing import Any

from litestar import Controller, Request, Response, get, post
from litestar.params import FromPath

from hookline.control.access import Connection, local_path, require_same_origin
from hookline.control.call import the_call
from hookline.control.caller import ADMIN_TOKEN, NOBODY
from hookline.control.people.passwords import TooManyWaiting
from hookline.control.services import FromServices, Services
from hookline.control.session_cookie import session_cookie
from hookline.telemetry.log import logger
from hookline.web.rendering import page, redirect
from hookline.web.signed_in import FORM_BYTES_MAX, read_form, signed_in


class SignIn(Controller):
    """The form, its answer, the link and the way out."""

    @get("/login", needs="open")
    async def show_login(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """Show the form, or go on when already signed in."""
        after = local_path(request.query_params.get("next"))
        if is_signed_in(request, services):
            return redirect(after)
        return _form(services, after, "")

    @post("/login", request_max_body_size=FORM_BYTES_MAX, needs="open")
    async def sign_in(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """Check account and password, or the token, and open a session."""
        require_same_origin(request)
        form = await read_form(request)
        after, account = local_path(form.get("next", "/")), form.get("account", "").strip()
        wait_seconds = services.throttle.begin(the_call().address, account)
        if wait_seconds is not None:
            services.own_metrics.sign_ins["throttled"] += 1
            error = f"Too many wrong tries. Try again in {-(-wait_seconds // 60)} minutes, or use a one-time link."
            return _form(services, after, account, error, 429, {"Retry-After": str(wait_seconds)})
        try:
            found = await _found(services, account, form.get("password", ""))
        except TooManyWaiting:
            error = "Many sign in right now. Try again in a moment."
            return _form(services, after, account, error, 503, {"Retry-After": "5"})
        if found is None:
            _failed(services, _target(services, account))
            error = "Account and password do not match."
            if not account:
                error = "That is not the admin token. It is in the file admin-token of the data folder."
            return _form(services, after, account, error, 403)
        services.throttle.succeeded(the_call().address, account)
        return signed_in(redirect(after), services, found.id, found.name, "sign_in")

    @get("/open/{code:str}", needs="open")
    async def open_by_link(
        self, request: Request[Any, Any, Any], services: FromServices, code: FromPath[str]
    ) -> Response[str]:
        """Open a session with the code of the one-time link; where nobody has an account yet, offer to make one."""
        if is_signed_in(request, services):
            return redirect("/")
        if not services.link.consume(code):
            _failed(services, "one-time link")
            error = "This link was already used, or is older than 15 minutes. The admin token opens the page as well."
            return _form(services, "/", "", error, 403)
        # A page that goes on by itself, not a redirect: after one that began on another site (a web terminal) the
        # browser would not send the strict cookie back.
        opened = page("opened.html", after="/" if services.accounts.any() else "/welcome")
        return signed_in(opened, services, None, ADMIN_TOKEN, "open_one_time_link")

    @post("/logout", needs="open")
    async def sign_out(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """End the session."""
        require_same_origin(request)
        call, sessions = the_call(), services.sessions
        session = sessions.find(call.session_key)
        if session is not None:
            _record(services, session.name or ADMIN_TOKEN, "sign_out", "sessions")
            sessions.close(call.session_key)
        answer = redirect("/login")
        answer.cookies.append(session_cookie(sessions, ""))
        return answer


class _Found:
    """Whose credentials were right; without an id it is the admin token."""

    def __init__(self, id: int | None, name: str) -> None:
        self.id = id
        self.name = name


async def _found(services: Services, account: str, password: str) -> _Found | None:
    if not account:
        return _Found(None, ADMIN_TOKEN) if services.token.matches(password.strip()) else None
    credentials = services.accounts.credentials(account)
    stored = None if credentials is None else credentials.password_hash
    if not await services.passwords.matches(password, stored) or credentials is None:
        return None
    known = services.accounts.get(credentials.id)
    return None if known is None else _Found(known.id, known.name)


def is_signed_in(request: Connection, services: Services) -> bool:
    """Whether the browser has an open session."""
    return services.sessions.is_open(request.cookies.get(services.sessions.cookie_name))


def _form(
    services: Services,
    after: str,
    account: str,
    error: str | None = None,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Response[str]:
    # Where nobody has an account, the token is what one signs in with: its field comes first and alone.
    people = services.accounts.any()
    return page("login.html", status, headers, after=after, account=account, error=error, people=people)


def _target(services: Services, account: str) -> str:
    """Whom somebody tried to be; what was typed may be a password in the wrong field, and is not kept."""
    if not account:
        return ADMIN_TOKEN
    found = services.accounts.credentials(account)
    return "unknown account" if found is None else f"users/u{found.id}"


def _failed(services: Services, target: str) -> None:
    services.own_metrics.sign_ins["failed"] += 1
    logger().warning("sign_in_failed", target=target, address=the_call().address)
    _record(services, NOBODY, "sign_in_failed", target)


def _record(services: Services, actor: str, action: str, target: str) -> None:
    call = the_call()
    services.audit.record(actor, action, target, call.address, call.id)
