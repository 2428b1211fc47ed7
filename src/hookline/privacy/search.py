"""Whose data lies where: every id of some people and every position of the journal that is about them.

An id leads to the events of its user (``index.lookup``), and those to further ids of the same person: the anonymous
ids that they name, and who a user was before an alias. What was refused unread has no user: it is searched for the
ids themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from hookline.events.canonical import javascript_number
from hookline.index.keys import user_hash
from hookline.index.lookup import find_users
from hookline.journal.opening import open_reader
from hookline.journal.port import SearchableReader
from hookline.journal.record import Record
from hookline.replays.offset_set import OffsetSet

ROUNDS_MAX = 8
"""How far from id to id is gone: an alias of an alias of an alias …"""
IDENTITIES_MAX = 1_000
"""Ids of one person; more are taken for a mistake of a client that gives many people one id."""

NO_USER = ""
SYNCED = ("audience", "trait")
"""Origins of what syncs send."""


class SearchResult:
    """Hold what is known of each person: ``ids``, by source the number of ``events``, and the destinations
    they were ``synced_to``; and all ``positions``."""

    def __init__(self, given: Sequence[str]) -> None:
        self.ids: list[dict[str, None]] = [{id: None} for id in given]
        self.events: list[Counter[str]] = [Counter() for _ in given]
        self.synced_to: list[set[str]] = [set() for _ in given]
        self.offsets: dict[int, set[int]] = {}
        self.message_ids: set[str] = set()

    @property
    def positions(self) -> dict[int, OffsetSet]:
        """Return the positions by partition."""
        return {partition: OffsetSet(sorted(offsets)) for partition, offsets in self.offsets.items() if offsets}

    def owners(self) -> dict[str, list[int]]:
        """Return the people of each id: mostly one."""
        owners: dict[str, list[int]] = {}
        for person, ids in enumerate(self.ids):
            for id in ids:
                owners.setdefault(id, []).append(person)
        return owners


def search(
    data_path: Path,
    given: Sequence[str],
    ends: dict[int, int] | None = None,
    known_ids: Callable[[str], Iterable[str]] = lambda _: (),
) -> SearchResult:
    """Find what is stored below ``ends`` (by default all there is) of the people with the ``given`` ids.

    ``known_ids`` names further ids of a person that somebody else knows of.
    """
    found = SearchResult(given)
    for ids in found.ids:
        ids.update(dict.fromkeys(each for id in list(ids) for each in known_ids(id)))
    journal = open_reader(data_path / "journal")
    try:
        looked_up: set[str] = set()
        for _ in range(ROUNDS_MAX):
            new = found.owners().keys() - looked_up
            if not new:
                break
            looked_up |= new
            for partition in journal.partitions():
                end = journal.end(partition) if ends is None else ends.get(partition, 0)
                _events(found, journal, data_path / "index", partition, end, new)
        for partition in journal.partitions():
            end = journal.end(partition) if ends is None else ends.get(partition, 0)
            _unread(found, journal, data_path / "index", partition, end)
    finally:
        journal.close()
    return found


def synced(data_path: Path, ids: frozenset[str]) -> dict[int, OffsetSet]:
    """Return the positions of what syncs of audiences and computed traits have told about these ids."""
    journal = open_reader(data_path / "journal")
    hashes = frozenset(map(user_hash, ids))
    found: dict[int, OffsetSet] = {}
    try:
        for partition in journal.partitions():
            about = find_users(journal, data_path / "index", partition, hashes, journal.end(partition))
            offsets = [
                offset
                for offset, record in journal.get_all(partition, about)
                if not record.erased and record.user_key in ids and record.origin in SYNCED
            ]
            if offsets:
                found[partition] = OffsetSet(offsets)
    finally:
        journal.close()
    return found


def _events(
    found: SearchResult, journal: SearchableReader, index: Path, partition: int, end: int, ids: set[str]
) -> None:
    owners = found.owners()
    hashes = frozenset(user_hash(id) for id in ids)
    offsets = found.offsets.setdefault(partition, set())
    about = find_users(journal, index, partition, hashes, end)
    for offset, record in journal.get_all(partition, about):
        if record.erased or record.user_key not in ids or offset in offsets:
            continue
        if record.origin == "deletion":  # a delete message still on its way: its own request erases it
            continue
        offsets.add(offset)
        found.message_ids.add(record.message_id)
        for person in owners[record.user_key]:
            found.events[person][record.source] += 1
            if record.origin in SYNCED:
                found.synced_to[person].update(record.to or ())
            if len(found.ids[person]) < IDENTITIES_MAX:
                found.ids[person].update(dict.fromkeys(_other_ids(record)))


def _unread(found: SearchResult, journal: SearchableReader, index: Path, partition: int, end: int) -> None:
    """Items that were refused without a user: any that names one of the ids goes."""
    ids = list(found.owners())
    offsets = found.offsets.setdefault(partition, set())
    about = find_users(journal, index, partition, frozenset((user_hash(NO_USER),)), end)
    for offset, record in journal.get_all(partition, about):
        if record.rejection is not None and _names_one(record.body, ids):
            offsets.add(offset)
            found.message_ids.add(record.message_id)


def _names_one(body: bytes, ids: Iterable[str]) -> bool:
    """Return whether JSON, which may have been quoted once more, names an id, however it is escaped."""
    as_written = body.decode("utf-8", "replace")
    once = _ESCAPED.sub(_unescaped, as_written)
    twice = _ESCAPED.sub(_unescaped, once)
    return any(id in text for text in {as_written, once, twice} for id in ids)


_ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\.")
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _unescaped(found: re.Match[str]) -> str:
    written = found[0]
    if written[1] == "u" and len(written) > 2:
        return bytes.fromhex(written.replace("\\u", "")).decode("utf-16-be", "replace")
    return _LETTERS.get(written[1], written[1])


class _Ids(msgspec.Struct, rename="camel"):
    anonymous_id: str | int | float | None = None
    previous_id: str | int | float | None = None


_ids = msgspec.json.Decoder(_Ids)


def _other_ids(record: Record) -> list[str]:
    try:
        named = _ids.decode(record.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []
    ids = (named.anonymous_id, named.previous_id if record.type == "alias" else None)
    return [text for text in map(_text, ids) if text]


def _text(id: str | int | float | None) -> str:
    """As collect writes an id that is given as a number."""
    if isinstance(id, float):
        return javascript_number(repr(id))
    return "" if id is None else str(id)
