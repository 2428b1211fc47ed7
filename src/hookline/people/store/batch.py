"""What one transaction of profiles writes: everything that some records say of people, and how far was read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

USER: Literal[0] = 0
ANONYMOUS: Literal[1] = 1
Kind = Literal[0, 1]
"""The kinds of identities, as they are stored."""

BUCKET_BITS = 32
BUCKET_MASK = (1 << BUCKET_BITS) - 1
"""A key of the history in memory is the feature above these bits and the bucket of persons in them. Numbers of persons
fit into them as well."""


class ReadPosition(NamedTuple):
    """The next offset of a partition to read, and how many records were gone before they were read."""

    next_offset: int
    missed: int = 0


class Batch:
    """Filled by ``Ingest`` and ``Backfill``, written by ``ProfileStore``.

    Entries are gathered by feature and bucket: a bucket is the persons whose numbers differ in the lowest ``shift``
    bits alone (``Chunks.shift`` says how many these should be).
    """

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift
        self.records = 0
        """Records of people that were applied."""
        self.entries: defaultdict[int, bytearray] = defaultdict(bytearray)
        self.values: defaultdict[int, bytearray] = defaultdict(bytearray)
        self.persons: dict[int, int] = {}
        """New persons, with the time at which the first record of each was received."""
        self.user_ids: dict[int, str] = {}
        """The user id of persons that got one, or another one."""
        self.merged: dict[int, int] = {}
        """In the order in which they were: into whom somebody was merged may be merged later."""
        self.identities: dict[tuple[Kind, str], int] = {}
        self.repointed: list[tuple[str, int, int]] = []
        """Anonymous id, the position among its own events from which on it is somebody else's, and whose it was until
        then."""
        self.traits: dict[int, list[bytes]] = {}
        self.groups: dict[str, list[bytes]] = {}
        """What each event gives to a person or a group, as it is stored."""
        self.memberships: dict[tuple[str, int], tuple[int, int]] = {}
        """Group and person, with time and position of the earliest record that says so."""
        self.positions: dict[int, ReadPosition] = {}
        self.backfilled: dict[tuple[int, int], int] = {}
        """Feature and partition of a backfill, with the next offset it has to read."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not self.positions and not self.backfilled

    def merged_at_last(self) -> dict[int, int]:
        """Return whom each merged person has come to be."""
        found: dict[int, int] = {}
        for person, into in reversed(self.merged.items()):
            found[person] = found.get(into, into)
        return found

    def ids(self) -> Iterator[str]:
        """Yield the ids of people and groups that it makes known."""
        yield from (id for _, id in self.identities)
        yield from self.groups

    def add_entry(self, person: int, entry: bytes, matched: Iterable[tuple[int, bytes | None]]) -> None:
        """Add one event to the history of features, each with the line of its value there."""
        bucket = person >> self.shift
        for feature, value in matched:
            key = feature << BUCKET_BITS | bucket
            known = self.entries[key]
            known += entry
            if value is not None:
                lines = self.values[key]
                lines += value

    def add_traits(self, person: int, given: bytes) -> None:
        """Take in traits of a person."""
        if given:
            self.traits.setdefault(person, []).append(given)

    def add_group(self, group: str, person: int, given: bytes, at_ms: int, position: int) -> None:
        """Take in that a person belongs to a group, and the group's traits."""
        parts = self.groups.setdefault(group, [])
        if given:
            parts.append(given)
        key = group, person
        self.memberships[key] = min(self.memberships.get(key, (at_ms, position)), (at_ms, position))
