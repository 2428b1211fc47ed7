"""Say what a deletion request is, how far it has come, and to whom its delete messages went."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from hookline.database.connection import replacing
from hookline.privacy.identities import Identities
from hookline.privacy.suppressions import PrivacyStore

PEOPLE_MAX = 1_000
"""People in one request; whoever has more makes several."""
ID_CHARACTERS_MAX = 1_000

Action = Literal["delete", "suppress", "both"]
State = Literal["looking", "erasing", "clearing", "waiting", "done"]
"""``looking``: their data is looked up. ``erasing``: receivers are told, and the journal is overwritten. ``clearing``:
what else is kept about the events is taken away. ``waiting``: some receiver has not acknowledged the delete message,
or the ids are being overwritten. ``done``: nothing is left to do."""
MessageState = Literal["planned", "sent", "closed"]

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=ID_CHARACTERS_MAX)]


class DeletionRequestInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A request to delete or suppress people; give either ``userId`` or ``userIds``."""

    action: Action
    user_id: Id | None = None
    user_ids: Annotated[tuple[Id, ...], msgspec.Meta(min_length=1, max_length=PEOPLE_MAX)] | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """Return who is meant, each once."""
        return tuple(dict.fromkeys(self.user_ids or ())) if self.user_id is None else (self.user_id,)


class Person(NamedTuple):
    """One person of a request. ``user_id`` and ``identities`` are None once the request is done."""

    number: int
    digest: bytes
    user_id: str | None
    identities: Identities | None
    identity_count: int
    events: int


class DeletionRequest(NamedTuple):
    """One request, without its people."""

    number: int
    at_ms: int
    author: str
    action: Action
    state: State
    updated_ms: int
    done_ms: int | None
    people: int
    round: int
    """How many times positions were erased: first the people's events, then the delete messages themselves."""


class Message(NamedTuple):
    """The delete message of one person and affected source. ``destinations`` are those still to acknowledge it."""

    id: int
    number: int
    source: str
    events: int
    destinations: tuple[str, ...]
    message_id: str
    tries: int
    state: MessageState
    first_ms: int | None
    due_ms: int


class Receipt(NamedTuple):
    """Hold what came of a delete message at one destination, for good; ``remark`` is what it said that it erased."""

    destination: str
    status: str
    reason: str | None
    at_ms: int
    remark: str | None = None


class Erased(msgspec.Struct, frozen=True, rename="camel"):
    """The counts of what was erased: events in the journal, rows about them, and profiles with their history."""

    events: int = 0
    retries: int = 0
    dead_letters: int = 0
    attempts: int = 0
    profiles: int = 0
    profile_entries: int = 0


def request_id(number: int) -> str:
    """Return the id of a request as people see it."""
    return f"dr{number}"


_COLUMNS = "id, number, source, events, destinations, message_id, tries, state, first_at, due"
_PUT_RECEIPT = replacing("deletion_receipts", ("message", "destination"), ("status", "reason", "at", "remark"))


class Unacknowledged(NamedTuple):
    """A destination that has not accepted delete messages although they were sent to it more than once."""

    destination: str
    messages: int
    since_ms: int


