"""Up to where each part of an installation knows a local journal, which all of them outlive: positions of readers,
results, starts of lanes, the index.

Offsets name events everywhere. Where the journal is older than the rest (put back from a copy, deleted, copied while it
was written) it would give offsets away a second time, and what is known of the lost events would be said of new ones.
So who opens the journal has it go on behind all that is known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hookline.database.home import ENDS, read_ends
from hookline.database.location import DatabaseLocation, Which, location_of
from hookline.database.read_only import ReadOnly
from hookline.database.sqlite import DatabaseAway, engine
from hookline.index.run import SUFFIX
from hookline.limits import LIMITS
from hookline.outcomes.progress import DUPLICATE_TAG, ENTRY, OFFSET_MASK, POSITION_SHIFT
from hookline.outcomes.reader import OFFSET_MAX, DeliverReader
from hookline.replays.offset_set import decode_offset_sets
from hookline.settings import Settings
from hookline.telemetry.log import logger

ALONE_MAX = 1 << 24
"""Entries of the ring have no checksum. One that lies further than this beyond all others is damage, not a position."""

_PLACES: dict[Which, tuple[str, ...]] = {
    "profiles": (
        "SELECT partition, next_offset FROM places",
        "SELECT partition, max(end_offset) FROM backfills GROUP BY 1",
    ),
    "insights": ("SELECT partition, next_offset FROM schema_places",),
}
_ENDS = ("SELECT ends FROM versions ORDER BY version DESC LIMIT 1", "SELECT ends FROM replays")
"""The journal's ends as control saw them: lanes begin, and replays end, there or before."""
_ERASED = "SELECT places FROM deletion_requests WHERE places IS NOT NULL AND state = 'clearing'"


Known = dict[int, dict[str, int]]
"""By partition: the parts of a data folder, or of its database, each with the offset below which it knows them all."""


class _Place(NamedTuple):
    part: str
    partition: int
    next_offset: int


def furthest(settings: Settings, has_server: bool = True) -> Known:
    """Return what every part knows of a local journal; without ``has_server`` what files say alone.

    Raise DatabaseAway while PostgreSQL cannot be asked. A part that cannot be read is left out, and its role says so.
    """
    known: Known = {}
    positions = chain(_databases(settings) if has_server else (), _files(settings.data_path))
    for part, partition, offset in positions:
        if 0 < offset < OFFSET_MAX:
            parts = known.setdefault(partition, {})
            parts[part] = max(parts.get(part, 0), offset)
    for partition, offset in _ring(settings.data_path / "progress.ring", known).items():
        known.setdefault(partition, {})["progress.ring"] = offset
    return known


def _databases(settings: Settings) -> Iterator[_Place]:
    deliver = location_of(settings, "deliver")
    with closing(DeliverReader(deliver)) as reader:
        for partition, offset in _readable(deliver, reader.furthest_offsets()):
            yield _Place(_name(deliver), partition, offset or 0)
    for which, queries in _PLACES.items():
        location = location_of(settings, which)
        for partition, offset in _rows(location, queries):
            yield _Place(_name(location), partition, offset or 0)
    control, privacy = location_of(settings, "control"), location_of(settings, "privacy")
    for (ends,) in _rows(control, _ENDS):
        for partition, offset in _decoded(ends).items():
            yield _Place(_name(control), partition, offset)
    for (blob,) in _rows(privacy, (_ERASED,)):
        for partition, positions in decode_offset_sets(blob).items():
            yield _Place(_name(privacy), partition, positions.end)


def _files(data: Path) -> Iterator[_Place]:
    for number, noted in (read_ends(data) or {}).items():
        yield _Place(ENDS, number, noted)
    for folder in (data / "index").glob("[0-9]*"):
        for run in folder.glob("*-*" + SUFFIX):
            partition, end = folder.name, run.stem.partition("-")[2]
            if partition.isdecimal() and end.isdecimal():
                yield _Place("index", int(partition), int(end))


def _rows(location: DatabaseLocation, queries: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    with closing(ReadOnly(location)) as database:
        yield from _readable(location, _found(database, queries))


def _found(database: ReadOnly, queries: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    connection = database.open()
    if connection is not None:
        for query in queries:
            yield from connection.execute(query).fetchall()


def _readable(location: DatabaseLocation, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield rows as far as they can be read: of a file that is halved, or of an older schema, who writes it has the
    last word."""
    try:
        yield from rows
    except DatabaseAway:
        raise
    except engine.Error as error:
        logger().warning("places_not_read", part=_name(location), error=str(error))


def _ring(path: Path, known: Known) -> dict[int, int]:
    """Return up to where the ring knows each partition, without what a flipped bit made of a position."""
    try:
        content = path.read_bytes()[: LIMITS.ring_entries * ENTRY.size]
    except OSError:
        return {}
    ends: dict[int, list[int]] = {}
    for position, at_ms, tag, _, _ in ENTRY.iter_unpack(content[: len(content) // ENTRY.size * ENTRY.size]):
        for each in (position, at_ms) if tag == DUPLICATE_TAG else (position,):
            if position or at_ms:
                ends.setdefault(each >> POSITION_SHIFT, []).append((each & OFFSET_MASK) + 1)
    found: dict[int, int] = {}
    for partition, offsets in ends.items():
        others = max(known.get(partition, {}).values(), default=0)
        offsets.sort()
        while offsets and _is_alone(offsets, others):
            offsets.pop()
        if offsets:
            found[partition] = offsets[-1]
    return found


def _is_alone(offsets: list[int], others: int) -> bool:
    """Return whether the last of these ascending offsets is that of no event."""
    before = max(others, *offsets[-2:-1]) if len(offsets) > 1 else others
    return offsets[-1] >= OFFSET_MAX or offsets[-1] - before > ALONE_MAX


def _decoded(ends: str) -> Mapping[int, int]:
    try:
        return msgspec.json.decode(ends, type=dict[int, int])
    except msgspec.MsgspecError:
        return {}


def _name(location: DatabaseLocation) -> str:
    return location.name if isinstance(location, Path) else str(location)
