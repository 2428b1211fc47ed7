"""Sorts events into files: which folder and name each file has, and what stands in a row of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from hookline.kinds.model import Json
from hookline.kinds.sink import SinkEvent
from hookline.remembered import Remembered

GROUPS_MAX = 256
"""Folders that one write fills: whoever makes up event names must not make thousands of files. The smallest groups
beyond that go to OTHER."""
OTHER = "_other"
"""No cleaned name begins with an underscore."""
LABEL_CHARACTERS_MAX = 60
PERSON_FIELDS = ("userId", "anonymousId", "previousId")
"""The fields by which rows of a person are found."""
HASH_BYTES = 3
"""Of a person's id in a manifest: enough that few files are read in vain, and too few to tell who it is."""
REMEMBERED_BYTES_MAX = 2 * 1024 * 1024
"""Of the ids, and of the names, whose forms are at hand."""
REMEMBERED_ENTRY_BYTES_MAX = 1_024
"""A longer text is worked on each time: senders make up what stands there."""

Row = Mapping[str, Json]


class FilePlan(NamedTuple):
    """One file that is to be written: where, and its rows in the order of the stream."""

    path: str
    partition: int
    first: int
    last: int
    rows: list[Row]
    people: frozenset[bytes]


class _Group(NamedTuple):
    source: str
    label: str
    hour: str
    partition: int


def plan_files(events: Sequence[SinkEvent], suffix: str) -> list[FilePlan]:
    """Return the files that hold the events, each in exactly one of them."""
    keys = [_group_of(event) for event in events]
    counts = Counter(keys)
    kept = {key for key, _ in counts.most_common(GROUPS_MAX)}
    grouped: dict[_Group, list[SinkEvent]] = {}
    for key, event in zip(keys, events, strict=True):
        grouped.setdefault(key if key in kept else key._replace(label=OTHER), []).append(event)
    return [_plan(key, sorted(members, key=_offset_of), suffix) for key, members in grouped.items()]


def row_of(event: SinkEvent) -> Row:
    """Return an event as it stands in a file: its fields, and its place in the journal."""
    row = {name: value for name, value in event.fields.items() if name != "settings"}
    row["journal_partition"] = event.partition
    row["journal_offset"] = event.offset
    return row


def people_of(row: Row) -> Iterable[str]:
    """Yield the ids by which a row belongs to somebody."""
    for name in PERSON_FIELDS:
        value = row.get(name)
        if value is not None and value != "":
            yield str(value)


def _found_hash(id: str) -> bytes:
    return blake2b(id.encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).digest()


def _cleaned(name: str) -> str:
    cleaned = re.sub(r"[^a-z0-9-]+", "_", name.lower()).strip("_-")[:LABEL_CHARACTERS_MAX].rstrip("_-")
    # A name in another script has nothing left; its hash keeps it apart from others.
    return cleaned or "x" + blake2b(name.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


hash_of = Remembered(_found_hash, REMEMBERED_BYTES_MAX, REMEMBERED_ENTRY_BYTES_MAX).__getitem__
"""Return what a manifest keeps of an id."""
clean = Remembered(_cleaned, REMEMBERED_BYTES_MAX, REMEMBERED_ENTRY_BYTES_MAX).__getitem__
"""Return a name as a part of a path: small letters, digits, ``_`` and ``-``."""


@lru_cache(maxsize=256)
def _hour_text(hour: int) -> str:
    return datetime.fromtimestamp(hour * 3_600, UTC).strftime("%Y-%m-%dT%H")


def _group_of(event: SinkEvent) -> _Group:
    fields = event.fields
    type = str(fields.get("type", ""))
    name = fields.get("event") if type == "track" else type
    label = clean(str(name or type))
    hour = _hour_text(event.received_at_ms // 3_600_000)
    return _Group(clean(str(fields.get("source", ""))), label, hour, event.partition)


def _plan(key: _Group, members: Sequence[SinkEvent], suffix: str) -> FilePlan:
    first, last = members[0].offset, members[-1].offset
    rows = [row_of(event) for event in members]
    people = frozenset(hash_of(id) for row in rows for id in people_of(row))
    folder = f"source={key.source}/event_name={key.label}/hour={key.hour}"
    path = f"{folder}/{key.partition}-{first:012d}-{last:012d}{suffix}"
    return FilePlan(path, key.partition, first, last, rows, people)


def _offset_of(event: SinkEvent) -> int:
    return event.offset
