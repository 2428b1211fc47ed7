"""The cookie that holds a session's key."""

from __future__ import annotations

from litestar.datastructures import Cookie

from hookline.control.people.sessions import LIFETIME_MS, Sessions


def session_cookie(sessions: Sessions, key: str) -> Cookie:
    """Return the cookie that no script sees and no other site sends; with an empty key the browser forgets it."""
    return Cookie(
        key=sessions.cookie_name,
        value=key,
        max_age=LIFETIME_MS // 1000 if key else 0,
        path="/",
        secure=sessions.secure,
        httponly=True,
        samesite="strict",
    )
