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
CODES = {run.name: NOW for run in RUNS}
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
    assert main._next(lost, dict.fromkeys(CODES, "22222222"), ["random-kills"], lost) == KILLS


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
    page = pages.long_runs(pieces, CODES).markdown()
    assert "| everything killed at a random moment | 300 kills | 60 | 100 | 1,500 | 2 | 3 | 2.00 s |" in page
    assert f"| random-kills | 2026-11-25T10:00:00+00:00 | {BEFORE} | a / line and another |" in page
    summary = pages.summary(pieces, CODES).markdown()
    assert f"0 of {len(RUNS)} complete on this code | 100 kills so far, 2 lost" in summary


def write(root: Path, files: dict[str, str]) -> None:
    """Write files below src/hookline."""
    for name, text in files.items():
        path = root / "src/hookline" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a lane, a page and the journal on Kafka."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    write(
        tmp_path,
        {"lane.py": "LIMIT = 1\ndef do():\n    return 'a'\n", "web/page.py": "", "journal/kafka/reader.py": ""},
    )
    return tmp_path


def test_a_page_is_no_other_code(root: Path) -> None:
    """Nor is anything else that no event passes; a lane is, and so is a file that comes or goes."""
    before = ledger.code(root)
    write(root, {"web/page.py": "changed = 1"})
    assert ledger.code(root) == before
    write(root, {"lane.py": "LIMIT = 2"})
    changed = ledger.code(root)
    write(root, {"more.py": ""})
    assert len({before, changed, ledger.code(root)}) == 3
    (root / "src/hookline/more.py").unlink()
    assert ledger.code(root) == changed


SAID = """\"\"\"A module.\"\"\"
LIMIT = 1
\"\"\"Of what.\"\"\"

def do(): # why
    \"\"\"Do it.\"\"\"
    return "%s"
"""


def test_a_docstring_is_no_other_code(root: Path) -> None:
    """Nor is a comment, a line break, a commit or a file that may be executed; a text that is returned is, and so is
    what is no Python."""
    before = ledger.code(root)
    for text in (SAID % "a", (SAID % "a").replace("LIMIT = 1", "LIMIT = (\n    1\n)").replace("why", "because")):
        write(root, {"lane.py": text})
        assert ledger.code(root) == before
    (root / "src/hookline/lane.py").chmod(0o755)
    named = ("-c", "user.name=n", "-c", "user.email=e")
    for words in (("add", "."), ("commit", "--quiet", "--message", "lane")):
        subprocess.run(["git", *named, *words], cwd=root, check=True)
    assert ledger.code(root) == before
    found = {before}
    for text in (SAID % "b", "not Python", "nor this"):
        write(root, {"lane.py": text})
        found.add(ledger.code(root))
    assert len(found) == 4


def test_a_picture_is_code_too(root: Path) -> None:
    """Whatever its bytes are."""
    picture = root / "src/hookline/lane.png"
    picture.write_bytes(b"\x89PNG\xff")
    before = ledger.code(root)
    picture.write_bytes(b"\x89PNG\xfe")
    assert ledger.code(root) != before


def test_the_embedded_backend_counts_though_the_journal_on_kafka_changes(root: Path) -> None:
    """It never loads it; what both load is other code for both."""
    code, embedded = ledger.code(root), ledger.embedded(root)
    write(root, {"journal/kafka/reader.py": "changed = 1"})
    assert (ledger.code(root) != code, ledger.embedded(root) != embedded) == (True, False)
    write(root, {"lane.py": "changed = 1"})
    assert ledger.embedded(root) != embedded


def test_a_test_counts_while_what_it_imports_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever becomes of other files."""
    monkeypatch.setenv("PYTHONPATH", f"{root}/src")
    write(root, {"__init__.py": "", "kinds.py": "", "fuzzed.py": "import hookline.kinds"})
    before = ledger.imported("hookline.fuzzed", root)
    write(root, {"lane.py": "changed = 1"})
    assert ledger.imported("hookline.fuzzed", root) == before
    write(root, {"kinds.py": "changed = 1"})
    assert ledger.imported("hookline.fuzzed", root) != before
