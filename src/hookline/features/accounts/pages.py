"""The pages that open a session: signing in, joining by an invitation, choosing a new password."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from litestar import Controller, Request, Response, get, post
from litestar.exceptions import InternalServerException
from litestar.params import FromPath

from hookline.api.audit.log import audit_log
from hookline.api.auth.access import local_path, require_same_origin, session_cookie
from hookline.api.auth.accounts import Account, AccountError, TooManyWaiting, refusal_of
from hookline.api.auth.identity import caller_of
from hookline.api.auth.service import (
    account_store,
    admin_token,
    login_link,
    login_throttle,
    password_hasher,
    session_store,
    token_store,
)
from hookline.api.caller import ADMIN_TOKEN, ROLES, SCOPES, Caller
from hookline.api.calls import the_call, the_caller
from hookline.api.handlers import FromServices
from hookline.api.listing import After, id_number, number_after
from hookline.api.problem import CODES, Problem
from hookline.api.services import Services
from hookline.database.sqlite import DatabaseAway
from hookline.features.accounts.api import open_session, sessions_of, tag_of, token_view_of, user_of
from hookline.features.fleet.service import own_metrics
from hookline.features.settings.pages import tabs
from hookline.telemetry.log import logger
from hookline.web.rendering import Screens, page, redirect, screen, unknown

FORM_BYTES_MAX = 8 * 1024
"""Anybody may send one of these: it is no larger than a name, a password and an address in the longest spelling."""


class SignIn(Controller):
    """The form, its answer, the link and the way out."""

    @get("/login", needs="open")
    async def show_login(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """Show the form, or go on when already signed in."""
        after = local_path(request.query_params.get("next"))
        if is_signed_in(services):
            return redirect(after)
        return _form(services, after, "", why=why_signed_out(services))

    @post("/login", request_max_body_size=FORM_BYTES_MAX, needs="open")
    async def sign_in(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """Check account and password, or the token, and open a session."""
        require_same_origin(request)
        form = await read_form(request)
        after, account = local_path(form.get("next", "/")), form.get("account", "").strip()
        password = form.get("password", "")
        if not account and admin_token(services).matches(password.strip()):  # it cannot be guessed, so it never waits
            return signed_in(redirect(after), services, owner_by_token(), "sign_in")
        address, throttle = the_call().address, login_throttle(services)
        wait_seconds = throttle.wait(address, account)
        if wait_seconds is not None:
            return _throttled(services, after, account, wait_seconds)
        try:
            found = await _found(services, address, account, password)
        except TooManyWaiting:
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
    async def open_by_link(self, services: FromServices, code: FromPath[str]) -> Response[str]:
        """Open a session with the code of the one-time link; where nobody has an account yet, offer to make one."""
        if is_signed_in(services):
            return redirect("/")
        if not login_link(services).consume(code):
            wait_seconds = login_throttle(services).begin(the_call().address)
            if wait_seconds is not None:
                return _throttled(services, "/", "", wait_seconds, "one-time link")
            _refused(services, "failed", "one-time link")
            error = "This link was already used or is older than 15 minutes. You can sign in with the admin token."
            return _form(services, "/", "", error, 403)
        # A page that goes on by itself, not a redirect: after one that began on another site (a web terminal) the
        # browser would not send the strict cookie back.
        opened = page("opened.html", after="/" if account_store(services).any() else "/welcome")
        return signed_in(opened, services, owner_by_token(), "open_one_time_link")

    @post("/logout", needs="open")
    async def sign_out(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """End the session."""
        require_same_origin(request)
        call, sessions = the_call(), session_store(services)
        session = sessions.find(call.session_key)
        if session is not None:
            audit_log(services).record(caller_of(session), "sign_out", "sessions", call.address, call.id)
            sessions.end(call.session_key)
        answer = redirect("/login")
        answer.cookies.append(session_cookie(sessions, ""))
        return answer


async def _found(services: Services, address: str, account: str, password: str) -> Caller | None:
    """Return who this is, None when the password is wrong; the try is counted where it begins to cost something.

    Raise TooManyWaiting, and DatabaseAway; then nothing is counted.
    """
    throttle, accounts, passwords = login_throttle(services), account_store(services), password_hasher(services)
    if not account:
        throttle.count(address)
        return None
    credentials = accounts.credentials(account)
    stored = None if credentials is None else credentials.password_hash
    passwords.require_room(throttle.fails_often(address))
    throttle.count(address, account)
    try:
        if not await passwords.matches(password, stored) or credentials is None:
            return None
        if accounts.credentials_of(credentials.id) != credentials:  # changed while it was checked
            return None
        known = accounts.get(credentials.id)
    except DatabaseAway:
        throttle.not_tried(address, account)
        raise
    return None if known is None else person(known)


def is_signed_in(services: Services) -> bool:
    """Return whether the browser has an open session."""
    return session_store(services).is_open(the_call().session_key)


WHY_ENDED = {
    "revoked": "This session was ended from another browser, or by an owner. Sign in again.",
    "password": "The password of this account was changed. Sign in with the new one.",
    "account": "An owner changed this account, so its sessions ended. Sign in again.",
    "signed_out": "You are signed out everywhere.",
}
RAN_OUT = "Your session ended: it lasts 12 hours without use, and 7 days at most. Sign in again."


def why_signed_out(services: Services) -> str:
    """Return why a browser that was signed in is not any more; empty for one that never was."""
    key = the_call().session_key
    if not key:
        return ""
    return WHY_ENDED.get(session_store(services).why_ended(key) or "", RAN_OUT)


def _form(
    services: Services,
    after: str,
    account: str,
    error: str | None = None,
    status: int = 200,
    headers: dict[str, str] | None = None,
    why: str = "",
) -> Response[str]:
    # Where nobody has an account, the token is what one signs in with: its field comes first and alone.
    people = account_store(services).any()
    return page("login.html", status, headers, after=after, account=account, error=error, people=people, why=why)


def _target(services: Services, account: str) -> str:
    """Whom somebody tried to be; what was typed may be a password in the wrong field, and is not kept."""
    if not account:
        return ADMIN_TOKEN
    found = account_store(services).credentials(account)
    return "unknown account" if found is None else f"users/u{found.id}"


def _throttled(
    services: Services, after: str, account: str, wait_seconds: int, target: str | None = None
) -> Response[str]:
    _refused(services, "throttled", target or _target(services, account))
    minutes = -(-wait_seconds // 60)
    soon = "1 minute" if minutes == 1 else f"{minutes} minutes"
    error = f"Too many failed attempts from your address. Try again in {soon}."
    return _form(services, after, account, error, 429, {"Retry-After": str(wait_seconds)})


def _refused(services: Services, outcome: str, target: str) -> None:
    own_metrics(services).sign_ins[outcome] += 1
    call = the_call()
    if audit_log(services).count_refused("sign_in_failed", target, call.address, call.id):
        logger().warning("sign_in_failed", target=target, address=call.address)


OVER = "This link was already used or is older than 72 hours. Ask an owner for a new link."


class Joining(Controller):
    """Forms of their own beside the sign-in: they end with a session, which no API call opens."""

    @get("/welcome", needs="owner")
    async def show_welcome(self, services: FromServices) -> Response[str]:
        """Offer to create the owner account, as long as there is none at all."""
        return redirect("/") if account_store(services).any() else page("welcome.html", name="", error=None)

    @post("/welcome", request_max_body_size=FORM_BYTES_MAX, needs="owner")
    async def create_owner(self, request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
        """Create the first account and go on as its owner."""
        form = await read_form(request)
        name, password = form.get("name", ""), form.get("password", "")
        refusal = refusal_of(password, name)
        if refusal is not None:
            return page("welcome.html", 422, name=name, error=refusal)
        try:
            account = account_store(services).create_first(name, await password_hasher(services).hash(password))
        except AccountError as error:
            return page("welcome.html", 422, name=name, error=str(error))
        return signed_in(redirect("/"), services, person(account), "create_owner")

    @get("/join/{code:str}", needs="open")
    async def show_invitation(self, services: FromServices, code: FromPath[str]) -> Response[str]:
        """Show whom the invitation is for, and ask for a password; looking at it does not use it up."""
        return _join_form(services, code)

    @post("/join/{code:str}", request_max_body_size=FORM_BYTES_MAX, needs="open")
    async def join(self, request: Request[Any, Any, Any], services: FromServices, code: FromPath[str]) -> Response[str]:
        """Put the password in force and open a session; the link is used up, and other sessions end."""
        require_same_origin(request)
        account = account_store(services).invited(code)
        if account is None:
            return _join_form(services, code)
        password = (await read_form(request)).get("password", "")
        refusal = refusal_of(password, account.name)
        if refusal is not None:
            return _join_form(services, code, refusal)
        password_hash = await password_hasher(services).hash(password)
        if account_store(services).invited(code) != account:  # used while the password was hashed
            return _join_form(services, code)
        account_store(services).set_password(account.id, password_hash)
        session_store(services).end_all(account.id, "password")
        return signed_in(redirect("/"), services, person(account), "join")


def _join_form(services: Services, code: str, error: str | None = None) -> Response[str]:
    account = account_store(services).invited(code)
    if account is None:
        people = account_store(services).any()
        return page("login.html", 403, after="/", account="", error=OVER, people=people)
    return page("join.html", 422 if error else 200, code=code, account=account, error=error)


FIELDS_MAX = 16


async def read_form(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Return the fields of a form; raise Problem when it cannot be read, and HTTPException when it is too large.

    How large it may be is declared with the route, and counted while it arrives.
    """
    try:
        text = (await request.body()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except (ValueError, InternalServerException):  # the latter of a client that left before the end
        raise Problem(400, *CODES[400]) from None


def signed_in(answer: Response[str], services: Services, caller: Caller, action: str) -> Response[str]:
    """Return the answer with the cookie of a new session; the one that the browser came with ends."""
    call, sessions = the_call(), session_store(services)
    sessions.end(call.session_key)
    answer.cookies.append(session_cookie(sessions, open_session(services, caller.id)))
    own_metrics(services).sign_ins["succeeded"] += 1
    target = "sessions" if caller.id is None else f"users/u{caller.id}"
    audit_log(services).record(caller, action, target, call.address, call.id)
    return answer


def owner_by_token() -> Caller:
    """Return who holds the admin token, or a one-time link."""
    return Caller("admin_token", ADMIN_TOKEN, "owner")


def person(account: Account) -> Caller:
    """Return who has an account."""
    return Caller("account", account.name, account.role, account.id)


ROWS_ON_A_PAGE = 50
WHAT_ROLES_DO = {
    "viewer": "viewer: sees events, people and connections, changes nothing",
    "editor": "editor: also changes connections and audiences, replays events, deletes people's data",
    "owner": "owner: also accounts, tokens, server settings, audit log",
}
WHAT_SCOPES_DO = {
    "read": "read: the same as a viewer",
    "write": "write: the same as an editor",
    "admin": "admin: everything",
}
LIFETIMES = (("90d", "90 days"), ("30d", "30 days"), ("365d", "a year"), ("", "until it is revoked"))

PageRequest = Request[Any, Any, Any]


class PeopleScreens(Controller):
    """Looking only; what they change goes through the admin API."""

    path = "/settings"

    @get("/people", needs="owner")
    async def show_people(self, request: PageRequest, services: FromServices, after: After = None) -> Response[str]:
        """List the accounts."""
        found = account_store(services).page(ROWS_ON_A_PAGE + 1, number_after(after, "u") or 0)
        users = [user_of(account) for account in found[:ROWS_ON_A_PAGE]]
        return screen(
            request,
            "settings_people.html",
            "settings",
            tabs=tabs("Accounts"),
            users=users,
            roles=[(role, WHAT_ROLES_DO[role]) for role in ROLES],
            first="/settings/people" if after else "",
            after=f"/settings/people?after={users[-1].id}" if len(found) > len(users) else "",
        )

    @get("/people/{id:str}", needs="owner")
    async def show_person(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[str]:
        """Show one account and what can be changed about it."""
        number = id_number(id, "u")
        account = None if number is None else account_store(services).get(number)
        if account is None:
            return unknown(
                request, "settings", "Account", "There is no account with this id", id, "It may have been removed."
            )
        user = user_of(account)
        given = {"roles": [(role, WHAT_ROLES_DO[role]) for role in ROLES], "author": person(account).author}
        sessions = sessions_of(services, account.id)
        return screen(
            request, "settings_person.html", "settings", user=user, match=tag_of(user), sessions=sessions, **given
        )

    @get("/tokens", needs="owner")
    async def show_tokens(self, request: PageRequest, services: FromServices, after: After = None) -> Response[str]:
        """List the tokens."""
        found = token_store(services).page(ROWS_ON_A_PAGE + 1, number_after(after, "t") or 0)
        tokens = [token_view_of(services, token) for token in found[:ROWS_ON_A_PAGE]]
        return screen(
            request,
            "settings_tokens.html",
            "settings",
            tabs=tabs("Tokens"),
            tokens=tokens,
            scopes=[(scope, WHAT_SCOPES_DO[scope]) for scope in SCOPES],
            lifetimes=LIFETIMES,
            first="/settings/tokens" if after else "",
            after=f"/settings/tokens?after={tokens[-1].id}" if len(found) > len(tokens) else "",
        )

    @get("/tokens/{id:str}", needs="owner")
    async def show_token(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[str]:
        """Show one token."""
        number = id_number(id, "t")
        token = None if number is None else token_store(services).get(number)
        if token is None:
            return unknown(
                request, "settings", "Token", "There is no token with this id", id, "It may have been revoked."
            )
        view = token_view_of(services, token)
        return screen(request, "settings_token.html", "settings", token=view, scope=WHAT_SCOPES_DO[view.scope])

    @get("/account", needs="viewer")
    async def show_account(self, request: PageRequest, services: FromServices) -> Response[str]:
        """Show who one is, where one is signed in, and what one may change about that."""
        sessions = sessions_of(services, the_caller().id)
        return screen(request, "settings_account.html", "settings", tabs=tabs("Your account"), sessions=sessions)


SCREENS = Screens(
    (
        PeopleScreens,
        SignIn,
        Joining,
    )
)
