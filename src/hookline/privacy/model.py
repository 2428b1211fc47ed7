"""What a deletion request is: who, what to do about them, and how far that has come."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import msgspec

PEOPLE_MAX = 1_000
"""People in one request; whoever has more makes several."""
ID_CHARACTERS_MAX = 1_000

Action = Literal["delete", "suppress", "both"]
State = Literal["looking", "erasing", "clearing", "waiting", "done"]
"""``looking``: their data is looked up. ``erasing``: receivers are told, and the journal is overwritten. ``clearing``:
what else is kept about the events is taken away. ``waiting``: some receiver has not acknowledged the delete message.
``done``: nothing is left to do."""
MessageState = Literal["planned", "sent", "closed"]

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=ID_CHARACTERS_MAX)]


class DeletionRequestInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What a caller asks for; one of ``user_id`` and ``user_ids`` is given."""

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
    identities: tuple[str, ...] | None
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
    """How many times places were erased: first the people's events, then the delete messages themselves."""


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
    """What came of a delete message at one destination, for good."""

    destination: str
    status: str
    reason: str | None
    at_ms: int


class Erased(msgspec.Struct, frozen=True, rename="camel"):
    """What was erased: events in the journal, what was kept about them beside it, and profiles with the entries of
    their history."""

    events: int = 0
    retries: int = 0
    dead_letters: int = 0
    attempts: int = 0
    profiles: int = 0
    profile_entries: int = 0


def request_id(number: int) -> str:
    """Return the id of a request as people see it."""
    return f"dr{number}"
