"""Events of the journal that the disk has lost: what readers noted, as long as it is so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path

from hookline.control.conditions.finding import Finding, Moment
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.events.timestamps import iso
from hookline.journal.damaged import Damage, described, noted_damage
from hookline.journal.lost import Lost as End
from hookline.journal.lost import read_lost
from hookline.journal.opening import open_reader
from hookline.journal.port import JournalAway
from hookline.journal.reading import is_lost

LOOK_MS = 60_000
"""What was noted is read again so often: a segment that was put back ends the notice, and so does retention."""
SUBJECT = "events"
DESTINATIONS_SHOWN_MAX = 5


class JournalDamage:
    """Costs the size of a file while there is none noted."""

    kinds = ("journal_damaged",)

    def __init__(self, folder: Path, deliver: DatabaseLocation) -> None:
        self._folder = folder
        self._database = ReadOnly(deliver)
        self._noted: list[Damage] = []
        self._left: list[Damage] = []
        self._looked_ms = 0

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return one finding for all that cannot be read."""
        noted = noted_damage(self._folder)
        if noted != self._noted or (noted and moment.now_ms - self._looked_ms >= LOOK_MS):
            with suppress(JournalAway):  # brokers are asked again with the next look
                self._left = still_damaged(self._folder, noted)
                self._noted = noted
            self._looked_ms = moment.now_ms
        if not self._left:
            return ()
        since = iso(min(each.at for each in self._left))
        count = sum(each.events for each in self._left)
        detail = f"{described(self._left)}; found at {since}; {who_missed(self._database, self._left)}"
        return [Finding(self.kinds[0], SUBJECT, detail, count)]

    def close(self) -> None:
        """Close the database; idempotent."""
        self._database.close()


def who_missed(deliver: ReadOnly, spans: Iterable[Damage | End]) -> str:
    """Say which destinations waited for events that are gone."""
    connection = deliver.open()
    if connection is None:
        return "the destinations that missed them are unknown"
    found: set[str] = set()
    for each in spans:
        end = each.next if isinstance(each, Damage) else each.next_offset
        rows = connection.execute(
            "SELECT DISTINCT destination FROM ranges WHERE status = 'discarded' AND reason LIKE 'journal segment %'"
            " AND partition = ? AND first_offset < ? AND last_offset >= ?",
            (each.partition, end, each.first),
        )
        found.update(row[0] for row in rows.fetchall())
    if not found:
        return "no destination missed them"
    shown = ", ".join(sorted(found)[:DESTINATIONS_SHOWN_MAX])
    return f"not delivered to {shown}" + (" and others" if len(found) > DESTINATIONS_SHOWN_MAX else "")


def still_damaged(folder: Path, noted: Sequence[Damage]) -> list[Damage]:
    """Those that are still kept and cannot be read, but for what the journal ended before: that is told as a whole
    (``journal_lost``)."""
    if not noted:
        return []
    ends = read_lost(folder)
    with closing(open_reader(folder)) as reader:
        reader.limit_wait()
        return [
            each
            for each in noted
            if not _is_of_end(each, ends) and is_lost(reader, each.partition, each.first, each.next)
        ]


def _is_of_end(each: Damage, ends: Sequence[End]) -> bool:
    return any(
        end.partition == each.partition and end.first <= each.first and each.next <= end.next_offset for end in ends
    )
