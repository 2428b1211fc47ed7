"""The suppression list in ``privacy.db``: whose events are not stored, by keyed hash. Control is the one writer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from hookline.privacy.id_digest import IdDigests
from hookline.privacy.store import PrivacyStore
from hookline.privacy.suppression_feed import CHANGES

SUPPRESSED_MAX = 1_000_000
"""Ids on the list; collect holds them in memory, about 100 bytes each."""


class Suppression(NamedTuple):
    """One id on the list: since when, and who wanted it, by which request if by one."""

    digest: bytes
    at_ms: int
    author: str
    request: int | None


class TooManySuppressed(Exception):
    """The list is full."""

    code = "too_many_suppressed"

    def __init__(self) -> None:
        super().__init__(f"at most {SUPPRESSED_MAX:,} ids can be suppressed; lift some first")


class Suppressions:
    """Adds, lifts and lists; safe to share between threads."""

    def __init__(
        self, store: PrivacyStore, of: IdDigests, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        self._store = store
        self._of = of
        self._now_ms = now_ms

    def add(self, execute: Callable[..., Any], ids: Iterable[str], author: str, request: int) -> None:
        """Suppress ids in a transaction of the caller's, who tells of the change; raise TooManySuppressed."""
        now_ms = self._now_ms()
        for id in ids:
            execute(
                "INSERT INTO suppressions (digest, at, author, request) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (self._of.of(id), now_ms, author, request),
            )
        ((count,),) = execute("SELECT count(*) FROM suppressions").fetchall()
        if count > SUPPRESSED_MAX:
            raise TooManySuppressed

    def lift(self, digests: Iterable[bytes]) -> int:
        """Store the events of these again from now on; return how many were on the list."""
        lifted = 0
        with self._store.change(CHANGES) as execute:
            for digest in digests:
                lifted += execute("DELETE FROM suppressions WHERE digest = ?", (digest,)).rowcount
        return lifted

    def get(self, digest: bytes) -> Suppression | None:
        """Return the one with this hash."""
        row = self._store.database.row(
            "SELECT digest, at, author, request FROM suppressions WHERE digest = ?", (digest,)
        )
        return None if row is None else Suppression(*row)

    def page(self, limit: int, before: tuple[int, bytes] | None = None) -> list[Suppression]:
        """At most so many, newest first, older than one by (at, digest)."""
        at, digest = before or (1 << 62, b"")
        rows = self._store.database.rows(
            "SELECT digest, at, author, request FROM suppressions WHERE (at, digest) < (?, ?)"
            " ORDER BY at DESC, digest DESC LIMIT ?",
            (at, digest, limit),
        )
        return [Suppression(*row) for row in rows]

    def count(self) -> int:
        """Return how many ids are on the list."""
        row = self._store.database.row("SELECT count(*) FROM suppressions")
        return int(row[0]) if row else 0
