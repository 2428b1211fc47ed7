"""The crash points: all registered, all used, inert unless armed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import hookline
from hookline.telemetry.crashpoints import CRASH_POINTS, ENVIRONMENT_NAME

PROGRAM = """
from hookline.telemetry.crashpoints import crash_point
for passage in range(5):
    print(passage, flush=True)
    crash_point("journal.segment_filled")
    crash_point("journal.erase_half_written")
"""


def run(setting: str) -> subprocess.CompletedProcess[str]:
    """Run the program with this setting of the environment variable."""
    environment = {**os.environ, ENVIRONMENT_NAME: setting}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_names_in_the_source_and_in_the_registry_are_the_same() -> None:
    """Each name passed to crash_point is registered, and each registered one is somewhere in the source."""
    source = "".join(path.read_text() for path in Path(hookline.__file__).parent.rglob("*.py"))
    assert set(re.findall(r'crash_point\(\s*"([^"]+)"', source)) == set(CRASH_POINTS)


def test_an_armed_point_kills_at_the_passage_named() -> None:
    """``NAME:3`` lets two passages through and kills at the third; other points do not count."""
    ended = run("journal.erase_half_written:3")
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.split() == ["0", "1", "2"]


def test_without_a_passage_the_first_one_kills() -> None:
    """``NAME`` alone kills at once."""
    assert run("journal.segment_filled").stdout.split() == ["0"]


def test_unarmed_points_do_nothing() -> None:
    """An empty variable arms nothing."""
    ended = run("")
    assert (ended.returncode, ended.stdout.split()) == (0, ["0", "1", "2", "3", "4"])


def test_an_unknown_name_is_an_error() -> None:
    """A misspelt point would otherwise make a crash test pass without a crash."""
    ended = run("journal.no_such_point")
    assert ended.returncode == 1
    assert "no crash point is named" in ended.stderr
