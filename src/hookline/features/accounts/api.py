"""``/api/v1/users``, and one's own password."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import Controller, Request, Response, delete, get, patch, post
from litestar.params import Body, JSONBody, PathParameter

from hookline.api.audit.log import AuditChange, audit_log
from hookline.api.auth.access import session_cookie
from hookline.api.auth.accounts import Account, AccountError, TooManyWaiting, refusal_of
from hookline.api.auth.service import account_store, login_throttle, password_hasher, session_store, token_store
from hookline.api.auth.tokens import Token, TokenError
from hookline.api.caller import Caller, Role, Scope
from hookline.api.calls import Call, current_author, note_unchanged, the_call, the_caller
from hookline.api.handlers import FromServices
from hookline.api.listing import (
    MERGE_PATCH,
    After,
    Id,
    Limit,
    Listing,
    etag_of,
    id_number,
    number_after,
    require_match,
    tagged,
)
from hookline.api.problem import FieldError, Problem, not_found
from hookline.api.services import Services
from hookline.events.timestamps import iso
from hookline.settings import parse_duration

STATUS_OF_ACCOUNT_ERROR = {"already_exists": 409, "last_owner": 409, "not_the_first": 409, "invalid_name": 422}
"""``too_many``, which the connections know as well, is 422."""

Text = Annotated[str, msgspec.Meta(max_length=1_000)]
SessionId = Annotated[str, PathParameter(name="session")]


class User(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One account. ``invitedUntil`` is set while a link to choose its password is valid."""

    id: str
    name: str
    role: Role
    joined: bool
    disabled: bool
    created_at: str
    last_seen_at: str | None = None
    invited_until: str | None = None


class Invitation(msgspec.Struct, frozen=True):
    """Whom to invite, by e-mail address or any other name, and what they may do."""

    name: Text
    role: Role = "viewer"


class InvitedUser(msgspec.Struct, frozen=True):
    """The account and the link to choose its password. The link works once, within 72 hours, and is shown only in this
    answer."""

    user: User
    link: str


class UserChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields that a PATCH may change. Each change ends the account's sessions."""

    role: Role | msgspec.UnsetType = msgspec.UNSET
    disabled: bool | msgspec.UnsetType = msgspec.UNSET


class PasswordChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The current password and the new one."""

    current: Text
    new: Text


class Me(msgspec.Struct, frozen=True):
    """The caller, and what they may do; ``id`` is that of the account or token, null for the admin token."""

    kind: str
    name: str
    role: Role
    id: str | None


class SignedOut(msgspec.Struct, frozen=True):
    """The number of sessions ended."""

    sessions: int


class SessionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A browser session. ``current`` is the one of this call. ``usedAt`` is exact to a minute."""

    id: str
    opened_at: str
    used_at: str
    address: str
    browser: str
    current: bool


class PasswordOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The account, its current password and the new one."""

    account: Text
    current: Text
    new: Text


class Users(Controller):
    """Owners look after people; what is one's own is at ``me``."""

    path = "/users"

    @get(needs="owner")
    async def list_users(self, services: FromServices, limit: Limit = 50, after: After = None) -> Listing[User]:
        """List the accounts, oldest first."""
        found = account_store(services).page(limit + 1, number_after(after, "u") or 0)
        page = [user_of(account) for account in found[:limit]]
        return Listing(page, page[-1].id if len(found) > limit else None)

    @post(needs="owner", request_max_body_size=10_000)
    async def invite_user(
        self, services: FromServices, request: Request[Any, Any, Any], data: JSONBody[Invitation]
    ) -> Response[InvitedUser]:
        """Create an account and a link to choose its password (works once, within 72 hours)."""
        account, code = _refused(lambda: account_store(services).invite(data.name, data.role))
        user = user_of(account)
        _changed(user.id, AuditChange(f"users/{user.id}", "role", None, f"{user.role} {user.name}"))
        headers = {"Location": f"/api/v1/users/{user.id}"}
        return Response(InvitedUser(user, join_link(services, request, code)), status_code=201, headers=headers)

    @get("/me", needs="signed_in")
    async def get_me(self) -> Me:
        """Return the account or token of this call, and what it may do."""
        caller = the_caller()
        prefix = {"account": "u", "token": "t"}.get(caller.kind, "")
        return Me(caller.kind, caller.name, caller.role, f"{prefix}{caller.id}" if caller.id is not None else None)

    @post("/me/password", needs="signed_in", status_code=200, request_max_body_size=20_000)
    async def change_password(self, services: FromServices, data: JSONBody[PasswordChange]) -> Response[SignedOut]:
        """Change your own password. All your other sessions end."""
        ended = await change_own_password(services, the_call(), data.current, data.new)
        answer = Response(SignedOut(ended))
        answer.cookies.append(session_cookie(session_store(services), open_session(services, the_caller().id)))
        return answer

    @post("/password", needs="signed_in", status_code=200, request_max_body_size=20_000)
    async def change_password_of(self, services: FromServices, data: JSONBody[PasswordOf]) -> SignedOut:
        """Change the password of an account, given its current password. Its sessions end. The command line uses
        this."""
        found = account_store(services).credentials(data.account)
        id = None if found is None else found.id
        return SignedOut(await _change_password(services, the_call(), id, data.account, data.current, data.new))

    @get("/me/sessions", needs="signed_in")
    async def list_own_sessions(self, services: FromServices) -> Listing[SessionView]:
        """List the browsers in which you are signed in, last used first."""
        return Listing(sessions_of(services, _with_sessions().id))

    @delete("/me/sessions/{session:str}", needs="signed_in")
    async def end_own_session(self, services: FromServices, session: SessionId) -> None:
        """Sign out of one browser."""
        _end_session(services, _with_sessions().id, session)

    @post("/me/sign-out-others", needs="signed_in", status_code=200)
    async def sign_out_of_others(self, services: FromServices) -> SignedOut:
        """End all your sessions except this one."""
        but = the_call().session_key
        return _signed_out("sessions", session_store(services).end_all(_with_sessions().id, "revoked", but=but))

    @post("/me/sign-out", needs="signed_in", status_code=200)
    async def sign_out_everywhere(self, services: FromServices) -> SignedOut:
        """End all your sessions, including this one."""
        return _signed_out("sessions", session_store(services).end_all(_with_sessions().id, "signed_out"))

    @get("/{id:str}", needs="owner", tagged=True)
    async def get_user(self, services: FromServices, user_id: Id) -> Response[User]:
        """Return one account."""
        return _tagged(user_of(_account(services, user_id)))

    @patch("/{id:str}", needs="owner", tagged=True)
    async def patch_user(
        self, services: FromServices, user_id: Id, data: Annotated[UserChange, Body(media_type=MERGE_PATCH)]
    ) -> Response[User]:
        """Change the role of an account, or disable it. Its sessions end."""
        account = _account(services, user_id)
        before = user_of(account)
        require_match(tag_of(before))
        role = before.role if data.role is msgspec.UNSET else data.role
        disabled = before.disabled if data.disabled is msgspec.UNSET else data.disabled
        after = user_of(_refused(lambda: account_store(services).change(account.id, role, disabled)))
        fields = (("role", before.role, after.role), ("disabled", before.disabled, after.disabled))
        changes = [AuditChange(f"users/{before.id}", *field) for field in fields if field[1] != field[2]]
        if changes:
            session_store(services).end_all(account.id, "account")
            _changed(before.id, *changes)
        else:
            note_unchanged()
        return _tagged(after)

    @post("/{id:str}/invite", needs="owner", status_code=200)
    async def invite_user_again(
        self, services: FromServices, request: Request[Any, Any, Any], user_id: Id
    ) -> InvitedUser:
        """Create a new link to choose the password of an account. Earlier links stop working."""
        account = _account(services, user_id)
        if account.disabled_at is not None:
            detail = "This account is disabled, so its link would open nothing. Enable it first, then create the link."
            raise Problem(409, "account_disabled", detail)
        code = account_store(services).invite_again(account.id)
        _changed(user_id)
        return InvitedUser(user_of(_account(services, user_id)), join_link(services, request, code))

    @get("/{id:str}/sessions", needs="owner")
    async def list_sessions(self, services: FromServices, user_id: Id) -> Listing[SessionView]:
        """List the browsers in which an account is signed in, last used first."""
        return Listing(sessions_of(services, _account(services, user_id).id))

    @delete("/{id:str}/sessions/{session:str}", needs="owner")
    async def end_session(self, services: FromServices, user_id: Id, session: SessionId) -> None:
        """Sign an account out of one browser."""
        _end_session(services, _account(services, user_id).id, session)

    @post("/{id:str}/sign-out", needs="owner", status_code=200)
    async def sign_out_user(self, services: FromServices, user_id: Id) -> SignedOut:
        """End every session of an account."""
        account = _account(services, user_id)
        return _signed_out(f"users/{user_id}", session_store(services).end_all(account.id, "revoked"))

    @delete("/{id:str}", needs="owner", tagged=True)
    async def remove_user(self, services: FromServices, user_id: Id) -> None:
        """Remove an account. Its sessions end; its activity stays in the audit log."""
        account = _account(services, user_id)
        require_match(tag_of(user_of(account)))
        _refused(lambda: account_store(services).remove(account.id))
        session_store(services).end_all(account.id, "account")
        _changed(user_id, AuditChange(f"users/{user_id}", "role", f"{account.role} {account.name}", None))


