"""Takes a person's rows out of the files when a ``delete`` message asks for it.

Rows go that come before the message and have its ``userId`` as ``userId``, ``anonymousId`` or ``previousId``, and with
them rows without a user that have an anonymous id of theirs: what the person did before they were known. Rows of other
users stay, even with an anonymous id that both have. Rows of files are found by the hashes in manifests, and their
files are written anew under the same names; those of the same write are never written. The manifest of that write says
what was done, and only then is the message accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from hookline.events.timestamps import parse
from hookline.kinds.files.formats import without
from hookline.kinds.files.manifests import Erased, Manifests, Request
from hookline.kinds.files.rows import HASH_BYTES, Row, hash_of, people_of, row_of
from hookline.kinds.files.store import Store
from hookline.kinds.sink import SinkEvent
from hookline.telemetry.crashpoints import crash_point

NOTES = "_hookline/pending"
LONG_ID_CHARACTERS = 64
"""A longer anonymous id stands as its hash in what is noted: one may have 30 KB, and a person thousands."""


class _Place(NamedTuple):
    """Where an event stands in the journal, and when it was received."""

    partition: int
    offset: int
    received_at_ms: int

    def is_before(self, message: _Place) -> bool:
        """Return whether a message came later: a person may come back, and what was received after it stays."""
        # Whoever received them may have another clock. A user's own rows are in the partition of the message.
        if self.partition == message.partition:
            return self.offset < message.offset
        return self.received_at_ms <= message.received_at_ms


class _Note(msgspec.Struct, frozen=True):
    """Hold what is about to be erased: after a crash the files no longer show how many rows they had, and which
    anonymous ids were the person's; ``linked`` has the messages for each of these, by what ``_named`` makes of it."""

    requests: list[tuple[int, int]]
    files: dict[str, int]
    linked: dict[str, list[_Place]] = {}


