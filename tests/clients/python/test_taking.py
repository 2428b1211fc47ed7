"""A log file is taken away under eight processes that write to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from hookline_client.uploader.taken_file import TakenFile

RENAMES = 200
PROCESSES = 8
APPENDER = Path(__file__).with_name("appender.py")


def test_no_line_is_lost_or_torn_while_the_file_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight processes append while the file is taken 200 times: every line is in one taken file, whole, in order."""
    monkeypatch.setattr(os, "fsync", lambda file: None)  # this is not about the disk, which would take most of the time
    path, stop = tmp_path / "app.log", tmp_path / "stop"
    command = [sys.executable, str(APPENDER), str(path)]
    writers = {
        f"w{number}": subprocess.Popen([*command, f"w{number}", str(stop)], stdout=subprocess.PIPE)
        for number in range(PROCESSES)
    }
    seen: dict[str, list[int]] = defaultdict(list)
    takes = 0
    while takes < RENAMES:
        takes += take_all(path, seen)
    stop.touch()
    counts = {name: int(writer.communicate(timeout=60)[0]) for name, writer in writers.items()}
    while take_all(path, seen):
        pass
    assert min(counts.values()) > 0
    assert {name: list(range(count)) for name, count in counts.items()} == seen


def take_all(path: Path, seen: dict[str, list[int]]) -> bool:
    """Take the log away and write down whose lines are in it; False when there is none."""
    taken = TakenFile.take(str(path))
    if taken is None:
        return False
    with taken:
        data = Path(taken.path).read_bytes()
        assert data.endswith(b"\n")
        for line in data.splitlines():
            entry = json.loads(line)
            seen[entry["name"]].append(entry["number"])
        taken.place.offset_bytes = len(data)
        assert taken.remove(), "somebody wrote to the taken file"
    return True