def sessions_of(services: Services, account: int | None) -> list[SessionView]:
    """Return the sessions of an account, None: of the admin token."""
    found = session_store(services).of(account, the_call().session_key)
    return [
        SessionView(
            id=each.id,
            opened_at=iso(each.opened_at),
            used_at=iso(each.used_at),
            address=each.address,
            browser=browser_of(each.agent),
            current=each.is_this,
        )
        for each in found
    ]


_BROWSERS = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def browser_of(agent: str) -> str:
    """Return in words what a browser calls itself."""
    browser = next((name for mark, name in _BROWSERS if mark in agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in agent), "")
    return " on ".join(filter(None, (browser, system))) or "unknown"


def open_session(services: Services, account: int | None) -> str:
    """Start a session for whoever makes this call; return its key."""
    call = the_call()
    return session_store(services).open(account, call.address, call.headers.get("user-agent", ""))


def _with_sessions() -> Caller:
    caller = the_caller()
    if caller.kind == "token":
        raise Problem(409, "no_sessions", "A token has no sessions; revoke it instead.")
    return caller


def _signed_out(target: str, ended: int) -> SignedOut:
    """Return how many sessions ended; where there was none, nothing changed."""
    if ended:
        the_call().changed(target)
    else:
        note_unchanged()
    return SignedOut(ended)


def _end_session(services: Services, account: int | None, session: str) -> None:
    if not session_store(services).end_one(account, session, "revoked"):
        raise not_found("session", session)
    the_call().changed("sessions")


def user_of(account: Account) -> User:
    """Return the account as the API shows it."""
    return User(
        id=f"u{account.id}",
        name=account.name,
        role=account.role,
        joined=account.joined,
        disabled=account.disabled_at is not None,
        created_at=iso(account.created_at),
        last_seen_at=None if account.last_seen_at is None else iso(account.last_seen_at),
        invited_until=None if account.invited_until is None else iso(account.invited_until),
    )


def join_link(services: Services, request: Request[Any, Any, Any], code: str) -> str:
    """Return where an invited person chooses a password: under the address that whoever invites uses."""
    own = services.settings.control.public_url or f"{request.scope['scheme']}://{request.headers.get('host', '')}"
    return f"{own.rstrip('/')}/join/{code}"


ResultT = TypeVar("ResultT")


