"""Telling who calls from what a request brings: a bearer token, else the session cookie."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from hookline.features.accounts.admin_token import AdminToken
from hookline.features.accounts.roles import ROLE_OF_SCOPE
from hookline.features.accounts.sessions import Session, Sessions
from hookline.features.accounts.tokens import Tokens
from hookline.features.audit.audit_log import AuditLog
from hookline.api.caller import ADMIN_TOKEN, Caller
from hookline.settings import Settings

SIGN_IN = "Send a token (Authorization: Bearer TOKEN), or sign in."


class Doors(Protocol):
    """What tells who may come in: a part of the services, which know of calls themselves."""

    settings: Settings
    token: AdminToken
    tokens: Tokens
    sessions: Sessions
    audit: AuditLog


class Identity(NamedTuple):
    """The caller, or a sentence on why nobody is known to call."""

    caller: Caller | None
    refusal: str = SIGN_IN


def identify(doors: Doors, authorization: str, session_key: str | None, address: str, request_id: str) -> Identity:
    """Say who calls. A bearer token that is not good is not made up for by a cookie."""
    scheme, _space, presented = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return _of_token(doors, presented.strip(), address, request_id)
    session = doors.sessions.find(session_key)
    return Identity(None if session is None else caller_of(session))


def caller_of(session: Session) -> Caller:
    """Return whose session it is."""
    if session.account is None:
        return Caller("admin_token", ADMIN_TOKEN, "owner", session=True)
    return Caller("account", session.name or "", session.role, session.account, session=True)


def _of_token(doors: Doors, text: str, address: str, request_id: str) -> Identity:
    if doors.token.matches(text):
        return Identity(Caller("admin_token", ADMIN_TOKEN, "owner"))
    token = doors.tokens.find(text)
    if token is None:
        return Identity(None, "This is neither the admin token nor a token in force.")
    caller = Caller("token", token.name, ROLE_OF_SCOPE[token.scope], token.id)
    noted = doors.tokens.note_use(token)
    if not doors.tokens.has_expired(token):
        return Identity(caller)
    if noted:  # else it was written down a moment ago
        doors.audit.record(caller, "use_expired_token", f"tokens/t{token.id}", address, request_id)
    return Identity(None, f"The token {token.name!r} has expired; make a new one.")
