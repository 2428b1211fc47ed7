"""Takes a person's rows out of the files when a ``delete`` message asks for it.

Rows go that come before the message and have its ``userId`` (or ``anonymousId``) as ``userId``, ``anonymousId`` or
``previousId``: those of files are found by the hashes in manifests, and their files are written anew under the same
names; those of the same write are never written. The manifest of that write says what was done, and only then is the
message accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from hookline.events.timestamps import parse
from hookline.kinds.files.formats import without
from hookline.kinds.files.manifests import Erased, Manifests, Request
from hookline.kinds.files.rows import Row, hash_of, people_of
from hookline.kinds.files.store import Store
from hookline.kinds.sink import SinkEvent
from hookline.telemetry.crashpoints import crash_point

NOTES = "_hookline/pending"
_Moment = tuple[int, int]
"""What orders events: when they were received, and within a millisecond their offsets."""
_ASKING_FIELDS = ("userId", "anonymousId")


class _Note(msgspec.Struct, frozen=True):
    """Hold what is about to be erased: after a crash the files no longer tell how many rows they had."""

    requests: list[tuple[int, int]]
    files: dict[str, int]


class Erasure:
    """The deletions among the events of one write."""

    def __init__(self, store: Store, manifests: Manifests, events: Sequence[SinkEvent]) -> None:
        self._store = store
        self._manifests = manifests
        asking = [event for event in events if event.fields.get("type") == "delete"]
        self.requests = [
            Request(partition=event.partition, offset=event.offset, message_id=str(event.fields.get("messageId") or ""))
            for event in asking
        ]
        # A person may come back: what was received after the message stays.
        self._until: dict[str, _Moment] = {}
        for event in asking:
            moment = _moment_of(event)
            for name in _ASKING_FIELDS:
                if id := str(event.fields.get(name) or ""):
                    self._until[id] = max(self._until.get(id, moment), moment)
        others = [event for event in events if event.fields.get("type") != "delete"]
        self.left = [event for event in others if not self._goes(event.fields, partial(_moment_of, event))]
        """What is written."""
        self.dropped = len(others) - len(self.left)
        """Events that are not written, because their person is erased in the same write."""
        self._note_path = f"{NOTES}/erasure-{self.requests[0].partition}.json" if self.requests else ""

    def carry_out(self) -> list[Erased]:
        """Write files anew; return which, and how many rows each had to give. May be done again after a crash."""
        if not self._until:
            return []
        found: dict[str, int] = {}
        for file in self._manifests.holding(hash_of(id) for id in self._until):
            data = self._store.get(file.path)
            count = 0 if data is None else without(file.path, data, self._is_erased)[1]
            if count:
                found[file.path] = count
        rows = self._with_earlier(found)
        if found:
            note = _Note([(each.partition, each.offset) for each in self.requests], rows)
            self._store.put_all({self._note_path: msgspec.json.encode(note)})
            crash_point("files.erasure_noted")
        for path in found:
            self._store.change(path, self._changed(path))
            crash_point("files.erased_one")
        return [Erased(path=path, rows=count) for path, count in sorted(rows.items())]

    def finish(self) -> None:
        """Take the note away, once the manifest is there."""
        self._store.delete_all([self._note_path])

    def _with_earlier(self, found: dict[str, int]) -> dict[str, int]:
        """Return the rows by file, with those that an earlier try has erased already."""
        data = self._store.get(self._note_path)
        if data is None:
            return found
        note = msgspec.json.decode(data, type=_Note)
        if not set(note.requests) & {(each.partition, each.offset) for each in self.requests}:
            return found
        return {path: max(note.files.get(path, 0), found.get(path, 0)) for path in note.files.keys() | found.keys()}

    def _changed(self, path: str) -> Callable[[bytes], bytes | None]:
        def change(data: bytes) -> bytes | None:
            made, removed = without(path, data, self._is_erased)
            return made if removed else None

        return change

    def _is_erased(self, row: Row) -> bool:
        return self._goes(row, lambda: (parse(row.get("receivedAt")) or 0, int(row.get("journal_offset") or 0)))

    def _goes(self, row: Row, moment: Callable[[], _Moment]) -> bool:
        return any(id in self._until and moment() < self._until[id] for id in people_of(row))


def _moment_of(event: SinkEvent) -> _Moment:
    return event.received_at_ms, event.offset
