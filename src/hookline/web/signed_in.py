"""What the forms share that open a session: they are read within bounds, and the session's key is always new."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from litestar import Request, Response
from litestar.exceptions import InternalServerException

from hookline.control.accounts.accounts import Account
from hookline.control.accounts.sessions import session_cookie
from hookline.control.http.call import the_call
from hookline.control.http.caller import ADMIN_TOKEN, Caller
from hookline.control.http.problem import CODES, Problem
from hookline.control.services import Services

FORM_BYTES_MAX = 8 * 1024
"""Anybody may send one of these: it is no larger than a name, a password and an address in the longest spelling."""
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
    call, sessions = the_call(), services.sessions
    sessions.close(call.session_key)
    answer.cookies.append(session_cookie(sessions, sessions.open(caller.id)))
    services.own_metrics.sign_ins["succeeded"] += 1
    target = "sessions" if caller.id is None else f"users/u{caller.id}"
    services.audit.record(caller, action, target, call.address, call.id)
    return answer


def owner_by_token() -> Caller:
    """Return who holds the admin token, or a one-time link."""
    return Caller("admin_token", ADMIN_TOKEN, "owner")


def person(account: Account) -> Caller:
    """Return who has an account."""
    return Caller("account", account.name, account.role, account.id)
