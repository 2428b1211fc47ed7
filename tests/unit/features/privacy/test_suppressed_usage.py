"""What came in of suppressed people, added up from what collect counts since its start."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import msgspec

from hookline.features.fleet.metrics import RoleMetrics
from hookline.features.privacy.service import METRIC, SuppressedUsage
from hookline.privacy.suppressions import PrivacyStore
from hookline.telemetry.metrics import PROCESS_STARTED, report_path

DAY = date(1970, 1, 2)
NOON_SECONDS = 1.5 * 86_400


def test_each_process_of_collect_is_counted(tmp_path: Path) -> None:
    """Also where it comes to the same number as the one before; what was counted is not counted again."""
    store = PrivacyStore(tmp_path / "privacy.db")
    usage = SuppressedUsage(store, RoleMetrics(tmp_path), lambda: NOON_SECONDS)
    (tmp_path / "run").mkdir()
    found = []
    for started, events in ((1.0, 2), (1.0, 2), (1.0, 3), (2.0, 3), (3.0, 1)):
        values = {PROCESS_STARTED: started, METRIC: {"source": {"site": events}}}
        report_path(tmp_path / "run", "collect").write_bytes(msgspec.json.encode(values))
        usage.note()
        found.append(usage.counts(DAY, DAY, "day", None)["1970-01-02", "site"])
    assert found == [2, 2, 3, 6, 7]
    store.close()
