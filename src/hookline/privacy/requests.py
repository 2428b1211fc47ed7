"""The deletion requests in ``privacy.db``. Control is the one writer; a step and its result are one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from hookline.journal.record import SYNC_SOURCE
from hookline.privacy import identities
from hookline.privacy.id_digest import IdDigests
from hookline.privacy.identities import Identities
from hookline.privacy.model import Action, DeletionRequest, Erased, Person, Receipt, State, add_receipts
from hookline.privacy.search import SearchResult
from hookline.privacy.shared_erased import CHANGES as ERASURES
from hookline.privacy.suppressions import CHANGES as SUPPRESSIONS
from hookline.privacy.suppressions import LogNotEmptied, PrivacyStore, Suppressions
from hookline.replays.offset_set import OffsetSet, decode_offset_sets, encode_offset_sets
from hookline.telemetry.crashpoints import crash_point

Planned = tuple[int, str, int, tuple[str, ...]]
"""A delete message to be sent: person, affected source, how many events it has of them, enabled destinations."""

NOTHING_SENT = "filtered"
DISABLED = (
    "this destination is disabled, so what Hookline wrote there was not searched. Enable it and repeat the request, or"
    " delete the person there by hand"
)

OPEN_MAX = 1_000
"""Requests that are being carried out, one after the other."""
WAITING_MAX = 20_000
"""Requests that only wait for receivers, for up to 30 days: one receiver that is down must not end all others."""
_COLUMNS = (
    "id, at, author, action, state, updated_at, done_at,"
    " (SELECT count(*) FROM deletion_people WHERE request = deletion_requests.id), round"
)


class TooManyRequests(Exception):
    """So many requests are under way that another one has to wait; the message says what for."""

    code = "too_many_deletion_requests"


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
            counts = "SELECT count(*), count(CASE WHEN state = 'waiting' THEN 1 END) FROM deletion_requests"
            ((under_way, waiting),) = execute(f"{counts} WHERE state <> 'done'").fetchall()
            if under_way - waiting >= OPEN_MAX:
                raise TooManyRequests(f"{OPEN_MAX} deletion requests are under way; wait for some of them")
            # To suppress, no receiver is asked.
            if waiting >= WAITING_MAX and action != "suppress":
                raise TooManyRequests(
                    f"{waiting} deletion requests wait for receivers that have not accepted their delete messages;"
                    " repair, resume or delete these destinations (see hookline notices list)"
                )
            ((number,),) = execute(
                "INSERT INTO deletion_requests (at, author, action, state, updated_at, round)"
                " VALUES (?1, ?2, ?3, 'looking', ?1, 0) RETURNING id",
                (now_ms, author, action),
            ).fetchall()
            for position, id in enumerate(ids):
                execute(
                    "INSERT INTO deletion_people (request, number, digest, user_id, identity_count, events)"
                    " VALUES (?, ?, ?, ?, 0, 0)",
                    (number, position, self._of.of(id), id),
                )
            if action != "delete":
                self._suppressions.add(execute, identities.given(ids), author, number)
        made = self.get(number)
        assert made is not None
        return made

    def get(self, number: int) -> DeletionRequest | None:
        """Return one request."""
        row = self._store.database.row(f"SELECT {_COLUMNS} FROM deletion_requests WHERE id = ?", (number,))
        return None if row is None else DeletionRequest(*row)

    def newest(self, limit: int, before: int | None = None, user_id: str | None = None) -> list[DeletionRequest]:
        """At most so many, newest first, older than one: all, or those that name a user."""
        named, values = "", []
        if user_id is not None:
            named, values = "id IN (SELECT request FROM deletion_people WHERE digest = ?) AND ", [self._of.of(user_id)]
        rows = self._store.database.rows(
            f"SELECT {_COLUMNS} FROM deletion_requests WHERE {named}id < ? ORDER BY id DESC LIMIT ?",
            (*values, before or 1 << 62, limit),
        )
        return [DeletionRequest(*row) for row in rows]

    def under_way(self) -> list[DeletionRequest]:
        """Return the requests that are not done, oldest first."""
        rows = self._store.database.rows(
            f"SELECT {_COLUMNS} FROM deletion_requests WHERE state <> 'done' ORDER BY id LIMIT ?",
            (OPEN_MAX + WAITING_MAX,),
        )
        return [DeletionRequest(*row) for row in rows]

    def people(self, number: int) -> list[Person]:
        """Return the people of a request in the order in which they were given."""
        rows = self._store.database.rows(
            "SELECT number, digest, user_id, identities, identity_count, events FROM deletion_people"
            " WHERE request = ? ORDER BY number",
            (number,),
        )
        return [
            Person(number, digest, user_id, None if ids is None else identities.from_text(ids), count, events)
            for number, digest, user_id, ids, count, events in rows
        ]

    def suppress_found(self, number: int, author: str, found: Sequence[Identities]) -> None:
        """The look-up is done and nothing is to be deleted: every identity is suppressed, and no id is kept. The
        request waits for no receiver, only to be finished. Raise LogNotEmptied."""
        with self._store.change(SUPPRESSIONS) as execute:
            for position, ids in enumerate(found):
                self._suppressions.add(execute, ids, author, number)
                execute(
                    "UPDATE deletion_people SET user_id = NULL, identities = NULL, identity_count = ?"
                    " WHERE request = ? AND number = ?",
                    (len(ids), number, position),
                )
            self._set(execute, number, "waiting")
        self._store.empty_log()

    def plan(
        self, request: DeletionRequest, found: SearchResult, planned: Sequence[Planned], disabled: Sequence[str] = ()
    ) -> None:
        """The look-up is done: write down what is to be erased and who is to be told, and that the ``disabled``
        destinations, which may have rows of anybody, are not."""
        now_ms = self._now_ms()
        with self._store.change(SUPPRESSIONS) as execute:
            self._plan(execute, request, found, planned)
            query = "SELECT id FROM deletion_messages WHERE request = ? AND source = ?"
            for (message,) in execute(query, (request.number, SYNC_SOURCE)).fetchall() if disabled else ():
                add_receipts(execute, message, [Receipt(id, NOTHING_SENT, DISABLED, now_ms) for id in disabled])

    def plan_again(
        self, request: DeletionRequest, cleared: Erased, found: SearchResult, planned: Sequence[Planned]
    ) -> None:
        """More about the people was found meanwhile, and maybe more ids of theirs: write it down as ``plan`` does. Who
        has a message already gets no other."""
        erased = self._erased_with(request, cleared)
        with self._store.change(SUPPRESSIONS) as execute:
            execute("UPDATE deletion_requests SET erased = ? WHERE id = ?", (_json(erased), request.number))
            self._plan(execute, request, found, planned)

    def sources(self, number: int) -> list[tuple[int, str]]:
        """Return the affected sources of each person of a request, by the person's number."""
        query = "SELECT number, source FROM deletion_messages WHERE request = ? ORDER BY number, source"
        return [(person, source) for person, source in self._store.database.rows(query, (number,))]

    def _plan(
        self, execute: Callable[..., Any], request: DeletionRequest, found: SearchResult, planned: Sequence[Planned]
    ) -> None:
        for position, ids in enumerate(found.ids):
            if request.action == "both":
                self._suppressions.add(execute, ids, request.author, request.number)
            execute(
                "UPDATE deletion_people SET identities = ?, identity_count = ?, events = events + ?"
                " WHERE request = ? AND number = ?",
                (identities.to_text(ids), len(ids), found.events[position].total(), request.number, position),
            )
        for number, source, events, destinations in planned:
            query = "UPDATE deletion_messages SET events = events + ? WHERE request = ? AND number = ? AND source = ?"
            if execute(query, (events, request.number, number, source)).rowcount:
                continue
            execute(
                "INSERT INTO deletion_messages"
                " (request, number, source, events, destinations, message_id, tries, state, due)"
                " VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?)",
                (
                    *(request.number, number, source, events, _json(destinations)),
                    self.message_id(request, number, source, 1),
                    *("planned" if destinations else "closed", 0),
                ),
            )
        self._begin_round(execute, request, found.positions)

    def message_id(self, request: DeletionRequest, number: int, source: str, tries: int) -> str:
        """Return the messageId of a delete message: the same one whenever the same try is appended."""
        return self._of.message_id(request.number, request.at_ms, number, source, tries)

    def begin_round(self, request: DeletionRequest, positions: dict[int, OffsetSet]) -> None:
        """Have more positions erased: those of the delete messages, once all are closed."""
        with self._store.database.transaction() as execute:
            self._begin_round(execute, request, positions)

    def positions(self, number: int) -> dict[int, OffsetSet]:
        """Return what the round that is under way erases."""
        row = self._store.database.row("SELECT places FROM deletion_requests WHERE id = ?", (number,))
        return decode_offset_sets(row[0]) if row is not None and row[0] is not None else {}

    def clear(self, number: int) -> None:
        """The journal's bytes are gone: deliver is to take away what it keeps about them."""
        with self._store.change(ERASURES) as execute:
            self._set(execute, number, "clearing")

    def wait(self, request: DeletionRequest, cleared: Erased) -> None:
        """Nothing is left but the delete messages: forget every id that they do not need."""
        erased = self._erased_with(request, cleared)
        with self._store.change(ERASURES) as execute:
            execute(
                "UPDATE deletion_requests SET places = NULL, erased = ? WHERE id = ?", (_json(erased), request.number)
            )
            execute("UPDATE deletion_people SET identities = NULL WHERE request = ?", (request.number,))
            self._set(execute, request.number, "waiting")
        with suppress(LogNotEmptied):  # tried again by every look, and before the request is done
            self._store.empty_log()

    def clear_again(self, request: DeletionRequest, cleared: Erased, positions: dict[int, OffsetSet]) -> None:
        """More about the people was found meanwhile: erase these positions too, before any id is forgotten."""
        erased = self._erased_with(request, cleared)
        with self._store.database.transaction() as execute:
            execute("UPDATE deletion_requests SET erased = ? WHERE id = ?", (_json(erased), request.number))
            self._begin_round(execute, request, positions)

    def _erased_with(self, request: DeletionRequest, cleared: Erased) -> Erased:
        """Return what was erased with this round; events are the people's own, not the delete messages."""
        before = self.erased(request.number)
        is_theirs = any(person.identities is not None for person in self.people(request.number))
        events = sum(each.count for each in self.positions(request.number).values()) if is_theirs else 0
        added = zip(msgspec.structs.astuple(before), msgspec.structs.astuple(cleared), strict=True)
        return msgspec.structs.replace(Erased(*(old + new for old, new in added)), events=before.events + events)

    def finish(self, number: int) -> None:
        """Everything is done: forget whom it was about, and say so once no id is in the log either; may be done twice.
        Raise LogNotEmptied."""
        with self._store.database.transaction() as execute:
            execute("UPDATE deletion_people SET user_id = NULL, identities = NULL WHERE request = ?", (number,))
        crash_point("privacy.ids_forgotten")
        self._store.empty_log()
        with self._store.database.transaction() as execute:
            self._set(execute, number, "done")
            execute("UPDATE deletion_requests SET done_at = updated_at WHERE id = ?", (number,))

    def empty_log(self) -> None:
        """Empty the log, where that did not succeed when ids were forgotten."""
        self._store.empty_log_again()

    def erased(self, number: int) -> Erased:
        """Return what was erased so far."""
        row = self._store.database.row("SELECT erased FROM deletion_requests WHERE id = ?", (number,))
        return msgspec.json.decode(row[0], type=Erased) if row is not None and row[0] is not None else Erased()

    def _begin_round(
        self, execute: Callable[..., Any], request: DeletionRequest, positions: dict[int, OffsetSet]
    ) -> None:
        execute(
            "UPDATE deletion_requests SET round = round + 1, places = ? WHERE id = ?",
            (encode_offset_sets(positions), request.number),
        )
        self._set(execute, request.number, "erasing")

    def _set(self, execute: Callable[..., Any], number: int, state: State) -> None:
        execute("UPDATE deletion_requests SET state = ?, updated_at = ? WHERE id = ?", (state, self._now_ms(), number))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
