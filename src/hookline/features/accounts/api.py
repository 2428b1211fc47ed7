"""``/api/v1/users``, and one's own password."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import Controller, Request, Response, delete, get, patch, post
from litestar.params import Body, JSONBody

from hookline.api.audit.log import AuditChange
from hookline.api.auth.accounts import Account, AccountError, TooManyWaiting, refusal_of
from hookline.api.auth.service import account_store, login_throttle, password_hasher, session_store, token_store
from hookline.api.auth.sessions import session_cookie
from hookline.api.auth.tokens import Token, TokenError
from hookline.api.caller import Role, Scope
from hookline.api.calls import Call, current_author, the_call, the_caller
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
from hookline.api.services import FromServices, Services
from hookline.events.timestamps import iso
from hookline.settings import parse_duration

STATUS_OF_ACCOUNT_ERROR = {"already_exists": 409, "last_owner": 409, "not_the_first": 409, "invalid_name": 422}
"""``too_many``, which the connections know as well, is 422."""

Text = Annotated[str, msgspec.Meta(max_length=1_000)]


class User(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One account. ``invitedUntil``: a link is open with which its owner may choose a password."""

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
    """The account and the link with which its owner chooses a password: once, within 72 hours; shown this once."""

    user: User
    link: str


class UserChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields that a PATCH may change; either ends the account's sessions."""

    role: Role | msgspec.UnsetType = msgspec.UNSET
    disabled: bool | msgspec.UnsetType = msgspec.UNSET


class PasswordChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The password in force and the one that is to be."""

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


class Users(Controller):
    """Owners look after people; what is one's own is at ``me``."""

    path = "/users"

    @get(needs="owner")
    async def list_users(self, services: FromServices, limit: Limit = 50, after: After = None) -> Listing[User]:
        """List the accounts in the order they were made."""
        found = account_store(services).page(limit + 1, number_after(after, "u") or 0)
        page = [user_of(account) for account in found[:limit]]
        return Listing(page, page[-1].id if len(found) > limit else None)

    @post(needs="owner", request_max_body_size=10_000)
    async def invite_user(
        self, services: FromServices, request: Request[Any, Any, Any], data: JSONBody[Invitation]
    ) -> Response[InvitedUser]:
        """Make an account and the link with which its owner chooses a password (once, within 72 hours)."""
        account, code = _refused(lambda: account_store(services).invite(data.name, data.role))
        user = user_of(account)
        _changed(user.id, AuditChange(f"users/{user.id}", "role", None, f"{user.role} {user.name}"))
        headers = {"Location": f"/api/v1/users/{user.id}"}
        return Response(InvitedUser(user, join_link(services, request, code)), status_code=201, headers=headers)

    @get("/me", needs="signed_in")
    async def get_me(self) -> Me:
        """Return who makes this call, and what they may do."""
        caller = the_caller()
        prefix = {"account": "u", "token": "t"}.get(caller.kind, "")
        return Me(caller.kind, caller.name, caller.role, f"{prefix}{caller.id}" if caller.id is not None else None)

    @post("/me/password", needs="signed_in", status_code=200)
    async def change_password(self, services: FromServices, data: JSONBody[PasswordChange]) -> Response[SignedOut]:
        """Change one's own password; every session ends, this one goes on under a new key."""
        ended = await change_own_password(services, the_call(), data.current, data.new)
        answer = Response(SignedOut(ended))
        answer.cookies.append(session_cookie(session_store(services), session_store(services).open(the_caller().id)))
        return answer

    @post("/me/sign-out", needs="signed_in", status_code=200)
    async def sign_out_everywhere(self, services: FromServices) -> SignedOut:
        """End every session of one's own, this one too."""
        caller = the_caller()
        if caller.kind == "token":
            raise Problem(409, "no_sessions", "A token has no sessions; revoke it instead.")
        the_call().changed("sessions")
        return SignedOut(session_store(services).end_all(caller.id))

    @get("/{id:str}", needs="owner", tagged=True)
    async def get_user(self, services: FromServices, user_id: Id) -> Response[User]:
        """Return one account."""
        return _tagged(user_of(_account(services, user_id)))

    @patch("/{id:str}", needs="owner", tagged=True)
    async def patch_user(
        self, services: FromServices, user_id: Id, data: Annotated[UserChange, Body(media_type=MERGE_PATCH)]
    ) -> Response[User]:
        """Give an account another role, or disable it; its sessions end."""
        account = _account(services, user_id)
        before = user_of(account)
        require_match(tag_of(before))
        role = before.role if data.role is msgspec.UNSET else data.role
        disabled = before.disabled if data.disabled is msgspec.UNSET else data.disabled
        after = user_of(_refused(lambda: account_store(services).change(account.id, role, disabled)))
        if (before.role, before.disabled) != (after.role, after.disabled):
            session_store(services).end_all(account.id)
        fields = (("role", before.role, after.role), ("disabled", before.disabled, after.disabled))
        _changed(before.id, *(AuditChange(f"users/{before.id}", *field) for field in fields if field[1] != field[2]))
        return _tagged(after)

    @post("/{id:str}/invite", needs="owner", status_code=200)
    async def invite_user_again(
        self, services: FromServices, request: Request[Any, Any, Any], user_id: Id
    ) -> InvitedUser:
        """Make a new link for an account, also for one whose password is forgotten; the last one is worth nothing."""
        account = _account(services, user_id)
        code = account_store(services).invite_again(account.id)
        _changed(user_id)
        return InvitedUser(user_of(_account(services, user_id)), join_link(services, request, code))

    @delete("/{id:str}", needs="owner", tagged=True)
    async def remove_user(self, services: FromServices, user_id: Id) -> None:
        """Take an account away; its sessions end, what it did stays on the record."""
        account = _account(services, user_id)
        require_match(tag_of(user_of(account)))
        _refused(lambda: account_store(services).remove(account.id))
        session_store(services).end_all(account.id)
        _changed(user_id, AuditChange(f"users/{user_id}", "role", f"{account.role} {account.name}", None))


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


