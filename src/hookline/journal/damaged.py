"""Note which records of a data folder's journal were found damaged or missing, and which it once held and holds no
more.

Readers are many (delivery, people, searches) and end; the notice, ``hookline doctor`` and people look here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from hookline.journal.port import JournalCorrupt, Lookups
from hookline.journal.record import journal_ms
from hookline.telemetry.log import logger
from hookline.whole_file import write_whole

DAMAGED_NAME = "damaged"
RANGES_MAX = 1_000
"""Noted in one file; a disk that fails more than that has been told of."""
_BYTES_MAX = 512 * 1024


class Damage(msgspec.Struct, frozen=True):
    """Records ``[first, next)`` of a partition that could not be read when somebody wanted to."""

    partition: int
    first: int
    next: int
    segment: str
    is_missing: bool
    at: int
    """When that was found, in milliseconds."""

    @property
    def events(self) -> int:
        """Return how many events it may be at most."""
        return self.next - self.first

    def covers(self, offsets: Iterable[int]) -> bool:
        """Return whether one of these offsets of its partition is in it."""
        return any(self.first <= each < self.next for each in offsets)


def note_damage(folder: Path, partition: int, error: JournalCorrupt) -> None:
    """Add what a reader of the journal in ``folder`` has met, once; a folder that cannot be written stays as it is."""
    found = Damage(partition, error.offset, error.next_offset, error.segment, error.is_missing, int(time.time() * 1000))
    with suppress(OSError):
        known = noted_damage(folder)
        if len(known) >= RANGES_MAX or any(_covers(each, found) for each in known):
            return
        fd = os.open(folder / DAMAGED_NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.geteuid() == 0:  # doctor as root: those who run the service read and write it, too
                owner = os.stat(folder)
                os.fchown(fd, owner.st_uid, owner.st_gid)
            os.write(fd, msgspec.json.encode(found) + b"\n")
        finally:
            os.close(fd)


def noted_damage(folder: Path) -> list[Damage]:
    """Return what was noted, once each, in the order in which it was found; unreadable lines are passed over."""
    try:
        with (folder / DAMAGED_NAME).open("rb") as file:
            lines = file.read(_BYTES_MAX).splitlines()
    except FileNotFoundError:
        return []
    found: dict[tuple[int, int, int], Damage] = {}
    for line in lines[:RANGES_MAX]:
        with suppress(msgspec.MsgspecError):
            each = msgspec.json.decode(line, type=Damage)
            found.setdefault((each.partition, each.first, each.next), each)  # two readers may meet it in one moment
    return list(found.values())


def described(damages: Iterable[Damage]) -> str:
    """Ranges in words: how many events at most, and where."""
    found = sorted(damages, key=lambda each: (each.partition, each.first))
    events = sum(each.events for each in found)
    shown = [
        f"offset{'' if each.events == 1 else 's'} {each.first}{'' if each.events == 1 else f' to {each.next - 1}'} of"
        f" partition {each.partition} ({'missing' if each.is_missing else 'damaged'}, {each.segment})"
        for each in found[:3]
    ]
    more = f" and {len(found) - 3} more ranges" if len(found) > 3 else ""
    return f"{events} event{'' if events == 1 else 's'} at most: {'; '.join(shown)}{more}"


def _covers(known: Damage, found: Damage) -> bool:
    return known.partition == found.partition and known.first <= found.first and found.next <= known.next


LOST_NAME = "lost.json"
"""In the journal's folder."""
KEPT_MAX = 100
"""The newest of them are kept."""


class Lost(msgspec.Struct, frozen=True):
    """The offsets ``[first, next_offset)`` of a partition: the journal ended before them when it was opened at this
    time, and goes on behind. ``known_by`` are the parts of the data folder that knew them."""

    partition: int
    first: int
    next_offset: int
    at_ms: int
    known_by: tuple[str, ...] = ()


def read_lost(journal: Path) -> tuple[Lost, ...]:
    """Return what was noted in a journal's folder, oldest first; nothing where that cannot be read."""
    try:
        return msgspec.json.decode((journal / LOST_NAME).read_bytes(), type=tuple[Lost, ...])
    except (OSError, msgspec.MsgspecError):
        return ()


def note_lost(journal: Path, lost: Sequence[Lost]) -> None:
    """Add to what is noted."""
    write_whole(journal / LOST_NAME, msgspec.json.encode((*read_lost(journal), *lost)[-KEPT_MAX:]))


class Short(NamedTuple):
    """Hold where a partition ended when that was before ``next_offset``, up to which it had been read, and when that
    was seen."""

    end: int
    next_offset: int
    seen_ms: int


def report_behind(partition: int, end: int, next_offset: int) -> None:
    """Log that brokers lost the end of a partition."""
    next_step = "it goes on once the topic has come to the next offset again; see to the brokers' disks"
    logger().error("partition_behind", partition=partition, ends=end, next_offset=next_offset, next_step=next_step)


def note_if_given_again(journal: Path, lookups: Lookups, partition: int, short: Short) -> None:
    """Note what brokers lost of a partition that was too short and is long enough again; what was only late to be seen
    had been stored before. Raise JournalAway as long as that cannot be known."""
    found = lookups.get(partition, short.end)
    if found is None or journal_ms(found) >= short.seen_ms:
        note_given_again(journal, partition, short.end, short.next_offset)


def note_given_again(journal: Path, partition: int, first: int, next_offset: int) -> None:
    """Note what brokers lost of what was read, when others have its offsets now: those are not sent by themselves."""
    logger().error("offsets_given_again", partition=partition, first=first, next_offset=next_offset)
    with suppress(OSError):  # it is in the log
        note_lost(journal, [Lost(partition, first, next_offset, int(time.time() * 1000), ("deliver",))])
