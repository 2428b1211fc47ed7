"""The long runs: which comes next, what counts for which code, and what the pages and a release make of it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from bench.long import __main__ as main
from bench.long import ledger, pages
from bench.long.ledger import Piece
from bench.long.runs import RUNS, made, unfinished

NOW, BEFORE = "11111111", "00000000"
CODES = {run.name: {NOW} for run in RUNS}
KILLS = next(run for run in RUNS if run.name == "random-kills")


def piece(run: str, amount: float, **more: Any) -> Piece:
    """A piece that went well on this code."""
    given = {"code": NOW, "began": "2026-11-25T10:00:00+00:00", "seconds": 1, "load": 0, "flush_us": 40, **more}
    return Piece(run=run, amount=amount, **given)


def complete() -> list[Piece]:
    """All that is wanted."""
    return [piece(run.name, run.aim) for run in RUNS]


def test_a_ledger_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Line by line, so that a run that is cut short costs its last piece."""
    path = tmp_path / "ledger.jsonl"
    assert ledger.read(path) == []
    for each in complete():
        ledger.append(each, path)
    assert ledger.read(path) == complete()


def test_what_is_least_far_comes_next() -> None:
    """By the share of what is wanted; nothing when there is all."""
    half = [piece(run.name, run.aim / 2) for run in RUNS]
    assert main._next([*half, *half[1:]], CODES, None, half) == RUNS[0]
    assert main._next(half, CODES, ["soak-kafka"], half).name == "soak-kafka"  # type: ignore[union-attr]
    assert main._next(complete(), CODES, None, complete()) is None


def test_pieces_on_other_code_and_bad_ones_do_not_count() -> None:
    """Nor is a run that failed on this code begun again on it."""
    assert made(KILLS, [piece("random-kills", 60, code=BEFORE)], CODES) == 0
    lost = [each for each in complete() if each.run != "random-kills"] + [piece("random-kills", 60, lost=1)]
    assert unfinished(lost, CODES) == [(KILLS, 0)]
    assert main._next(lost, CODES, None, lost) is None
    assert main._next(lost, CODES, None, []) == KILLS  # asked for again
    assert main._next(lost, dict.fromkeys(CODES, ("22222222",)), ["random-kills"], lost) == KILLS


def test_the_control_run_has_to_lose() -> None:
    """Where fsync does nothing, a loss is no failure."""
    lost = [each for each in complete() if each.run != "power-cuts-without-fsync"]
    assert unfinished([*lost, piece("power-cuts-without-fsync", 10, lost=2_000)], CODES) == []


def test_the_pages_say_how_far_it_is() -> None:
    """With what was lost and what failed."""
    pieces = [
        piece("random-kills", 60, owed=1_000, twice=3, restarts=(1.0, 2.0, 4.0)),
        piece("random-kills", 40, owed=500, code=BEFORE, lost=2, failures=("a | line\nand another",)),
    ]
    page = pages.long_runs(pieces, NOW, CODES).markdown()
    assert "| everything killed at a random moment | 300 kills | 60 | 100 | 1,500 | 2 | 3 | 2.00 s |" in page
    assert f"| random-kills | 2026-11-25T10:00:00+00:00 | {BEFORE} | a / line and another |" in page
    summary = pages.summary(pieces, CODES).markdown()
    assert f"0 of {len(RUNS)} complete on this code | 100 kills so far, 2 lost" in summary


def committed(root: Path, files: dict[str, str]) -> list[str]:
    """Commit files below src/hookline one after the other; return the commits, the newest first."""
    for name, text in files.items():
        path = root / "src/hookline" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        git(root, "add", ".")
        git(root, "commit", "--quiet", "--message", name)
    return git(root, "log", "--format=%h", "--abbrev=8").split()


def git(root: Path, *words: str) -> str:
    """Run git in a repository made for a test."""
    named = ["git", "-c", "user.name=n", "-c", "user.email=e", *words]
    return subprocess.run(named, cwd=root, check=True, capture_output=True, text=True).stdout


def test_only_committed_code_is_measured(tmp_path: Path) -> None:
    """A page of the UI is no other code, a change that nobody can look up is refused."""
    git(tmp_path, "init", "--quiet")
    _, first = committed(tmp_path, {"deliver/lane.py": "", "web/page.py": ""})
    assert ledger.code(tmp_path) == first
    (tmp_path / "src/hookline/deliver/lane.py").write_text("changed")
    with pytest.raises(RuntimeError, match="has changes"):
        ledger.code(tmp_path)


SAID = """\"\"\"A module.\"\"\"
LIMIT = 1
\"\"\"Of what.\"\"\"

def do(): # why
    \"\"\"Do it.\"\"\"
    return "%s"
"""


def test_a_docstring_is_no_other_code(tmp_path: Path) -> None:
    """Nor is a comment, a line break or a file that may be executed; a text that is returned is, and so is a file that
    goes or cannot be read."""
    git(tmp_path, "init", "--quiet")
    (first,) = committed(tmp_path, {"lane.py": "LIMIT = 1\ndef do():\n    return 'a'\n"})
    for text in (SAID % "a", (SAID % "a").replace("LIMIT = 1", "LIMIT = (\n    1\n)").replace("why", "because")):
        committed(tmp_path, {"lane.py": text})
        assert ledger.code(tmp_path) == first
    (tmp_path / "src/hookline/lane.py").chmod(0o755)
    git(tmp_path, "commit", "--quiet", "--all", "--message", "mode")
    assert ledger.code(tmp_path) == first
    for text in (SAID % "b", "not Python", "nor this"):
        newest, *_ = committed(tmp_path, {"lane.py": text, "web/page.py": text})[1:]
        assert ledger.code(tmp_path) == newest
    git(tmp_path, "rm", "--quiet", "src/hookline/lane.py")
    git(tmp_path, "commit", "--quiet", "--message", "gone")
    assert ledger.code(tmp_path) == git(tmp_path, "log", "-1", "--format=%h", "--abbrev=8").strip()


def test_the_embedded_backend_counts_though_the_journal_on_kafka_changes(tmp_path: Path) -> None:
    """It never loads it; what both load is other code for both."""
    git(tmp_path, "init", "--quiet")
    pages, kafka, lane = committed(tmp_path, {"lane.py": "", "journal/kafka/reader.py": "", "web/page.py": ""})
    assert ledger.code(tmp_path) == kafka
    assert ledger.embedded(tmp_path) == {pages, kafka, lane}
    newest, *_ = committed(tmp_path, {"lane.py": "changed = 1"})
    assert ledger.embedded(tmp_path) == {newest} == {ledger.code(tmp_path)}


def test_a_test_counts_while_what_it_imports_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also pieces that were made after later changes of other files."""
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/src")
    git(tmp_path, "init", "--quiet")
    files = {"__init__.py": "", "kinds.py": "", "fuzzed.py": "import hookline.kinds", "lane.py": "", "web.py": ""}
    web, lane, fuzzed, *_ = committed(tmp_path, files)
    assert ledger.since("hookline.fuzzed", tmp_path) == {web, lane, fuzzed}
    newest, *_ = committed(tmp_path, {"kinds.py": "changed = 1"})
    assert ledger.since("hookline.fuzzed", tmp_path) == {newest}