class Messages:
    """Follows the messages of all requests; safe to share between threads."""

    def __init__(self, store: PrivacyStore, steady_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        """Tries follow each other, and end, by the service's own clock, ``steady_ms``."""
        self._store = store
        self._steady_ms = steady_ms

    def of(self, request: int) -> list[Message]:
        """Return the messages of a request, by person and source."""
        rows = self._store.database.rows(
            f"SELECT {_COLUMNS} FROM deletion_messages WHERE request = ? ORDER BY number, source", (request,)
        )
        return [_message(row) for row in rows]

    def requests_due(self, now_ms: int) -> set[int]:
        """Return the requests with a message to be sent or looked at now, and those that wait for none any more."""
        rows = self._store.database.rows(
            "SELECT DISTINCT request FROM deletion_messages WHERE state IN ('planned', 'sent') AND due <= ?"
            " UNION SELECT id FROM deletion_requests WHERE state = 'waiting' AND NOT EXISTS (SELECT 1"
            " FROM deletion_messages WHERE request = deletion_requests.id AND state IN ('planned', 'sent'))",
            (now_ms,),
        )
        return {request for (request,) in rows}

    def planned_again(self) -> list[tuple[int, int]]:
        """Return the messages of which the next try is planned, as request and id: there may be millions."""
        return self._store.database.rows(
            "SELECT request, id FROM deletion_messages WHERE state = 'planned' AND tries > 1"
        )

    def count(self, request: int) -> tuple[int, int]:
        """Return how many delete messages a request comes to, and how many of them are still open."""
        row = self._store.database.row(
            "SELECT count(*), count(CASE WHEN state <> 'closed' THEN 1 END) FROM deletion_messages"
            " WHERE request = ? AND (first_at IS NOT NULL OR state <> 'closed')",
            (request,),
        )
        return (int(row[0]), int(row[1])) if row is not None else (0, 0)

    def receipts(self, request: int) -> dict[int, list[Receipt]]:
        """Return what came of the messages of a request, by message and destination."""
        rows = self._store.database.rows(
            "SELECT r.message, r.destination, r.status, r.reason, r.at, r.remark FROM deletion_receipts r"
            " JOIN deletion_messages m ON m.id = r.message WHERE m.request = ? ORDER BY r.message, r.destination",
            (request,),
        )
        found: dict[int, list[Receipt]] = {}
        for message, *receipt in rows:
            found.setdefault(message, []).append(Receipt(*receipt))
        return found

    def sent(self, message: int) -> None:
        """It is in the journal."""
        now_ms = self._steady_ms()
        with self._store.database.transaction() as execute:
            execute(
                "UPDATE deletion_messages SET state = 'sent', first_at = coalesce(first_at, ?1), due = ?1"
                " WHERE id = ?2 AND state = 'planned'",
                (now_ms, message),
            )

    def look_again(self, message: int, receipts: Sequence[Receipt], due_ms: int) -> None:
        """Some destination has not answered yet; ``receipts`` are of those that have."""
        with self._store.database.transaction() as execute:
            add_receipts(execute, message, receipts)
            execute("UPDATE deletion_messages SET due = ? WHERE id = ?", (due_ms, message))

    def settle(self, message: Message, receipts: Sequence[Receipt], again: NextTry | None) -> None:
        """This try has ended everywhere: note what is final, and send it ``again`` to the others, if it goes on."""
        with self._store.database.transaction() as execute:
            add_receipts(execute, message.id, receipts)
            if again is None:
                execute("UPDATE deletion_messages SET state = 'closed' WHERE id = ?", (message.id,))
            else:
                execute(
                    "UPDATE deletion_messages SET state = 'planned', tries = tries + 1, destinations = ?,"
                    " message_id = ?, due = ? WHERE id = ?",
                    (_json(again.destinations), again.message_id, again.due_ms, message.id),
                )

    def reopen(self, message: int, last_id: str) -> None:
        """Follow the last try again, whose messageId is ``last_id``, in place of the planned one."""
        with self._store.database.transaction() as execute:
            execute(
                "UPDATE deletion_messages SET state = 'sent', tries = tries - 1, message_id = ?, due = ?"
                " WHERE id = ? AND state = 'planned'",
                (last_id, self._steady_ms(), message),
            )

    def unacknowledged(self, failed_since_ms: int) -> list[Unacknowledged]:
        """Return the destinations that an operator should look at, those given up lately included."""
        rows = self._store.database.rows(
            "SELECT destination, count(*), min(first_at) FROM ("
            " SELECT each.value AS destination, first_at FROM deletion_messages, json_each(destinations) AS each"
            " WHERE state <> 'closed' AND tries > 1 UNION ALL"
            " SELECT destination, first_at FROM deletion_receipts JOIN deletion_messages ON id = message"
            " WHERE status = 'not_delivered' AND at >= ?) AS open_ones GROUP BY destination ORDER BY destination",
            (failed_since_ms,),
        )
        return [Unacknowledged(*row) for row in rows]


class NextTry(NamedTuple):
    """The next try of a message."""

    destinations: tuple[str, ...]
    message_id: str
    due_ms: int


def add_receipts(execute: Callable[..., Any], message: int, receipts: Sequence[Receipt]) -> None:
    """Note what is final of a message, in a transaction of the caller's."""
    for receipt in receipts:
        execute(_PUT_RECEIPT, (message, *receipt))


def _message(row: tuple[Any, ...]) -> Message:
    id, number, source, events, destinations, *rest = row
    return Message(id, number, source, events, msgspec.json.decode(destinations, type=tuple[str, ...]), *rest)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
