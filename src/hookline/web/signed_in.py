"""Opening a session: under a key that is always new, on the record."""

from __future__ import annotations

from litestar import Response

from hookline.control.call import the_call
from hookline.control.services import Services
from hookline.control.session_cookie import session_cookie


def signed_in(answer: Response[str], services: Services, account: int | None, name: str, action: str) -> Response[str]:
    """The answer with the cookie of a new session; the one that the browser came with ends."""
    call, sessions = the_call(), services.sessions
    sessions.close(call.session_key)
    answer.cookies.append(session_cookie(sessions, sessions.open(account)))
    services.own_metrics.sign_ins["succeeded"] += 1
    services.audit.record(name, action, "sessions" if account is None else f"users/u{account}", call.address, call.id)
    return answer
