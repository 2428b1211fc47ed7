"""The benchmark as people run it; what it measures is its own affair, that it counts is not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from hookline.bench.machine import processes
from tests.service.cli.conftest import environment
from tests.service.waiting import wait_until

TERMINATED = 143
ROOT = Path(__file__).parents[3]


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


def test_the_isolation_report_counts_and_writes_a_page(tmp_path: Path) -> None:
    """A short one: nothing is missing or repeated at healthy or healed receivers; how fast it was decides its code."""
    line = [sys.executable, "-m", "bench.isolation", "--seconds", "1", "--rate", "50"]
    files = ["--json", str(tmp_path / "figures.json"), "--write", str(tmp_path / "reports" / "isolation.md")]
    done = subprocess.run(
        [*line, *files], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=280, check=False
    )
    report = json.loads((tmp_path / "figures.json").read_text())
    assert done.returncode == int(not all(check["passed"] for check in report["checks"])), done.stdout + done.stderr
    assert [len(figures["recoveries"]) for figures in report["figures"]] == [5, 1]
    for figures in report["figures"]:
        assert (figures["healthy_missing"], figures["healthy_duplicates"], figures["refused"]) == (0, 0, 0)
        assert all(sick["expected"] and not sick["missing"] for sick in figures["recoveries"])
    assert (tmp_path / "reports" / "isolation.md").read_text().startswith("# Isolation report\n")


def processes_naming(folder: Path) -> list[str]:
    """The command lines in which a folder occurs."""
    return [each.arguments for each in processes() if str(folder) in each.arguments]


def test_ended_early_it_leaves_nothing_behind(tmp_path: Path) -> None:
    """SIGTERM in the middle of a report ends the service it started, and its folder is gone."""
    line = [sys.executable, "-m", "bench.isolation"]
    with subprocess.Popen(line, cwd=ROOT, env={**environment(), "TMPDIR": str(tmp_path)}) as bench:
        wait_until(lambda: list(tmp_path.glob("hookline-bench-*/service/data/admin-token")), what="the service runs")
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(60) == TERMINATED
    assert list(tmp_path.glob("hookline-bench-*")) == []
    wait_until(lambda: not processes_naming(tmp_path), what="no process is left")
