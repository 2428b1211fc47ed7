"""The bytes of a local journal: nearly spent on what working destinations wait for, and whose events are refused."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.events.timestamps import iso
from hookline.features.notices.conditions.disk import megabytes
from hookline.features.notices.conditions.finding import Finding, Moment

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
            if source == EVERYBODY:
                detail = f"every source is since {iso(int(since * 1000))}, {count} requests so far"
                found.append(Finding(self.kinds[1], "of any name", detail, count))
            else:
                detail = f"it stored more than its share; since {iso(int(since * 1000))}, {count} requests so far"
                found.append(Finding(self.kinds[1], source, detail, count))
        return found

    def close(self) -> None:
        """Nothing is held."""
