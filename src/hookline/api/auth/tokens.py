"""The API tokens in ``control.db``: only a digest is kept, and the last four characters to tell them apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

from hookline.api.caller import Scope, is_token, new_token
from hookline.database.connect import Shared
from hookline.database.sqlite import IntegrityError

TOKENS_MAX = 1_000
HINT_CHARACTERS = 4
NOTED_EVERY_MS = 60_000
"""Use is written down at most so often: each time is a write to the disk."""

_COLUMNS = "id, name, scope, hint, created_at, created_by, expires_at, last_used_at"


class TokenError(Exception):
    """The token cannot be made; ``code`` says why to programs."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Token(NamedTuple):
    """One token without its text; times are milliseconds since the epoch."""

    id: int
    name: str
    scope: Scope
    hint: str
    created_at: int
    created_by: str
    expires_at: int | None
    last_used_at: int | None


class Tokens:
    """Makes, recognises and revokes tokens."""

    def __init__(self, database: Shared, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._database = database
        self._now_ms = now_ms

    def page(self, limit: int, after_id: int = 0) -> list[Token]:
        """At most ``limit`` tokens after one, in the order they were made."""
        query = f"SELECT {_COLUMNS} FROM tokens WHERE id > ? ORDER BY id LIMIT ?"
        return [Token(*row) for row in self._database.rows(query, (after_id, limit))]

    def get(self, id: int) -> Token | None:
        """Return the token with this id."""
        row = self._database.row(f"SELECT {_COLUMNS} FROM tokens WHERE id = ?", (id,))
        return None if row is None else Token(*row)

    def create(self, name: str, scope: Scope, expires_at: int | None, author: str) -> tuple[Token, str]:
        """Make a token and return it with its text, which is kept nowhere; raise TokenError."""
        text = new_token(scope)
        values: tuple[Any, ...] = (name, scope, _digest(text), text[-HINT_CHARACTERS:], self._now_ms(), author)
        try:
            with self._database.transaction() as execute:
                ((count,),) = execute("SELECT count(*) FROM tokens").fetchall()
                if count >= TOKENS_MAX:
                    raise TokenError("too_many", f"There are {TOKENS_MAX} tokens. Revoke unused ones first.")
                (row,) = execute(
                    "INSERT INTO tokens (name, scope, digest, hint, created_at, created_by, expires_at)"
                    f" VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING {_COLUMNS}",
                    (*values, expires_at),
                ).fetchall()
        except IntegrityError:
            raise TokenError("already_exists", f"There is a token called {name!r} already.") from None
        return Token(*row), text

    def find(self, text: str) -> Token | None:
        """Return the token with this text, expired or not."""
        if not is_token(text):
            return None
        # By digest: how long the look-up takes tells nothing of what is stored.
        row = self._database.row(f"SELECT {_COLUMNS} FROM tokens WHERE digest = ?", (_digest(text),))
        return None if row is None else Token(*row)

    def has_expired(self, token: Token) -> bool:
        """Return whether its time is over."""
        return token.expires_at is not None and token.expires_at <= self._now_ms()

    def note_use(self, token: Token) -> bool:
        """Write down that it was used, False when it was not, as after a moment."""
        now = self._now_ms()
        if token.last_used_at is not None and now - token.last_used_at < NOTED_EVERY_MS:
            return False
        return self._database.note(("UPDATE tokens SET last_used_at = ? WHERE id = ?", (now, token.id)))

    def revoke(self, id: int) -> None:
        """Take a token away; it opens nothing from now on."""
        with self._database.transaction() as execute:
            execute("DELETE FROM tokens WHERE id = ?", (id,))


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()
