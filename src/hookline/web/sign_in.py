"""Signing in to the pages: an account, the admin token alone in the password field, or the one-time link; and out."""

from __future__ import annotations

from typing import Any

from litestar import Controller, Request, Response, get, post
from litestar.params import FromPath

from hookline.control.accounts.access import Connection, local_path, require_same_origin
from hookline.control.accounts.identity import caller_of
from hookline.control.accounts.passwords import TooManyWaiting
from hookline.control.accounts.sessions import session_cookie
from hookline.control.http.call import the_call
from hookline.control.http.caller import ADMIN_TOKEN, Caller
from hookline.control.services import FromServices, Services
from hookline.telemetry.log import logger
from hookline.web.rendering import page, redirect
from hookline.web.signed_in import FORM_BYTES_MAX, owner_by_token, person, read_form, signed_in


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
        password = form.get("password", "")
        if not account and services.token.matches(password.strip()):  # it cannot be guessed, so it never waits
            return signed_in(redirect(after), services, owner_by_token(), "sign_in")
        address, throttle = the_call().address, services.throttle
        wait_seconds = throttle.begin(address, account)
        if wait_seconds is not None:
            return _throttled(services, after, account, wait_seconds)
        try:
            found = await _found(services, account, password, throttle.fails_often(address))
        except TooManyWaiting:
            throttle.not_tried(address, account)
            error = "Too many sign-ins right now. Try again in a moment."
            return _form(services, after, account, error, 503, {"Retry-After": "5"})
        if found is None:
            _refused(services, "failed", _target(services, account))
            error = "Account and password do not match."
            if not account:
                error = "That is not the admin token. It is in the file admin-token of the data folder."
            return _form(services, after, account, error, 403)
        throttle.succeeded(address, account)
        return signed_in(redirect(after), services, found, "sign_in")

    @get("/open/{code:str}", needs="open")
    async def open_by_link(
        self, request: Request[Any, Any, Any], services: FromServices, code: FromPath[str]
    ) -> Response[str]:
        """Open a session with the code of the one-time link; where nobody has an account yet, offer to make one."""
        if is_signed_in(request, services):
            return redirect("/")
        if not services.link.consume(code):
            wait_seconds = services.throttle.begin(the_call().address)
            if wait_seconds is not None:
                return _throttled(services, "/", "", wait_seconds, "one-time link")
            _refused(services, "failed", "one-time link")
            error = "This link was already used or is older than 15 minutes. You can sign in with the admin token."
            return _form(services, "/", "", error, 403)
        # A page that goes on by itself, not a redirect: after one that began on another site (a web terminal) the
        # browser would not send the strict cookie back.
        opened = page("opened.html", after="/" if services.accounts.any() else "/welcome")
        return signed_in(opened, services, owner_by_token(), "open_one_time_link")

    @post("/logout", needs="open")
    async def sign_out(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """End the session."""
        require_same_origin(request)
        call, sessions = the_call(), services.sessions
        session = sessions.find(call.session_key)
        if session is not None:
            services.audit.record(caller_of(session), "sign_out", "sessions", call.address, call.id)
            sessions.close(call.session_key)
        answer = redirect("/login")
        answer.cookies.append(session_cookie(sessions, ""))
        return answer


async def _found(services: Services, account: str, password: str, others_first: bool) -> Caller | None:
    if not account:
        return None
    credentials = services.accounts.credentials(account)
    stored = None if credentials is None else credentials.password_hash
    if not await services.passwords.matches(password, stored, others_first) or credentials is None:
        return None
    known = services.accounts.get(credentials.id)
    return None if known is None else person(known)


def is_signed_in(request: Connection, services: Services) -> bool:
    """Return whether the browser has an open session."""
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


def _throttled(
    services: Services, after: str, account: str, wait_seconds: int, target: str | None = None
) -> Response[str]:
    _refused(services, "throttled", target or _target(services, account))
    error = f"Too many failed attempts from your address. Try again in {-(-wait_seconds // 60)} minutes."
    return _form(services, after, account, error, 429, {"Retry-After": str(wait_seconds)})


def _refused(services: Services, outcome: str, target: str) -> None:
    services.own_metrics.sign_ins[outcome] += 1
    call = the_call()
    if services.audit.count_refused("sign_in_failed", target, call.address, call.id):
        logger().warning("sign_in_failed", target=target, address=call.address)
