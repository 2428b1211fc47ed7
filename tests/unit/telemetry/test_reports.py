"""What roles write into the run folder for one another."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hookline.telemetry.metrics import Reporter, publish
from hookline.telemetry.time_buckets import write_time_buckets


def test_a_run_folder_that_takes_nothing_ends_no_role(tmp_path: Path) -> None:
    """As one that is closed to who runs the service: there is a gap in the figures, and that is all."""
    closed = tmp_path / "run"
    closed.touch()
    publish(closed, "collect", {})
    write_time_buckets(closed, [])
    assert closed.read_bytes() == b""


def test_the_same_is_written_again_only_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changed is written at once, also where the values are those of before by identity."""
    counts = {"200": 1}
    path, reporter = tmp_path / "metrics-collect.json", Reporter(tmp_path, "collect")

    def is_written(troubles: dict[str, bool]) -> bool:
        path.unlink(missing_ok=True)
        reporter.publish({"hookline_collect_requests_total": {"status": counts}}, troubles)
        return path.exists()

    assert is_written({"away": False})
    assert not is_written({"away": False})
    assert is_written({"away": True})
    counts["200"] += 1
    assert is_written({"away": True})
    monkeypatch.setattr("hookline.telemetry.metrics.REPEATED_SECONDS", 0.0)
    os.utime(path, (0, 0))
    reporter.publish({"hookline_collect_requests_total": {"status": counts}}, {"away": True})
    assert time.time() - path.stat().st_mtime < 60, "it is seen to be fresh"
    assert is_written({"away": True}), "it was taken away"
