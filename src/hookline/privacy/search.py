"""Whose data lies where: every id of some people and every position of the journal that is about them.

An id leads to the events of its user (``index.lookup``), and those to further ids of the same person: the anonymous
ids that they name, and who a user was before an alias. What was refused unread has no user: it is searched for the
ids themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from pathlib import Path

import msgspec

from hookline.events.untyped import scalar, text
from hookline.index.keys import user_hash
from hookline.index.lookup import find_users
from hookline.journal.opening import open_reader
from hookline.journal.port import SearchableReader
from hookline.journal.record import Record
from hookline.privacy import identities
from hookline.privacy.identities import Identities
from hookline.replays.offset_set import OffsetSet

ROUNDS_MAX = 8
"""How far from id to id is gone: an alias of an alias of an alias …"""
IDENTITIES_MAX = 1_000
"""Ids of one person; more are taken for a mistake of a client that gives many people one id."""

NO_USER = ""
SYNCED = ("audience", "trait")
"""Origins of what syncs send."""
OFFSETS_PER_SLICE = 10_000
"""Looked at in one go: of one id there may be millions of events, and of items without any as many."""
MESSAGE_IDS_PER_SLICE = 50_000
"""Held at once: some 8 MB."""


class SearchResult:
    """Hold what is known of each person: ``ids``, by source the number of ``events``, and the destinations
    they were ``synced_to``; and all ``positions``. Somebody may have millions of events, so of each only its offset is
    held; ``message_ids`` reads the rest again."""

    def __init__(self, given: Sequence[str]) -> None:
        self.ids: list[Identities] = [identities.given((id,)) for id in given]
        self.events: list[Counter[str]] = [Counter() for _ in given]
        self.synced_to: list[set[str]] = [set() for _ in given]
        self.has_accepted = False
        """Whether any of the events was accepted."""
        self.offsets: dict[int, OffsetSet] = {}

    @property
    def positions(self) -> dict[int, OffsetSet]:
        """Return the positions by partition."""
        return {partition: offsets for partition, offsets in self.offsets.items() if offsets.count}

    def owners(self) -> dict[str, list[int]]:
        """Return the people of each id: mostly one."""
        owners: dict[str, list[int]] = {}
        for person, ids in enumerate(self.ids):
            for id in ids:
                owners.setdefault(id, []).append(person)
        return owners

    def kinds(self) -> Identities:
        """Return all ids, each with whether it counts as a user id of anybody."""
        found: Identities = {}
        for ids in self.ids:
            identities.add(found, ids)
        return found


def search(
    data_path: Path,
    given: Sequence[str],
    ends: dict[int, int] | None = None,
    known_ids: Callable[[str], Mapping[str, bool]] = lambda _: {},
) -> SearchResult:
    """Find what is stored below ``ends`` (by default all there is) of the people with the ``given`` ids.

    ``known_ids`` names further ids of a person that somebody else knows of.
    """
    found = SearchResult(given)
    for ids in found.ids:
        for id in list(ids):
            identities.add(ids, known_ids(id))
    journal = open_reader(data_path / "journal")
    try:
        looked_up: Identities = {}
        for _ in range(ROUNDS_MAX):
            # One that was an anonymous id so far may have turned out to be a user id as well.
            kinds = found.kinds()
            new = {id: is_user for id, is_user in kinds.items() if id not in looked_up or looked_up[id] < is_user}
            if not new:
                break
            looked_up |= new
            for partition in journal.partitions():
                end = journal.end(partition) if ends is None else ends.get(partition, 0)
                _events(found, journal, data_path / "index", partition, end, new.keys())
        for partition in journal.partitions():
            end = journal.end(partition) if ends is None else ends.get(partition, 0)
            _unread(found, journal, data_path / "index", partition, end)
    finally:
        journal.close()
    return found


def message_ids(data_path: Path, positions: Mapping[int, OffsetSet]) -> Iterator[set[str]]:
    """Yield the messageIds of what lies at these positions, a bounded number at a time."""
    journal = open_reader(data_path / "journal")
    try:
        for partition, offsets in positions.items():
            for some in _slices(offsets, MESSAGE_IDS_PER_SLICE):
                yield {record.message_id for _, record in journal.get_all(partition, some) if not record.erased}
    finally:
        journal.close()


def synced(data_path: Path, user_ids: frozenset[str]) -> dict[int, OffsetSet]:
    """Return the positions of what syncs of audiences and computed traits have told about these users."""
    journal = open_reader(data_path / "journal")
    hashes = frozenset(map(user_hash, user_ids))
    found: dict[int, OffsetSet] = {}
    try:
        for partition in journal.partitions():
            offsets = OffsetSet(
                offset
                for offset, record in _records(journal, data_path / "index", partition, journal.end(partition), hashes)
                if not record.erased and record.user_key in user_ids and record.origin in SYNCED
            )
            if offsets.count:
                found[partition] = offsets
    finally:
        journal.close()
    return found


def _records(
    journal: SearchableReader, index: Path, partition: int, end: int, hashes: frozenset[bytes]
) -> Iterator[tuple[int, Record]]:
    """Yield what may be of users with these hashes, however much that is."""
    for some in _slices(find_users(journal, index, partition, hashes, end), OFFSETS_PER_SLICE):
        yield from journal.get_all(partition, some)


def _slices(offsets: Iterable[int], count: int) -> Iterator[tuple[int, ...]]:
    left = iter(offsets)
    return iter(lambda: tuple(islice(left, count)), ())


def _events(
    found: SearchResult, journal: SearchableReader, index: Path, partition: int, end: int, ids: Collection[str]
) -> None:
    owners = found.owners()
    hashes = frozenset(user_hash(id) for id in ids)
    before = found.offsets.get(partition, OffsetSet())
    new = OffsetSet()
    for offset, record in _records(journal, index, partition, end, hashes):
        if record.erased or record.user_key not in ids or offset in before:
            continue
        if record.origin == "deletion":  # a delete message still on its way: its own request erases it
            continue
        has_user_id, others = _ids_of(record)
        theirs = [each for each in owners[record.user_key] if found.ids[each][record.user_key] or not has_user_id]
        if not theirs:  # the event of a user whose id is somebody else's anonymous id
            continue
        new.add(offset, offset + 1)
        found.has_accepted = found.has_accepted or record.rejection is None
        for person in theirs:
            found.events[person][record.source] += 1
            if record.origin in SYNCED:
                found.synced_to[person].update(record.to or ())
            if len(found.ids[person]) < IDENTITIES_MAX:
                identities.add(found.ids[person], others)
    found.offsets[partition] = _joined(before, new)


def _unread(found: SearchResult, journal: SearchableReader, index: Path, partition: int, end: int) -> None:
    """Items that were refused without a user: any that names one of the ids goes."""
    names = _Names(found.owners())
    new = OffsetSet()
    for offset, record in _records(journal, index, partition, end, frozenset((user_hash(NO_USER),))):
        if record.user_key == NO_USER and record.rejection is not None and names.are_in(record.body):
            new.add(offset, offset + 1)
    found.offsets[partition] = _joined(found.offsets.get(partition, OffsetSet()), new)


def _joined(one: OffsetSet, other: OffsetSet) -> OffsetSet:
    """Return the offsets of both, which have none in common."""
    if not one.count or not other.count:
        return one if one.count else other
    return OffsetSet(merge(one, other))


class _Names:
    """Finds ids in JSON, which may have been quoted once more, however they are escaped."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = list(ids)
        self._written = [id.encode("utf-8", "surrogatepass") for id in self._ids]

    def are_in(self, body: bytes) -> bool:
        """Return whether a body names one of the ids."""
        if any(id in body for id in self._written):
            return True
        if b"\\" not in body:
            return False
        once = _ESCAPED.sub(_unescaped, body.decode("utf-8", "replace"))
        if any(id in once for id in self._ids):
            return True
        if "\\" not in once:
            return False
        twice = _ESCAPED.sub(_unescaped, once)
        return any(id in twice for id in self._ids)


_ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\.")
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _unescaped(found: re.Match[str]) -> str:
    written = found[0]
    if written[1] == "u" and len(written) > 2:
        return bytes.fromhex(written.replace("\\u", "")).decode("utf-16-be", "replace")
    return _LETTERS.get(written[1], written[1])


class _Ids(msgspec.Struct, rename="camel"):
    user_id: msgspec.Raw = msgspec.Raw(b"null")
    anonymous_id: msgspec.Raw = msgspec.Raw(b"null")
    previous_id: msgspec.Raw = msgspec.Raw(b"null")


_ids = msgspec.json.Decoder(_Ids)


def _ids_of(record: Record) -> tuple[bool, Identities]:
    """Return whether a record has a user id, and which other ids it names: of an alias who the user was before, which
    may have been either kind. What cannot be read was refused, and counts as without one."""
    try:
        user_id, anonymous_id, previous_id = map(text, map(scalar, msgspec.structs.astuple(_ids.decode(record.body))))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False, {}
    others: Identities = {}
    if anonymous_id:
        others[anonymous_id] = False
    if record.type == "alias" and previous_id:
        others[previous_id] = True
    return bool(user_id), others
