"""Who is signed in, and the cookie that shows it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from hookline.api.caller import Role
from hookline.database.connect import Shared

IDLE_MS = 12 * 3_600_000
LIFETIME_MS = 7 * 86_400_000
SESSIONS_PER_ACCOUNT_MAX = 100
"""Of each account by itself: whoever signs in again and again must not sign out everybody else."""
NOTED_EVERY_MS = 60_000
"""Use is written down at most so often: each time is a write to the disk."""

AGENT_CHARACTERS_MAX = 300
_KEY_BYTES = 32
_ID_CHARACTERS = 16
_SEEN = "UPDATE accounts SET last_seen_at = ? WHERE id = ?"


class Session(NamedTuple):
    """An open session; without an account it is of who held the admin token or the one-time link."""

    account: int | None
    name: str | None
    role: Role


Reason = Literal["revoked", "password", "account", "signed_out"]
"""Why a session was ended; without one it was unused for too long, or too old."""


class OpenSession(NamedTuple):
    """One that is in force, as its owner sees it. ``id`` names it and opens nothing; times are milliseconds."""

    id: str
    opened_at: int
    used_at: int
    address: str
    agent: str
    is_this: bool


class Sessions:
    """Opens, recognises and closes sessions by the key that the browser keeps in its cookie."""

    def __init__(
        self,
        database: Shared,
        admin_token: bytes,
        secure: bool,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        # Only over TLS does a browser accept the prefix that pins a cookie to this very host.
        self.cookie_name = "__Host-hookline" if secure else "hookline_session"
        self.secure = secure
        self._database = database
        self._admin_token = admin_token
        self._now_ms = now_ms

    def open(self, account: int | None = None, address: str = "", agent: str = "") -> str:
        """Start a session; its key is always new, so one planted before signing in is worth nothing.

        Without an account it lasts no longer than the admin token in force. ``address`` and ``agent`` (what the browser
        calls itself) are kept for whoever looks at their sessions.
        """
        now, key = self._now_ms(), secrets.token_urlsafe(_KEY_BYTES)
        token = self._admin_token if account is None else None
        with self._database.transaction() as execute:
            execute("DELETE FROM sessions WHERE used_at < ? OR opened_at < ?", (now - IDLE_MS, now - LIFETIME_MS))
            execute("DELETE FROM ended_sessions WHERE ended_at < ?", (now - LIFETIME_MS,))
            execute(
                "DELETE FROM sessions WHERE account IS NOT DISTINCT FROM ?1 AND digest NOT IN (SELECT digest"
                " FROM sessions WHERE account IS NOT DISTINCT FROM ?1 ORDER BY used_at DESC LIMIT ?2)",
                (account, SESSIONS_PER_ACCOUNT_MAX - 1),
            )
            execute(
                "INSERT INTO sessions (digest, account, admin_token, opened_at, used_at, address, agent)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (_digest(key), account, token, now, now, address, agent[:AGENT_CHARACTERS_MAX]),
            )
            execute(_SEEN, (now, account))
        return key

    def find(self, key: str | None, in_use: bool = True) -> Session | None:
        """Return the session that the key belongs to, if it is in force; its use keeps it from idling out."""
        if not key:
            return None
        digest, now = _digest(key), self._now_ms()
        row = self._database.row(
            "SELECT s.account, s.admin_token, s.opened_at, s.used_at, a.name, a.role, a.disabled_at"
            " FROM sessions s LEFT JOIN accounts a ON a.id = s.account WHERE s.digest = ?",
            (digest,),
        )
        if row is None:
            return None
        account, token, opened_at, used_at, name, role, disabled_at = row
        lost = role is None or disabled_at is not None if account is not None else token != self._admin_token
        if lost or now - opened_at > LIFETIME_MS or now - used_at > IDLE_MS:
            self._database.note(_end_of(key))
            return None
        if in_use and now - used_at > NOTED_EVERY_MS:
            self._database.note(
                ("UPDATE sessions SET used_at = ? WHERE digest = ?", (now, digest)),
                (_SEEN, (now, account)),
            )
        return Session(account, name, role or "owner")

    def is_open(self, key: str | None) -> bool:
        """Return whether the key belongs to a session in force."""
        return self.find(key) is not None

    def end(self, key: str | None) -> None:
        """End the session of this key, if there is one."""
        if key:
            with self._database.transaction() as execute:
                execute(*_end_of(key))

    def of(self, account: int | None, key: str | None = None) -> list[OpenSession]:
        """Return the sessions of an account (None: of the admin token) that are in force, the last used first; ``key``
        is that of who asks."""
        now, mine = self._now_ms(), _digest(key) if key else b""
        rows = self._database.rows(
            "SELECT digest, opened_at, used_at, address, agent FROM sessions WHERE account IS NOT DISTINCT FROM ?"
            " AND used_at >= ? AND opened_at >= ? AND (account IS NOT NULL OR admin_token = ?) ORDER BY used_at DESC",
            (account, now - IDLE_MS, now - LIFETIME_MS, self._admin_token),
        )
        return [
            OpenSession(_id_of(digest), opened_at, used_at, address or "", agent or "", bytes(digest) == mine)
            for digest, opened_at, used_at, address, agent in rows
        ]

    def end_one(self, account: int | None, id: str, reason: Reason) -> bool:
        """End the session of an account that has this id; return whether there is one."""
        with self._database.transaction() as execute:
            rows = execute("SELECT digest FROM sessions WHERE account IS NOT DISTINCT FROM ?", (account,)).fetchall()
            found = next((bytes(digest) for (digest,) in rows if _id_of(digest) == id), None)
            if found is None:
                return False
            execute("DELETE FROM sessions WHERE digest = ?", (found,))
            self._remember(execute, [found], reason)
            return True

    def end_all(self, account: int | None, reason: Reason = "revoked", but: str | None = None) -> int:
        """End every session of an account (None: of the admin token) but that of the key ``but``, and say how many
        those were."""
        kept = _digest(but) if but else b""
        with self._database.transaction() as execute:
            rows = execute("SELECT digest FROM sessions WHERE account IS NOT DISTINCT FROM ?", (account,)).fetchall()
            ended = [bytes(digest) for (digest,) in rows if bytes(digest) != kept]
            for digest in ended:
                execute("DELETE FROM sessions WHERE digest = ?", (digest,))
            self._remember(execute, ended, reason)
            return len(ended)

    def why_ended(self, key: str) -> str | None:
        """Return why the session of a key ended; None where it ran out, or never was."""
        row = self._database.row("SELECT reason FROM ended_sessions WHERE digest = ?", (_digest(key),))
        return None if row is None else str(row[0])

    def _remember(self, execute: Callable[..., Any], digests: Sequence[bytes], reason: Reason) -> None:
        for digest in digests:
            execute(
                "INSERT INTO ended_sessions (digest, reason, ended_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (digest, reason, self._now_ms()),
            )


def _end_of(key: str) -> tuple[str, tuple[bytes]]:
    return "DELETE FROM sessions WHERE digest = ?", (_digest(key),)


def _id_of(digest: bytes) -> str:
    return bytes(digest).hex()[:_ID_CHARACTERS]


def _digest(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogatepass")).digest()
