"""The benchmark as people run it; what it measures is its own affair, that it counts is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.service.cli.conftest import environment


def test_it_measures_a_real_service_and_counts_losses(tmp_path: Path) -> None:
    """A short end-to-end run ends with 0, writes its figures, and nothing was lost, repeated or wrongly signed."""
    report = tmp_path / "figures.json"
    line = [sys.executable, "-m", "hookline.cli.main", "bench", "e2e", "--seconds", "0.5", "--json", str(report)]
    done = subprocess.run(
        line, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(report.read_text())["figures"]["e2e"]
    assert figures["e2e_per_second"] > 0
    assert [figures[f"e2e_{fault}"] for fault in ("lost", "duplicates", "wrong_signatures", "refused")] == [0, 0, 0, 0]
