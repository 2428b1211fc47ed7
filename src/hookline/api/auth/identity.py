"""Telling who calls from what a request brings: a bearer token, else the session cookie."""

from __future__ import annotations

from typing import NamedTuple

from hookline.api.audit.log import audit_log
from hookline.api.auth.service import admin_token, session_store, token_store
from hookline.api.auth.sessions import Session
from hookline.api.caller import ADMIN_TOKEN, ROLE_OF_SCOPE, Caller
from hookline.api.services import Services

SIGN_IN = "Send a token (Authorization: Bearer TOKEN), or sign in."


class Identity(NamedTuple):
    """The caller, or a sentence on why nobody is known to call."""

    caller: Caller | None
    refusal: str = SIGN_IN


def identify(
    services: Services,
    authorization: str,
    session_key: str | None,
    address: str,
    request_id: str,
    *,
    is_own_action: bool,
) -> Identity:
    """Say who calls. A bearer token that is not good is not made up for by a cookie. A session is used by what a person
    does (``is_own_action``), not by what an open page asks by itself."""
    scheme, _space, presented = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return _of_token(services, presented.strip(), address, request_id)
    session = session_store(services).find(session_key, in_use=is_own_action)
    return Identity(None if session is None else caller_of(session))


def caller_of(session: Session) -> Caller:
    """Return whose session it is."""
    if session.account is None:
        return Caller("admin_token", ADMIN_TOKEN, "owner", session=True)
    return Caller("account", session.name or "", session.role, session.account, session=True)


def _of_token(services: Services, text: str, address: str, request_id: str) -> Identity:
    if admin_token(services).matches(text):
        return Identity(Caller("admin_token", ADMIN_TOKEN, "owner"))
    token = token_store(services).find(text)
    if token is None:
        return Identity(None, "This is neither the admin token nor a valid token.")
    caller = Caller("token", token.name, ROLE_OF_SCOPE[token.scope], token.id)
    noted = token_store(services).note_use(token)
    if not token_store(services).has_expired(token):
        return Identity(caller)
    if noted:  # else it was written down a moment ago
        audit_log(services).record(caller, "use_expired_token", f"tokens/t{token.id}", address, request_id)
    return Identity(None, f"The token {token.name!r} has expired; create a new one.")