class Erasure:
    """The deletions among the events of one write; what is to go is looked up in files at once."""

    def __init__(self, store: Store, manifests: Manifests, events: Sequence[SinkEvent]) -> None:
        self._store = store
        self._manifests = manifests
        asking = [event for event in events if _is_asking(event)]
        self.requests = [
            Request(partition=event.partition, offset=event.offset, message_id=str(event.fields.get("messageId") or ""))
            for event in asking
        ]
        self._notes = [note for path in _note_paths(asking) if (note := _note_at(store, path)) is not None]
        self._asked: dict[str, set[_Place]] = {}
        """By the id of a user: the messages that ask for it."""
        self._linked: dict[str, set[_Place]] = {}
        """By an anonymous id, as ``_named`` makes it: the messages because of which its rows without a user go."""
        for event in asking:
            place = _Place(event.partition, event.offset, event.received_at_ms)
            if id := str(event.fields.get("userId") or ""):
                self._asked.setdefault(id, set()).add(place)
            if id := str(event.fields.get("anonymousId") or ""):
                self._linked.setdefault(_named(id), set()).add(place)
        for note in self._notes:
            for name, places in note.linked.items():
                self._linked.setdefault(name, set()).update(places)
        others = [event for event in events if not _is_asking(event)]
        self.left = others
        """What is written."""
        self._found: dict[str, int] = {}
        """The rows that are to go, by file."""
        if asking:
            others_rows = [(event, row_of(event)) for event in others]
            # First all rows of users, in files too: any of them may have the anonymous id of any other row.
            kept = [(event, row) for event, row in others_rows if not self._is_theirs(row)]
            self._look_for(map(hash_of, self._asked), self._is_theirs)
            self.left = [event for event, row in kept if not self._is_linked(row)]
            linked = map(_hash_of_named, self._linked)
            self._look_for(linked, lambda row: not self._is_theirs(row) and self._is_linked(row))
        self.dropped = len(others) - len(self.left)
        """Events that are not written, because their person is erased in the same write."""

    def carry_out(self) -> list[Erased]:
        """Write files anew; return which, and how many rows each had to give. May be done again after a crash."""
        rows = self._with_earlier()
        if self._found:
            requests = [(each.partition, each.offset) for each in self.requests]
            linked = {id: sorted(places) for id, places in self._linked.items()}
            # Each message may come again without the others; the rows are counted with the first that does.
            first, *further = _note_paths(self.requests)
            notes = {first: _Note(requests, rows, linked)} | {path: _Note(requests, {}, linked) for path in further}
            self._store.put_all({path: msgspec.json.encode(note) for path, note in notes.items()})
            crash_point("files.erasure_noted")
        for path in self._found:
            self._store.change(path, self._changed(path))
            crash_point("files.erased_one")
        return [Erased(path=path, rows=count) for path, count in sorted(rows.items())]

    def _look_for(self, hashes: Iterable[bytes], goes: Callable[[Row], bool]) -> None:
        for file in self._manifests.holding(hashes):
            data = self._store.get(file.path)
            count = 0 if data is None else without(file.path, data, goes)[1]
            if count:
                self._found[file.path] = self._found.get(file.path, 0) + count

    def _with_earlier(self) -> dict[str, int]:
        """Return the rows by file, with those that an earlier try has erased already."""
        rows = dict(self._found)
        own = {(each.partition, each.offset) for each in self.requests}
        for note in self._notes:
            if own & set(note.requests):
                for path, count in note.files.items():
                    rows[path] = max(count, rows.get(path, 0))
        return rows

    def _changed(self, path: str) -> Callable[[bytes], bytes | None]:
        def change(data: bytes) -> bytes | None:
            made, removed = without(path, data, lambda row: self._is_theirs(row) or self._is_linked(row))
            return made if removed else None

        return change

    def _is_theirs(self, row: Row) -> bool:
        """Return whether a row has an id that is asked for; remember which others it has then."""
        messages = {each for id in people_of(row) for each in self._before(row, self._asked.get(id, ()))}
        for name in ("anonymousId", "previousId") if messages else ():
            if id := str(row.get(name) or ""):
                self._linked.setdefault(_named(id), set()).update(messages)
        return bool(messages)

    def _is_linked(self, row: Row) -> bool:
        """Return whether a row has no user, and an anonymous id of somebody who is erased."""
        if row.get("userId"):
            return False
        return bool(self._before(row, self._linked.get(_named(str(row.get("anonymousId") or "")), ())))

    def _before(self, row: Row, messages: Collection[_Place]) -> list[_Place]:
        """Return the messages that a row comes before."""
        if not messages:
            return []
        place = _Place(row["journal_partition"], row["journal_offset"], parse(row["receivedAt"]) or 0)
        return [each for each in messages if place.is_before(each)]


def forget(store: Store, manifests: Manifests, events: Iterable[SinkEvent]) -> None:
    """Take away the notes of delete messages, all of whose rows are gone; they name anonymous ids."""
    for path in _note_paths([event for event in events if _is_asking(event)]):
        note = _note_at(store, path)
        messages = {each for places in note.linked.values() for each in places} if note is not None else set()
        received: dict[int, dict[int, int]] = {}
        for each in messages:
            received.setdefault(each.partition, {})[each.offset] = each.received_at_ms
        if all(manifests.covered(partition, those).issuperset(those) for partition, those in received.items()):
            store.delete_all([path])


def _named(id: str) -> str:
    """Return what stands for an anonymous id: itself, or if it is long what manifests keep of it and a hash, which
    together are longer than any that stands for itself."""
    if len(id) <= LONG_ID_CHARACTERS:
        return id
    return hash_of(id).hex() + blake2b(id.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()


def _hash_of_named(name: str) -> bytes:
    return hash_of(name) if len(name) <= LONG_ID_CHARACTERS else bytes.fromhex(name[: 2 * HASH_BYTES])


def _is_asking(event: SinkEvent) -> bool:
    return event.fields.get("type") == "delete"


def _note_paths(messages: Iterable[SinkEvent | Request]) -> list[str]:
    partitions = dict.fromkeys(each.partition for each in messages)
    return [f"{NOTES}/erasure-{partition}.json" for partition in partitions]


def _note_at(store: Store, path: str) -> _Note | None:
    data = store.get(path)
    return None if data is None else msgspec.json.decode(data, type=_Note)
