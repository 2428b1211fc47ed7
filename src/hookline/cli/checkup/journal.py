"""The journal: whether it takes records where the settings say that it is, and has all that others know of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, suppress

from hookline.cli.checkup.here import Finding, Here
from hookline.database.home import read_home, refuse_copy
from hookline.database.sqlite import DatabaseAway, DatabaseUnusable
from hookline.features.notices.conditions.journal import SHOWN_MS, detail, still_damaged
from hookline.journal.damaged import described, noted_damage, read_lost
from hookline.journal.opening import FOLDER, journal_of
from hookline.journal.port import JournalAway, JournalCorrupt, JournalUnusable, Reader
from hookline.outcomes.furthest import furthest
from hookline.telemetry.notices import KINDS

ASK_SECONDS = 5.0
READ_SECONDS = 2.0
"""For the newest records: a disk reads a gigabyte or two in it, and nobody waits long for doctor."""


def check_journal(here: Here) -> Iterator[Finding]:
    """Look whether brokers let us in and the topic takes records, for a journal on Kafka."""
    url = here.settings.journal.url
    if here.settings.journal.is_local:
        _read_newest(here)
        found = [*_lost(here), *_missing(here), *_damaged(here)]
        yield from found or [Finding("journal", "ok", "in the data folder")]
        yield from _home(here)
        return
    try:
        reason = journal_of(here.settings).state(ASK_SECONDS)
    except JournalUnusable as error:
        reason = str(error)
    if reason:
        next_step = "Until then events are answered 503. A secret env:… has to be set where this runs, too."
        yield Finding("journal", "fail", reason, next_step)
    else:
        yield Finding("journal", "ok", f"{url} takes records")
        yield from _lost(here)
        with suppress(JournalAway):
            yield from _damaged(here)


def _lost(here: Here) -> Iterator[Finding]:
    """Return what the journal has been found to lack since it was there."""
    now_ms = time.time() * 1000
    for lost in read_lost(here.settings.data_path / FOLDER):
        if now_ms - lost.at_ms < SHOWN_MS:
            message = f"partition {lost.partition} ended before events that were accepted: {detail(lost)}"
            yield Finding("journal", "fail", message, KINDS["journal_behind"].next_step)


def _missing(here: Here) -> Iterator[Finding]:
    """Return what a local journal is about to lack, for others know more of it."""
    try:
        known = furthest(here.settings)
    except DatabaseAway:
        known = furthest(here.settings, has_server=False)
    # Opened after the places were read: they do not go on beyond it meanwhile.
    with closing(journal_of(here.settings).reader()) as reader:
        ends = {partition: reader.end(partition) for partition in {*known, *reader.partitions()}}
        torn = [partition for partition, end in ends.items() if _is_torn(reader, partition, end)]
    for partition, end in ends.items():
        parts = {"its own end file": end} if partition in torn else {}
        parts |= {part: offset for part, offset in known.get(partition, {}).items() if offset > end}
        if parts:
            knowing = ", ".join(f"{part} knows {offset:,}" for part, offset in parts.items())
            message = f"partition {partition} has fewer events than were accepted: it ends at {end:,}, and {knowing}"
            next_step = "Put back the newer journal, if there is one; otherwise the missing events are lost."
            # After a power cut the end is found by those who open it.
            yield Finding("journal", "fail" if here.runs else "warn", message, next_step)


def _is_torn(reader: Reader, partition: int, end: int) -> bool:
    """Return whether the folder says that it ends where it holds nothing; what is damaged is another matter."""
    try:
        return end > 0 and reader.get(partition, end - 1) is None
    except JournalCorrupt:
        return False


def _read_newest(here: Here) -> None:
    """Read the newest records of a local journal for a moment, so that damage is met before somebody needs them:
    readers note what they meet."""
    ends_seconds = time.monotonic() + READ_SECONDS
    with closing(journal_of(here.settings).reader()) as reader:
        for partition in reader.partitions():
            for _ in reader.read_backwards(partition, reader.end(partition)):
                if time.monotonic() > ends_seconds:
                    return


def _damaged(here: Here) -> Iterator[Finding]:
    folder = here.settings.data_path / FOLDER
    lost = still_damaged(folder, noted_damage(folder))
    if lost:
        next_step = "Check the disk, and put the segments back from a snapshot if there is one."
        yield Finding("journal", "warn", f"events of it cannot be read any more: {described(lost)}", next_step)


def _home(here: Here) -> Iterator[Finding]:
    """Return whether the folder is another one's copy, as far as can be told."""
    folder = here.settings.data_path
    home, is_there = read_home(folder)
    try:
        refuse_copy(folder)
    except DatabaseUnusable as error:
        yield Finding("data_folder", "fail", str(error))
        return
    if home is not None and not is_there:
        message = f"the folder was {home} before: it was moved, put back or copied"
        yield Finding("data_folder", "warn", message, "Make sure that no process uses the original folder.")
