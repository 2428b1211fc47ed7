"""``/api/v1/tokens``: what programs call the API with; a token's text is in the answer that makes it only."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from litestar import Controller, Response, delete, get, post
from litestar.params import JSONBody

from hookline.api.audit.entry import AuditChange
from hookline.api.auth.roles import Scope
from hookline.api.auth.service import token_store
from hookline.api.auth.tokens import Token, TokenError
from hookline.api.calls import current_author, the_call
from hookline.api.listing import After, Id, Limit, Listing, id_number, number_after
from hookline.api.problem import FieldError, Problem, not_found
from hookline.api.services import FromServices, Services
from hookline.events.timestamps import iso
from hookline.settings import parse_duration

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
    """What the token is for, what it may do (``read``, ``write``, ``admin``), and how long (such as ``90d``)."""

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
