"""Passwords as argon2id hashes (RFC 9106), checked one at a time: a check takes 19 MB and some tens of milliseconds."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argon2 import PasswordHasher

CHARACTERS_MIN = 12
CHARACTERS_MAX = 256
MEMORY_KIB = 19_456
ROUNDS = 3
"""More than the least that OWASP asks for (2 with this memory); the memory is what the control role can spare."""
WAITING_MAX = 20


class TooManyWaiting(Exception):
    """So many passwords wait to be checked that another one is not taken on."""


class Passwords:
    """Hashes and checks; who is not known costs as much time as who is."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._nobody: str | None = None

    async def hash(self, password: str) -> str:
        """Return the hash to store."""
        async with self._turn:
            return await asyncio.to_thread(_hasher().hash, password)

    async def matches(self, password: str, stored: str | None, others_first: bool = False) -> bool:
        """Return whether it is the password of this hash; with None the same work is done for nothing.

        Raise TooManyWaiting rather than let the queue grow, or where others go first and somebody waits.
        """
        if self._waiting >= (1 if others_first else WAITING_MAX):
            raise TooManyWaiting
        self._waiting += 1
        try:
            async with self._turn:
                matched = await asyncio.to_thread(self._verify, password, stored)
        finally:
            self._waiting -= 1
        return matched and stored is not None

    def _verify(self, password: str, stored: str | None) -> bool:
        from argon2.exceptions import InvalidHashError, VerificationError

        if self._nobody is None:  # at the first check of all, whoever it is for
            self._nobody = _hasher().hash(secrets.token_urlsafe(32))
        try:
            return _hasher().verify(stored or self._nobody, password)
        except (VerificationError, InvalidHashError):
            return False


def refusal_of(password: str, account: str) -> str | None:
    """Return why it cannot be a password for this account, None when it can."""
    if len(password) < CHARACTERS_MIN:
        return f"Use at least {CHARACTERS_MIN} characters; a few words in a row are easy to keep in mind."
    if len(password) > CHARACTERS_MAX:
        return f"Use at most {CHARACTERS_MAX} characters."
    if password.casefold() == account.casefold() or len(set(password)) < 5:
        return "That is too easy to guess; use a few words in a row."
    return None


def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher  # here: only who signs in with an account pays for it

    return PasswordHasher(time_cost=ROUNDS, memory_cost=MEMORY_KIB, parallelism=1)