def _refused(work: Callable[[], ResultT]) -> ResultT:
    """Run a change of accounts; its refusal becomes a problem."""
    try:
        return work()
    except AccountError as error:
        errors = [FieldError("/name", str(error))] if error.code in ("already_exists", "invalid_name") else []
        raise Problem(STATUS_OF_ACCOUNT_ERROR.get(error.code, 422), error.code, str(error), errors) from None


def _account(services: Services, user_id: str) -> Account:
    number = id_number(user_id, "u")
    account = None if number is None else account_store(services).get(number)
    if account is None:
        raise not_found("user", user_id)
    return account


def _changed(user_id: str, *changes: AuditChange) -> None:
    the_call().changed(f"users/{user_id}", *changes)


def tag_of(user: User) -> str:
    """Return which state of an account this is; when it was last seen does not count."""
    return etag_of((user.role, user.disabled, user.name))


def _tagged(user: User) -> Response[User]:
    return tagged(user, tag_of(user))


async def change_own_password(services: Services, call: Call, current: str, new: str) -> int:
    """Put the new password in force and end every session of the account; say how many those were.

    Raise Problem when that cannot be.
    """
    caller = call.caller
    if caller is None or caller.kind != "account" or caller.id is None:
        raise Problem(409, "no_password", "Only an account has a password; you used a token.")
    return await _change_password(services, call, caller.id, caller.name, current, new)