SESSION = "session"
"""In place of the address: who is signed in is not kept waiting by strangers' tries from the same one."""


async def change_own_password(services: Services, call: Call, current: str, new: str) -> int:
    """Put the new password in force and end every session of the account; say how many those were.

    Raise Problem when that cannot be.
    """
    caller = call.caller
    if caller is None or caller.kind != "account" or caller.id is None:
        raise Problem(409, "no_password", "Only an account has a password; you came with a token.")
    wait_seconds = login_throttle(services).begin(SESSION, caller.name)
    if wait_seconds is not None:
        raise Problem(429, "too_many_requests", "Too many wrong passwords; wait.", headers=_after(wait_seconds))
    found = account_store(services).credentials_of(caller.id)
    try:
        right = await password_hasher(services).matches(current, None if found is None else found.password_hash)
    except TooManyWaiting:
        login_throttle(services).not_tried(SESSION, caller.name)
        raise Problem(503, "unavailable", "Many sign in right now; try again in a moment.") from None
    if not right:
        raise Problem(
            403, "wrong_password", "That is not your password.", [FieldError("/current", "That is not your password.")]
        )
    login_throttle(services).succeeded(SESSION, caller.name)
    refusal = refusal_of(new, caller.name)
    if refusal is not None:
        raise Problem(422, "weak_password", refusal, [FieldError("/new", refusal)])
    account_store(services).set_password(caller.id, await password_hasher(services).hash(new))
    call.changed(f"users/u{caller.id}")
    return session_store(services).end_all(caller.id)


def _after(seconds: int) -> dict[str, str]:
    return {"Retry-After": str(seconds)}


EXPIRES_DAYS_MAX = 3_650
STATUS_OF_TOKEN_ERROR = {"already_exists": 409, "too_many": 422}


class TokenView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One token without its text; ``hint`` is how it ends. An expired one stays listed until it is revoked."""

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
    """A token to create: its purpose, its role (``read``, ``write``, ``admin``), and how long it is good (such as
    ``90d``).
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    scope: Scope = "read"
    expires_in: str | None = None


class CreatedToken(msgspec.Struct, frozen=True):
    """The new token; ``text`` is what to send (Authorization: Bearer TEXT), shown this once."""

    token: TokenView
    text: str


class TokensApi(Controller):
    """Made and revoked, never changed."""

    path = "/tokens"

    @get(needs="owner")
    async def list_tokens(self, services: FromServices, limit: Limit = 50, after: After = None) -> Listing[TokenView]:
        """List the tokens in the order they were made."""
        found = token_store(services).page(limit + 1, number_after(after, "t") or 0)
        page = [token_view_of(services, token) for token in found[:limit]]
        return Listing(page, page[-1].id if len(found) > limit else None)

    @post(needs="owner", request_max_body_size=10_000)
    async def create_token(self, services: FromServices, data: JSONBody[NewToken]) -> Response[CreatedToken]:
        """Make a token; its text is in this answer and nowhere else."""
        if not data.name.isprintable():
            raise Problem(422, "invalid_object", "A name is printable.", [FieldError("/name", "not printable")])
        expires_at = None if data.expires_in is None else _time_after(data.expires_in)
        try:
            token, text = token_store(services).create(data.name.strip(), data.scope, expires_at, current_author())
        except TokenError as error:
            status = STATUS_OF_TOKEN_ERROR[error.code]
            raise Problem(status, error.code, str(error), [FieldError("/name", str(error))]) from None
        view = token_view_of(services, token)
        the_call().changed(f"tokens/{view.id}", AuditChange(f"tokens/{view.id}", "scope", None, _told(view)))
        headers = {"Location": f"/api/v1/tokens/{view.id}"}
        return Response(CreatedToken(view, text), status_code=201, headers=headers)

    @get("/{id:str}", needs="owner")
    async def get_token(self, services: FromServices, token_id: Id) -> TokenView:
        """Return one token."""
        return token_view_of(services, _token(services, token_id))

    @delete("/{id:str}", needs="owner")
    async def revoke_token(self, services: FromServices, token_id: Id) -> None:
        """Revoke a token: it opens nothing from now on."""
        token = _token(services, token_id)
        token_store(services).revoke(token.id)
        told = _told(token_view_of(services, token))
        the_call().changed(f"tokens/{token_id}", AuditChange(f"tokens/{token_id}", "scope", told, None))


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


def _told(view: TokenView) -> str:
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
