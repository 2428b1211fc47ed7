"""``hookline simulate``: options in, a report out; the chart and the time line are drawn right."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from hookline.cli.main import run
from hookline.cli.service.simulate import chart, duration, ended_in_order, time_line
from hookline.simulation.outage import Attempt, Report, Sample
from tests.unit.control.running import WAIT_SECONDS, wait_until

SHORT = ["simulate", "--rate", "5/s", "--outage", "60s", "--after", "5s"]
CONNECTIONS = """
sources: [{id: web, name: Web, writeKeys: [wk]}]
destinations:
  - id: crm
    name: CRM
    sources: [web]
    settings: {webhooks: [{url: "https://a.example.com/"}, {url: "https://b.example.com/"}], sharedSecret: "env:HOOKLINE_SECRET_X"}
"""  # noqa: E501


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_report_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """Table, chart and time line, in this order."""
    assert run(SHORT) == 0
    text = capsys.readouterr().out
    parts = ["Peak backlog", "Lost: expired", "Backlog over time", "└─", "attempt 1: 503"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_the_report_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object with the same figures."""
    assert run([*SHORT, "--status", "refused", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["peakBacklog"] >= 300
    assert report["attempts"][0]["result"] == "connection_failed"


def test_a_destination_of_the_connections_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its two URLs are asked; its secret need not be at hand."""
    (tmp_path / "connections.yaml").write_text(CONNECTIONS)
    assert run([*SHORT, "--destination", "crm", "--json"]) == 0
    both = json.loads(capsys.readouterr().out)["attemptsOfAll"]
    assert run([*SHORT, "--json"]) == 0
    assert both > 1.5 * json.loads(capsys.readouterr().out)["attemptsOfAll"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--rate", "fast"], "--rate"),
        (["--rate", "0/s"], "--rate"),
        (["--outage", "long"], "--outage"),
        (["--outage", "90d"], "at most"),
        (["--status", "200"], "--status"),
        (["--status", "gone"], "--status"),
        (["--status", "410"], "Hookline pauses a destination"),
        (["--event-size", "big"], "--event-size"),
        (["--destination", "crm"], "connections.yaml"),
        (["--config", "missing.yaml"], "missing.yaml"),
    ],
)
def test_wrong_usage(arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each option that cannot be used is named, with exit code 2."""
    assert run(["simulate", *arguments]) == 2
    assert word in capsys.readouterr().err


def folders_of(process: int) -> set[Path]:
    """The folders of simulations in which a process has files open."""
    paths = []
    for each in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            paths.append(Path(os.readlink(each)))
    return {path.parent for path in paths if path.parent.name.startswith("hookline-")}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(number: signal.Signals) -> None:
    """The folder of a simulation is in memory where that can be: nobody else would remove it."""
    command = [sys.executable, "-m", "hookline.cli.main", "simulate", "--outage", "30d"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            found: list[Path] = []
            wait_until(lambda: found or found.extend(folders_of(running.pid)))
            running.send_signal(number)
            assert running.wait(WAIT_SECONDS) == 128 + number
        finally:
            running.kill()
    assert not any(each.exists() for each in found)


def test_a_signal_is_heard_where_an_exception_would_be_lost() -> None:
    """End it although Python drops what is raised where the signal came, here in a finalizer."""

    class Dropped:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    with ended_in_order() as end_if_signalled:
        end_if_signalled()
        Dropped()
        with pytest.raises(SystemExit) as ended:
            end_if_signalled()
    assert ended.value.code == 128 + signal.SIGTERM


def test_a_destination_that_is_not_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer names those that are."""
    (tmp_path / "connections.yaml").write_text(CONNECTIONS)
    assert run([*SHORT, "--destination", "crn"]) == 2
    assert "it has: crm" in capsys.readouterr().err


def test_the_chart_rises_and_falls() -> None:
    """The highest column is full, the lowest empty, and the time stands below."""
    samples = tuple(Sample(float(at), 100 - abs(50 - at) * 2, 0) for at in range(101))
    lines = chart(samples)
    assert lines[0].startswith("100 │")
    assert "█" not in lines[0][:20]
    assert lines[0].count("█") + lines[0].count("▄") >= 1
    assert lines[-1].endswith("1m40s")


def test_a_long_time_line_is_cut_in_the_middle() -> None:
    """The first and the last attempts are shown, and how many are not."""
    attempts = tuple(Attempt(number, float(number), "503", False) for number in range(1, 31))
    lines = time_line(report_with(attempts))
    assert len(lines) == 13
    assert "18 more" in lines[6]
    assert time_line(report_with(())) == ["  none: no event met the outage"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.5, "4.5s"), (200, "3m20s"), (7_500, "2h05m"), (-30, "-30.0s"), (59.99, "1m00s")]
)
def test_durations(seconds: float, text: str) -> None:
    """As people write them."""
    assert duration(seconds) == text


def report_with(attempts: tuple[Attempt, ...]) -> Report:
    return Report(
        scale=1,
        rate_per_second=1,
        outage_seconds=60,
        attempts=attempts,
        attempts_of_all=len(attempts),
        breaker_opened_seconds=None,
        peak_backlog=0,
        peak_backlog_at_seconds=0,
        peak_retry_rows=0,
        noticed_after_seconds=None,
        recovered_after_seconds=None,
        recovery_rate_per_second=None,
        delivered=0,
        expired=0,
        expired_by_retention=0,
        failed=0,
        samples=(),
    )
