"""Notices about the journal: its room, its damage, what it lost, and partitions that nobody reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from hookline.database.location import DatabaseLocation
from hookline.events.timestamps import iso
from hookline.features.fleet.service import FleetLog, FleetPartition
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.features.notices.conditions.machine import megabytes
from hookline.journal.damaged import Damage, Lost, described, noted_damage, read_lost
from hookline.journal.damaged import Lost as End
from hookline.journal.opening import FOLDER, open_reader
from hookline.journal.port import JournalAway
from hookline.journal.reading import is_lost
from hookline.outcomes.reader import DeliverReader
from hookline.telemetry.notices import EVERY

NEAR_SHARE = 0.8
MARGIN = 0.9
"""Down to so much of that share the notice stays."""
SUBJECT = "retention.bytes"
EVERYBODY = "*"


class JournalBudget:
    """Reads collect's report."""

    kinds = ("journal_filling", "events_refused")

    def __init__(self, bytes_max: int) -> None:
        self._near_bytes = int(bytes_max * NEAR_SHARE)
        self._bytes_max = bytes_max

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Return how much is waited for, and each source that is refused."""
        report = moment.reports.get("collect")
        if report is None or not report.fresh:
            return None
        found: list[Finding] = []
        waited = int(report.number("hookline_journal_waited_bytes"))
        if waited >= self._near_bytes * MARGIN:
            detail = f"{megabytes(waited)} of {megabytes(self._bytes_max)}"
            found.append(Finding(self.kinds[0], SUBJECT, detail, weak=waited < self._near_bytes))
        counts = report.by_label("hookline_collect_over_budget_total")
        for source, since in sorted(report.by_label("hookline_collect_over_budget_since_seconds").items()):
            count = int(sum(counts.values()) if source == EVERYBODY else counts.get(source, 0))
            number = f"{count:,}".replace(",", "\u202f")
            # The count may be of earlier times too: it begins with the process.
            refused = f"{number} {'request' if count == 1 else 'requests'} refused since collect started"
            why = "" if source == EVERYBODY else "it stored more than its share, "
            detail = f"{why}since {iso(int(since * 1000))}; {refused}"
            found.append(Finding(self.kinds[1], EVERY if source == EVERYBODY else source, detail, count))
        return found

    def close(self) -> None:
        """Nothing is held."""


LOOK_MS = 60_000
"""What was noted is read again so often: a segment that was put back ends the notice, and so does retention."""
DAMAGE_SUBJECT = "events"
DESTINATIONS_SHOWN_MAX = 5


class JournalDamage:
    """Costs the size of a file while there is none noted."""

    kinds = ("journal_damaged",)

    def __init__(self, folder: Path, deliver: DatabaseLocation) -> None:
        self._folder = folder
        self._deliver = DeliverReader(deliver)
        self._noted: list[Damage] = []
        self._left: list[Damage] = []
        self._looked_ms = 0

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Return one finding for all that cannot be read; None while brokers do not say whether they have it."""
        noted = noted_damage(self._folder)
        if noted != self._noted or (noted and abs(moment.now_ms - self._looked_ms) >= LOOK_MS):
            self._looked_ms = moment.now_ms
            try:
                self._left = still_damaged(self._folder, noted)
            except JournalAway:  # they are asked again with the next look
                return None
            self._noted = noted
        if not self._left:
            return ()
        since = iso(min(each.at for each in self._left))
        count = sum(each.events for each in self._left)
        detail = f"{described(self._left)}; found at {since}; {who_missed(self._deliver, self._left)}"
        return [Finding(self.kinds[0], DAMAGE_SUBJECT, detail, count)]

    def close(self) -> None:
        """Close the database; idempotent."""
        self._deliver.close()


def who_missed(deliver: DeliverReader, spans: Iterable[Damage | End]) -> str:
    """Say which destinations waited for events that are gone."""
    if not deliver.exists:
        return "the destinations that missed them are unknown"
    found: set[str] = set()
    for each in spans:
        end = each.next if isinstance(each, Damage) else each.next_offset
        found |= deliver.destinations_without(each.partition, each.first, end)
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


SHOWN_MS = 7 * 86_400_000
"""So long after the loss its notice stays open."""


class JournalLost:
    """Reads one small file, and deliver's database while there is something to tell."""

    kinds = ("journal_behind",)

    def __init__(self, data_path: Path, deliver: DatabaseLocation) -> None:
        self._folder = data_path / FOLDER
        self._deliver = DeliverReader(deliver)

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return the newest loss of each partition."""
        newest = {lost.partition: lost for lost in read_lost(self._folder) if moment.now_ms - lost.at_ms < SHOWN_MS}
        return [
            Finding(self.kinds[0], str(partition), f"{detail(lost)}; {who_missed(self._deliver, [lost])}")
            for partition, lost in newest.items()
        ]

    def close(self) -> None:
        """Close the database; idempotent."""
        self._deliver.close()


def detail(lost: Lost) -> str:
    """Return what is missing, who knew it and when that was found."""
    known_by = ", ".join(lost.known_by) or "its own end file"
    span = f"offsets {lost.first:,} to {lost.next_offset - 1:,}"
    return f"{span} are missing since {iso(lost.at_ms)}, and are known to {known_by}"


class Partitions:
    """Looks at who owns what; costs one look at the database and at brokers in each turn, and nothing elsewhere."""

    kinds = ("partition_unowned",)

    def __init__(self, fleet: FleetLog, topic: str, unowned_seconds: float) -> None:
        self._fleet = fleet
        self._topic = topic
        self._unowned_ms = unowned_seconds * 1000
        self._since_ms: dict[int, int] = {}
        """By partition that nobody has: when that was first seen."""

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Return one for all partitions that have been nobody's for too long and have something to be read; None while
        brokers do not tell whether they have."""
        unowned = self._fleet.look().unowned  # also where this tells nothing: others go by what was seen
        if not self._unowned_ms:
            return ()
        self._since_ms = {each.partition: self._since_ms.get(each.partition, moment.now_ms) for each in unowned}
        if any(each.behind is None for each in unowned):
            return None
        unread = [each for each in unowned if each.behind]
        waiting = [each.partition for each in unread if self._is_long(each, moment)]
        if not waiting:
            # One that is open stays so: since when is forgotten with the process, and a clock may be set back.
            return [Finding("partition_unowned", self._topic, "", weak=True)] if unread else ()
        named = ", ".join(map(str, waiting))
        detail = f"{'partition' if len(waiting) == 1 else 'partitions'} {named}"
        return [Finding("partition_unowned", self._topic, detail, len(waiting))]

    def close(self) -> None:
        """Nothing is held: what looks is closed by whoever made it."""

    def _is_long(self, partition: FleetPartition, moment: Moment) -> bool:
        return moment.has_lasted(self._since_ms[partition.partition], self._unowned_ms)
