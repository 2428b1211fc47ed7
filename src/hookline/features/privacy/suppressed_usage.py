"""How many events of suppressed people came in, by source and day: what collect reports, kept in ``privacy.db``.

Collect counts from its start on and stores nothing of these events, so what it counted in its last second before it
was killed is not known.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta

from hookline.database.upsert import replacing
from hookline.features.fleet.metrics import RoleMetrics
from hookline.features.usage.service import EPOCH, By
from hookline.privacy.store import PrivacyStore
from hookline.telemetry.metrics import PROCESS_STARTED

METRIC = "hookline_collect_suppressed_total"
DAY_SECONDS = 86_400
_PUT_SEEN = replacing("suppressed_seen", ("source",), ("started", "events"))


class SuppressedUsage:
    """Adds up what is new since the last look, also across restarts of either role."""

    def __init__(self, store: PrivacyStore, metrics: RoleMetrics, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._last: dict[str, float] = {}

    def note(self) -> None:
        """Look once; without anything new nothing is written."""
        report = self._metrics.reports().get("collect")
        counts = report.by_label(METRIC) if report is not None else {}
        if report is None or counts == self._last or not counts:
            return
        started, day = report.number(PROCESS_STARTED), int(self._clock() // DAY_SECONDS)
        with self._store.database.transaction() as execute:
            for source, count in counts.items():
                row = execute("SELECT started, events FROM suppressed_seen WHERE source = ?", (source,)).fetchone()
                new = count - (row[1] if row is not None and row[0] == started else 0)
                execute(
                    "INSERT INTO suppressed_usage (day, source, events) VALUES (?, ?, ?)"
                    " ON CONFLICT (day, source) DO UPDATE SET"
                    " events = suppressed_usage.events + excluded.events",
                    (day, source, int(new)),
                )
                execute(_PUT_SEEN, (source, started, int(count)))
        self._last = counts

    def counts(self, first: date, last: date, by: By, source: str | None) -> dict[tuple[str, str], int]:
        """Return the counts of these days by (period, source)."""
        rows = self._store.database.rows(
            "SELECT day, source, events FROM suppressed_usage"
            " WHERE day >= ?1 AND day <= ?2 AND events > 0 AND (source = ?3 OR ?3 IS NULL)",
            ((first - EPOCH).days, (last - EPOCH).days, source),
        )
        sums: Counter[tuple[str, str]] = Counter()
        for day, name, events in rows:
            period = (EPOCH + timedelta(days=day)).isoformat()
            sums[period if by == "day" else period[:7], name] += events
        return dict(sums)
