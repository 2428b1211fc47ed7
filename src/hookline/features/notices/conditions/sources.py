"""Silent sources: a source that had events and has had none for a while.

Collect reports when each source was last heard since it started; what is older is remembered in ``control.db``.
"""

from __future__ import annotations

from collections.abc import Sequence

from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.features.sources.activity import SourceActivity
from hookline.telemetry.metrics import PROCESS_STARTED

SOURCE_LAST_EVENT = "hookline_collect_source_last_event_seconds"
SAVE_MS = 60_000
"""The remembered time of a source that goes on sending is at most so old."""
GRACE_MS_MAX = 600_000
"""Time that senders get to come back after collect was away."""


class Sources:
    """Compares collect's report with what is remembered."""

    kinds = ("source_silent",)

    def __init__(self, activity: SourceActivity, silent_seconds: float) -> None:
        self._activity = activity
        self._silent_ms = int(silent_seconds * 1000)
        self._saved_ms: dict[str, int] | None = None
        self._last_ms: dict[str, int] = {}

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Enabled sources without an event for longer than the threshold; None while collect does not report."""
        collect = moment.reports.get("collect")
        if collect is None or not collect.fresh:
            return None
        if self._saved_ms is None:
            self._saved_ms = self._activity.load()
            self._last_ms = dict(self._saved_ms)
        for id, seconds in collect.by_label(SOURCE_LAST_EVENT).items():
            self._last_ms[id] = max(int(seconds * 1000), self._last_ms.get(id, 0))
        self._save({stored.object.id for stored in moment.sources}, self._saved_ms)
        up_ms = moment.now_ms - collect.number(PROCESS_STARTED) * 1000
        if not self._silent_ms or up_ms < min(GRACE_MS_MAX, self._silent_ms):
            return () if not self._silent_ms else None
        enabled = [stored.object.id for stored in moment.sources if stored.object.enabled]
        return [self._finding(id) for id in enabled if self._is_silent(id, moment.now_ms)]

    def close(self) -> None:
        """Let go of what is remembered; idempotent."""
        self._activity.close()

    def _is_silent(self, id: str, now_ms: int) -> bool:
        return id in self._last_ms and now_ms - self._last_ms[id] >= self._silent_ms

    def _finding(self, id: str) -> Finding:
        return Finding(self.kinds[0], id, f"its last event arrived at {iso(self._last_ms[id])}")

    def _save(self, known: set[str], saved_ms: dict[str, int]) -> None:
        """Remember what moved on, and forget sources that are no longer there."""
        gone = self._last_ms.keys() - known
        for id in gone:
            del self._last_ms[id]
        moved = {id: at for id, at in self._last_ms.items() if at - saved_ms.get(id, 0) >= SAVE_MS}
        if moved or gone & saved_ms.keys():
            self._activity.save(moved, gone & saved_ms.keys())
            saved_ms.update(moved)
            for id in gone:
                saved_ms.pop(id, None)
