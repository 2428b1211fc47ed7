"""The journal ended before what the rest of the installation knew: what is missing, who waited for it, and when that
was found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.features.notices.conditions.journal_damage import who_missed
from hookline.journal.lost import Lost, read_lost
from hookline.journal.opening import FOLDER

TOLD_MS = 7 * 86_400_000
"""So long after the loss its notice stays open."""


class JournalLost:
    """Reads one small file, and deliver's database while there is something to tell."""

    kinds = ("journal_behind",)

    def __init__(self, data_path: Path, deliver: DatabaseLocation) -> None:
        self._folder = data_path / FOLDER
        self._database = ReadOnly(deliver)

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return the newest loss of each partition."""
        newest = {lost.partition: lost for lost in read_lost(self._folder) if moment.now_ms - lost.at_ms < TOLD_MS}
        return [
            Finding(self.kinds[0], str(partition), f"{detail(lost)}; {who_missed(self._database, [lost])}")
            for partition, lost in newest.items()
        ]

    def close(self) -> None:
        """Close the database; idempotent."""
        self._database.close()


def detail(lost: Lost) -> str:
    """Return what is missing, who knew it and when that was found."""
    known_by = ", ".join(lost.known_by) or "its own end file"
    span = f"offsets {lost.first:,} to {lost.next_offset - 1:,}"
    return f"{span} are missing since {iso(lost.at_ms)}, and are known to {known_by}"
