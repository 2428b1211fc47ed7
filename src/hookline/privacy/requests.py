"""The deletion requests in ``privacy.db``. Control is the one writer; a step and its result are one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from hookline.privacy.id_digest import IdDigests
from hookline.privacy.model import Action, DeletionRequest, Person
from hookline.privacy.store import PrivacyStore
from hookline.privacy.suppression_feed import CHANGES as SUPPRESSIONS
from hookline.privacy.suppressions import Suppressions

OPEN_MAX = 1_000
_COLUMNS = (
    "id, at, author, action, state, updated_at, done_at,"
    " (SELECT count(*) FROM deletion_people WHERE request = deletion_requests.id)"
)


class TooManyRequests(Exception):
    """So many requests are under way that another one has to wait."""

    code = "too_many_deletion_requests"

    def __init__(self) -> None:
        super().__init__(f"{OPEN_MAX} deletion requests are under way; wait for some of them")


class Requests:
    """Takes requests and notes how far they have come; safe to share between threads."""

    def __init__(
        self,
        store: PrivacyStore,
        of: IdDigests,
        suppressions: Suppressions,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._store = store
        self._of = of
        self._suppressions = suppressions
        self._now_ms = now_ms

    def create(self, ids: Sequence[str], action: Action, author: str) -> DeletionRequest:
        """Take a request; whom it suppresses is on the list with it. Raise TooManyRequests, TooManySuppressed."""
        now_ms = self._now_ms()
        with self._store.change(SUPPRESSIONS) as execute:
            ((under_way,),) = execute("SELECT count(*) FROM deletion_requests WHERE state <> 'done'").fetchall()
            if under_way >= OPEN_MAX:
                raise TooManyRequests
            number = execute(
                "INSERT INTO deletion_requests (at, author, action, state, updated_at)"
                " VALUES (?1, ?2, ?3, 'looking', ?1)",
                (now_ms, author, action),
            ).lastrowid
            for place, id in enumerate(ids):
                execute(
                    "INSERT INTO deletion_people (request, number, digest, user_id, identity_count, events)"
                    " VALUES (?, ?, ?, ?, 0, 0)",
                    (number, place, self._of.of(id), id),
                )
            self._suppressions.add(execute, ids, author, number)
        made = self.get(number)
        assert made is not None
        return made

    def get(self, number: int) -> DeletionRequest | None:
        """One request."""
        row = self._store.database.row(f"SELECT {_COLUMNS} FROM deletion_requests WHERE id = ?", (number,))
        return None if row is None else DeletionRequest(*row)

    def newest(self, limit: int, before: int | None = None, user_id: str | None = None) -> list[DeletionRequest]:
        """At most so many, newest first, older than one: all, or those that name a user."""
        digest = None if user_id is None else self._of.of(user_id)
        rows = self._store.database.rows(
            f"SELECT {_COLUMNS} FROM deletion_requests WHERE id < ?1 AND (?2 IS NULL OR id IN"
            " (SELECT request FROM deletion_people WHERE digest = ?2)) ORDER BY id DESC LIMIT ?3",
            (before or 1 << 62, digest, limit),
        )
        return [DeletionRequest(*row) for row in rows]

    def under_way(self) -> list[DeletionRequest]:
        """The requests that are not done, oldest first."""
        rows = self._store.database.rows(
            f"SELECT {_COLUMNS} FROM deletion_requests WHERE state <> 'done' ORDER BY id LIMIT ?", (OPEN_MAX,)
        )
        return [DeletionRequest(*row) for row in rows]

    def people(self, number: int) -> list[Person]:
        """The people of a request in the order in which they were given."""
        rows = self._store.database.rows(
            "SELECT number, digest, user_id, identities, identity_count, events FROM deletion_people"
            " WHERE request = ? ORDER BY number",
            (number,),
        )
        return [
            Person(number, digest, user_id, _ids(identities), count, events)
            for number, digest, user_id, identities, count, events in rows
        ]

    def suppress_found(self, number: int, author: str, identities: Sequence[Sequence[str]]) -> None:
        """The look-up is done and nothing is to be deleted: every identity is suppressed, and no id is kept."""
        now_ms = self._now_ms()
        with self._store.change(SUPPRESSIONS) as execute:
            for place, ids in enumerate(identities):
                self._suppressions.add(execute, ids, author, number)
                execute(
                    "UPDATE deletion_people SET user_id = NULL, identities = NULL, identity_count = ?"
                    " WHERE request = ? AND number = ?",
                    (len(ids), number, place),
                )
            execute(
                "UPDATE deletion_requests SET state = 'done', updated_at = ?1, done_at = ?1 WHERE id = ?2",
                (now_ms, number),
            )
        self._store.empty_log()


def _ids(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else msgspec.json.decode(text, type=tuple[str, ...])
