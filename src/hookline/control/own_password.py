"""Changing one's own password, which takes the one in force: a browser left open is not enough."""

from __future__ import annotations

from hookline.control.call import Call
from hookline.control.people.passwords import TooManyWaiting, refusal_of
from hookline.control.problem import FieldError, Problem
from hookline.control.services import Services

SESSION = "session"
"""In place of the address: who is signed in is not kept waiting by strangers' tries from the same one."""


async def change_own_password(services: Services, call: Call, current: str, new: str) -> int:
    """Put the new password in force and end every session of the account; say how many those were.

    Raise Problem when that cannot be.
    """
    caller = call.caller
    if caller is None or caller.kind != "account" or caller.id is None:
        raise Problem(409, "no_password", "Only an account has a password; you came with a token.")
    wait_seconds = services.throttle.begin(SESSION, caller.name)
    if wait_seconds is not None:
        raise Problem(429, "too_many_requests", "Too many wrong passwords; wait.", headers=_after(wait_seconds))
    found = services.accounts.credentials_of(caller.id)
    try:
        right = await services.passwords.matches(current, None if found is None else found.password_hash)
    except TooManyWaiting:
        services.throttle.not_tried(SESSION, caller.name)
        raise Problem(503, "unavailable", "Many sign in right now; try again in a moment.") from None
    if not right:
        raise Problem(
            403, "wrong_password", "That is not your password.", [FieldError("/current", "That is not your password.")]
        )
    services.throttle.succeeded(SESSION, caller.name)
    refusal = refusal_of(new, caller.name)
    if refusal is not None:
        raise Problem(422, "weak_password", refusal, [FieldError("/new", refusal)])
    services.accounts.set_password(caller.id, await services.passwords.hash(new))
    call.changed(f"users/u{caller.id}")
    return services.sessions.close_all(caller.id)


def _after(seconds: int) -> dict[str, str]:
    return {"Retry-After": str(seconds)}
