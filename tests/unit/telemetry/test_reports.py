"""What roles write into the run folder for one another."""

from __future__ import annotations

from pathlib import Path

from hookline.telemetry.metrics import publish
from hookline.telemetry.time_buckets import write_time_buckets


def test_a_run_folder_that_takes_nothing_ends_no_role(tmp_path: Path) -> None:
    """As one that is closed to who runs the service: there is a gap in the figures, and that is all."""
    closed = tmp_path / "run"
    closed.touch()
    publish(closed, "collect", {})
    write_time_buckets(closed, [])
    assert closed.read_bytes() == b""