async def _change_password(
    services: Services, call: Call, account: int | None, name: str, current: str, new: str
) -> int:
    # In place of the address: whoever is signed in is kept waiting neither by strangers' tries from the same one, nor
    # by what others try who are signed in too.
    caller, throttle, passwords = the_caller().key, login_throttle(services), password_hasher(services)
    found = None if account is None else account_store(services).credentials_of(account)
    wait_seconds = throttle.wait(caller, name)
    if wait_seconds is not None:
        minutes = -(-wait_seconds // 60)
        detail = f"Too many wrong passwords. Try again in {minutes} min."
        raise Problem(429, "too_many_requests", detail, headers=_after(wait_seconds))
    try:
        passwords.require_room(throttle.fails_often(caller))
    except TooManyWaiting:
        raise Problem(503, "unavailable", "Too many people are signing in right now; try again in a moment.") from None
    throttle.count(caller, name)
    right = await passwords.matches(current, None if found is None else found.password_hash)
    if not right or account is None:
        if account is not None and call.caller is not None:  # few, for each account has few tries
            target = f"users/u{account}"
            audit_log(services).record(call.caller, "sign_in_failed", target, call.address, call.id)
        raise _wrong_password(call)
    throttle.succeeded(caller, name)
    refusal = refusal_of(new, name)
    if refusal is not None:
        raise Problem(422, "weak_password", refusal, [FieldError("/new", refusal)])
    password_hash = await passwords.hash(new)
    if account_store(services).credentials_of(account) != found:  # changed while these were checked and hashed
        raise _wrong_password(call)
    account_store(services).set_password(account, password_hash)
    call.changed(f"users/u{account}")
    return session_store(services).end_all(account, "password")


def _wrong_password(call: Call) -> Problem:
    """Return the answer to who gave a wrong password; who gave a name with it does not hear whether there is such an
    account."""
    is_signed_in = call.caller is not None and call.caller.kind == "account"
    sentence = "That is not your password." if is_signed_in else "No account has this name and this password."
    return Problem(403, "wrong_password", sentence, [FieldError("/current", sentence)])


def _after(seconds: int) -> dict[str, str]:
    return {"Retry-After": str(seconds)}


EXPIRES_DAYS_MAX = 3_650
STATUS_OF_TOKEN_ERROR = {"already_exists": 409, "too_many": 422}


class TokenView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One token without its text. ``hint`` is how it ends. Expired tokens stay listed until they are revoked."""

    id: str
    name: str
    scope: Scope
    hint: str
    created_at: str
    created_by: str
    expires_at: str | None
    expired: bool
    last_used_at: str | None


class NewToken(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A token to create: its name, its scope (``read``, ``write``, ``admin``), and how long it is valid (such as
    ``90d``).
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    scope: Scope = "read"
    expires_in: str | None = None


class CreatedToken(msgspec.Struct, frozen=True):
    """The new token. Send ``text`` as Authorization: Bearer TEXT. It is shown only in this answer."""

    token: TokenView
    text: str


class TokensApi(Controller):
    """Made and revoked, never changed."""

    path = "/tokens"

    @get(needs="owner")
    async def list_tokens(self, services: FromServices, limit: Limit = 50, after: After = None) -> Listing[TokenView]:
        """List the tokens, oldest first."""
        found = token_store(services).page(limit + 1, number_after(after, "t") or 0)
        page = [token_view_of(services, token) for token in found[:limit]]
        return Listing(page, page[-1].id if len(found) > limit else None)

    @post(needs="owner", request_max_body_size=10_000)
    async def create_token(self, services: FromServices, data: JSONBody[NewToken]) -> Response[CreatedToken]:
        """Create a token. Only this answer contains its text."""
        if not (data.name.isprintable() and data.name.strip()):
            sentence = "A name must be printable, and not blank."
            raise Problem(422, "invalid_object", sentence, [FieldError("/name", sentence)])
        expires_at = None if data.expires_in is None else _time_after(data.expires_in)
        try:
            token, text = token_store(services).create(data.name.strip(), data.scope, expires_at, current_author())
        except TokenError as error:
            status = STATUS_OF_TOKEN_ERROR[error.code]
            raise Problem(status, error.code, str(error), [FieldError("/name", str(error))]) from None
        view = token_view_of(services, token)
        the_call().changed(f"tokens/{view.id}", AuditChange(f"tokens/{view.id}", "scope", None, _described(view)))
        headers = {"Location": f"/api/v1/tokens/{view.id}"}
        return Response(CreatedToken(view, text), status_code=201, headers=headers)

    @get("/{id:str}", needs="owner")
    async def get_token(self, services: FromServices, token_id: Id) -> TokenView:
        """Return one token."""
        return token_view_of(services, _token(services, token_id))

    @delete("/{id:str}", needs="owner")
    async def revoke_token(self, services: FromServices, token_id: Id) -> None:
        """Revoke a token. Calls that use it get 401 from now on."""
        token = _token(services, token_id)
        token_store(services).revoke(token.id)
        described = _described(token_view_of(services, token))
        the_call().changed(f"tokens/{token_id}", AuditChange(f"tokens/{token_id}", "scope", described, None))


def token_view_of(services: Services, token: Token) -> TokenView:
    """Return the token as the API shows it."""
    return TokenView(
        id=f"t{token.id}",
        name=token.name,
        scope=token.scope,
        hint=token.hint,
        created_at=iso(token.created_at),
        created_by=token.created_by,
        expires_at=None if token.expires_at is None else iso(token.expires_at),
        expired=token_store(services).has_expired(token),
        last_used_at=None if token.last_used_at is None else iso(token.last_used_at),
    )


def _described(view: TokenView) -> str:
    return f"{view.scope} {view.name}" + (f" until {view.expires_at}" if view.expires_at else "")


def _token(services: Services, token_id: str) -> Token:
    number = id_number(token_id, "t")
    token = None if number is None else token_store(services).get(number)
    if token is None:
        raise not_found("token", token_id)
    return token


def _time_after(duration: str) -> int:
    try:
        seconds = parse_duration(duration)
    except ValueError as error:
        raise _unusable(f"{error}") from None
    if not 0 < seconds <= EXPIRES_DAYS_MAX * 86_400:
        raise _unusable(f"write a time of at most {EXPIRES_DAYS_MAX}d, such as 90d")
    return int((time.time() + seconds) * 1000)


def _unusable(sentence: str) -> Problem:
    return Problem(422, "invalid_object", f"expiresIn: {sentence}.", [FieldError("/expiresIn", sentence)])
