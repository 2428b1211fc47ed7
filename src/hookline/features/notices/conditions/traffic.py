"""Notices about what goes through: items that are rejected, names that are new, requests that often fail, and
destinations that are behind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from hookline.connections.model import Destination
from hookline.connections.notifications import DEFAULT_SHARE_SECONDS, Notification, lowest_count, lowest_seconds
from hookline.connections.state import Stored
from hookline.database.location import DatabaseLocation
from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.insights.schema import News
from hookline.insights.series import Recent
from hookline.journal.opening import FOLDER, open_reader
from hookline.journal.port import Reader
from hookline.journal.reading import read_on
from hookline.journal.record import Record, journal_ms
from hookline.outcomes.reader import DeliverReader, first_undone
from hookline.route.decision import not_routed_reason

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
CODES_SHOWN_MAX = 3
NAMES_SHOWN_MAX = 5
NAME_CHARACTERS_MAX = 80
NEWS_AGE_MS_MAX = HOUR_MS
"""What the reader comes upon later than this is history: it reads all of the journal when it first starts."""


class Traffic:
    """Takes what the reader of schemas came upon, which reads everything anyway."""

    kinds = ("events_rejected", "event_name_new")

    def __init__(self, take_news: Callable[[], Sequence[News]], threshold: int) -> None:
        self._take_news = take_news
        self._threshold = threshold
        self._begun_ms: int | None = None
        # Per source and minute: how many items were rejected, by code.
        self._rejected: defaultdict[str, dict[int, Counter[str]]] = defaultdict(dict)

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Sources with too many rejected items within the hour, and sources with new names since the last look."""
        self._begun_ms = self._begun_ms or moment.now_ms
        names: defaultdict[str, list[str]] = defaultdict(list)
        for each in self._take_news():
            if moment.now_ms - each.at_ms > NEWS_AGE_MS_MAX:
                continue
            if each.name:
                names[each.source].append(each.name)
            else:
                minutes = self._rejected[each.source]
                minutes.setdefault(each.at_ms // MINUTE_MS, Counter())[each.rejected] += 1
        self._forget(moment.now_ms)
        return [*self._too_many(moment), *self._new(moment, names)]

    def close(self) -> None:
        """Nothing is held."""

    def _forget(self, now_ms: int) -> None:
        first = (now_ms - HOUR_MS) // MINUTE_MS
        for source, minutes in list(self._rejected.items()):
            for minute in [each for each in minutes if each < first]:
                del minutes[minute]
            if not minutes:
                del self._rejected[source]

    def _too_many(self, moment: Moment) -> list[Finding]:
        rules = moment.waits_for("rejected_events")
        found: list[Finding] = []
        looked_at = self._rejected.keys() | {subject for kind, subject in moment.notices if kind == "events_rejected"}
        for source in sorted(looked_at & {stored.object.id for stored in moment.sources} if looked_at else ()):
            codes = sum(self._rejected.get(source, {}).values(), Counter[str]())
            count, threshold = codes.total(), lowest_count(rules, "rejected_events", source, self._threshold)
            # For the first hour of this process its counts are not yet whole: a notice that is open stays so.
            is_young = moment.now_ms - (self._begun_ms or 0) < HOUR_MS and ("events_rejected", source) in moment.notices
            if threshold and (count * 2 >= threshold or is_young):
                often = ", ".join(f"{code} ({number})" for code, number in codes.most_common(CODES_SHOWN_MAX))
                detail = f"{count} in the last hour" + (f": {often}" if often else "")
                found.append(Finding("events_rejected", source, detail, count, weak=count < threshold))
        return found

    def _new(self, moment: Moment, names: Mapping[str, Sequence[str]]) -> list[Finding]:
        rules = moment.waits_for("new_event_name")
        found: list[Finding] = []
        for source, new in sorted(names.items()):
            if any(rule.covers("new_event_name", source, "") for rule in rules):
                shown = ", ".join(f"“{name[:NAME_CHARACTERS_MAX]}”" for name in new[:NAMES_SHOWN_MAX])
                more = f" and {len(new) - NAMES_SHOWN_MAX} more" if len(new) > NAMES_SHOWN_MAX else ""
                found.append(Finding("event_name_new", source, shown + more, len(new)))
        return found


REQUESTS_MIN = 10
"""Of fewer requests no share is worth a message."""
WEAK = 0.8
"""Down to so much of the share a notice stays."""


class FailedShare:
    """Reads the time series, and only if a rule asks for it."""

    kinds = ("destination_degraded",)

    def __init__(self, recent: Callable[[int, int], Mapping[str, Recent]]) -> None:
        self._recent = recent
        # What was read for this second, by span: rules often share theirs.
        self._read_at = 0
        self._read: dict[int, Mapping[str, Recent]] = {}

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Destinations of which some rule's share of requests failed, over the time that the rule says."""
        found: dict[str, Finding] = {}
        for rule in moment.waits_for("destination_failing"):
            for destination, finding in self.of_rule(rule, moment.now_ms).items():
                if destination in moment.enabled and (destination not in found or found[destination].weak):
                    found[destination] = finding
        return list(found.values())

    def of_rule(self, rule: Notification, now_ms: int) -> dict[str, Finding]:
        """Return what one rule finds by its own share and time, by destination."""
        share = None if rule.threshold is None else rule.threshold.failed_share
        if share is None:
            return {}
        seconds = int(rule.lasting_seconds or DEFAULT_SHARE_SECONDS)
        found: dict[str, Finding] = {}
        for destination, counts in self._counts(seconds, now_ms // 1000).items():
            requests = counts.delivered + counts.failures
            failed = counts.failures / requests if requests else 0.0
            if requests < REQUESTS_MIN or failed < share * WEAK:
                continue
            if rule.covers("destination_failing", destination, ""):
                detail = f"{failed:.0%} of {requests} requests in the last {max(1, seconds // 60)} min"
                weak = failed < share
                found[destination] = Finding(self.kinds[0], destination, detail, round(failed * 100), weak=weak)
        return found

    def _counts(self, seconds: int, now_seconds: int) -> Mapping[str, Recent]:
        if self._read_at != now_seconds:
            self._read_at, self._read = now_seconds, {}
        if seconds not in self._read:
            self._read[seconds] = self._recent(seconds, now_seconds)
        return self._read[seconds]

    def close(self) -> None:
        """Nothing is held: whoever made what reads closes it."""


LOOK_MS = 30_000
"""A journal is read for it: what takes an hour to come need not be looked for every few seconds."""
RECORDS_MAX = 5_000
"""Records looked at for the first that goes to the destination; where they are not enough, the last of them counts."""


class _Waiting(NamedTuple):
    """Hold since when the oldest event of a destination waits: as it is shown, and by the service's own clock, which
    nobody sets."""

    destination: str
    since_ms: int
    steady_ms: int


class Backlog:
    """Reads deliver's rows of lanes that stand apart, and for each a record of the journal."""

    kinds = ("backlog_old",)

    def __init__(
        self, data_path: Path, deliver: DatabaseLocation, age_seconds: float, steady_ms: Callable[[], int]
    ) -> None:
        self._deliver = DeliverReader(deliver)
        self._folder = data_path / FOLDER
        self._age_seconds = age_seconds
        self._steady_ms = steady_ms
        self._looked_ms = -LOOK_MS
        self._waiting: list[_Waiting] = []

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Destinations whose oldest queued event is too old; a pause, and an open breaker, are told otherwise."""
        rules = moment.waits_for("backlog_age")
        if not self._age_seconds and not rules:
            return ()
        if not self._deliver.exists or moment.open_breakers is None:
            return None
        now_ms = self._steady_ms()
        if now_ms - self._looked_ms >= LOOK_MS:
            self._waiting = self._oldest(moment)
            self._looked_ms = now_ms
        held = moment.pauses.keys() | moment.open_breakers
        return [
            found
            for each in self._waiting
            if each.destination in moment.enabled - held and (found := self._finding(each, now_ms, rules)) is not None
        ]

    def close(self) -> None:
        """Close the database; idempotent."""
        self._deliver.close()

    def _finding(self, waiting: _Waiting, now_ms: int, rules: Sequence[Notification]) -> Finding | None:
        id, since_ms, steady_ms = waiting
        threshold_ms = lowest_seconds(rules, "backlog_age", id, self._age_seconds) * 1000
        if not threshold_ms or now_ms - steady_ms < threshold_ms / 2:
            return None
        detail = f"its oldest queued event came in at {iso(since_ms)}"
        return Finding(self.kinds[0], id, detail, since_ms=since_ms, weak=now_ms - steady_ms < threshold_ms)

    def _oldest(self, moment: Moment) -> list[_Waiting]:
        lanes = {stored.lane.number: stored for stored in moment.destinations.values() if stored.lane is not None}
        oldest: dict[str, Record] = {}
        with closing(open_reader(self._folder)) as journal:
            journal.limit_wait()
            for row in self._deliver.lanes():
                stored, first = lanes.get(row.lane), first_undone(row)
                if stored is None or first is None:
                    continue
                record = _first_of(journal, stored, row.partition, first)
                if record is not None:
                    id = stored.object.id
                    oldest[id] = min(record, oldest.get(id, record), key=journal_ms)
        return [_Waiting(id, each.received_at, journal_ms(each)) for id, each in sorted(oldest.items())]


def _first_of(journal: Reader, stored: Stored[Destination], partition: int, offset: int) -> Record | None:
    """Return the first event from an offset on that goes to a destination, None when none does."""
    groups = read_on(journal, partition, offset, journal.end(partition))
    records = ((group.first_offset + index, record) for group in groups for index, record in enumerate(group.records))
    for count, (place, record) in enumerate(each for each in records if each[0] >= offset):
        is_event = record.rejection is None and not record.erased
        if is_event and not_routed_reason(record, stored.object, stored.lane, partition, place) is None:
            return record
        if count >= RECORDS_MAX:
            return record
    return None
