"""Every library keeps the book of behaviour: every case of clients/behaviour/book, played against its driver."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.clients.go import toolchain
from tests.clients.languages import left_out

ROOT = Path(__file__).parents[2]
BEHAVIOUR = ROOT / "clients/behaviour"
LIBRARIES = [name for name in ("python", "go", "php") if f"tests/clients/{name}" not in left_out()]
PLAY_SECONDS = 400.0
CASES_MIN = 330
ORIGINALS_FAULTS = (
    "close does not drop the queue",
    "a given timestamp is not overwritten",
    "page has a category",
    "sentAt has milliseconds",
    "413 is not silent",
)
"""Faults of the original libraries; each has its case in the book."""


@pytest.mark.slow
@pytest.mark.timeout(PLAY_SECONDS + 60)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_keeps_the_book(library: str, tmp_path: Path) -> None:
    """All cases that are about what the library has."""
    played = play(driver_of(library, tmp_path))
    assert played.returncode == 0, played.stdout[-8000:] + played.stderr[-2000:]


def test_the_book_is_whole() -> None:
    """Names are unique, each case says why, and no chapter was lost."""
    cases = [
        case for chapter in sorted((BEHAVIOUR / "book").glob("*.json")) for case in json.loads(chapter.read_text())
    ]
    assert len(cases) >= CASES_MIN
    assert [case["name"] for case in cases if not case.get("why")] == []
    names = Counter((case["name"], *case.get("consumers", ())) for case in cases)
    assert [name for name, count in names.items() if count > 1] == []
    assert set(ORIGINALS_FAULTS) <= {case["name"] for case in cases}


def test_a_library_that_breaks_a_rule_fails(tmp_path: Path) -> None:
    """The player notices: a driver whose messages lose their category, and one that dies."""
    broken = (BEHAVIOUR.parent / "python/tests/driver.py").read_text()
    sources = f'sys.path.insert(0, "{BEHAVIOUR.parent / "python/src"}")'
    (tmp_path / "forgets.py").write_text(
        broken.replace("import sys\n", f"import sys\n{sources}\n").replace(
            'filled(command["message"]))\n        if', 'filled({**command["message"], "category": None}))\n        if'
        )
    )
    played = play(f"{sys.executable} {tmp_path / 'forgets.py'}", "--only", "category")
    assert played.returncode == 1
    assert "FAILED" in played.stdout
    played = play(f"{sys.executable} -c pass")
    assert played.returncode == 2
    assert "cannot be asked" in played.stderr


def test_the_line_for_another_language(tmp_path: Path) -> None:
    """The commands of docs/how-to/clients/another-language.md, with a driver that there is, play the one chapter; they
    only list it here, for the test of the library plays all of them."""
    page = (ROOT / "docs/how-to/clients/another-language.md").read_text()
    (line,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    line = line.replace("ruby ../ruby/test/driver.rb", driver_of("python", tmp_path)).replace("python3", sys.executable)
    line = f"{line.strip()} --list"
    listed = subprocess.run(["sh", "-ec", line], cwd=ROOT, capture_output=True, text=True, timeout=PLAY_SECONDS)
    assert listed.returncode == 0, listed.stderr
    assert {name.partition(":")[0] for name in listed.stdout.splitlines()} == {"ids_and_times"}


def driver_of(library: str, folder: Path) -> str:
    """The command that starts a library's driver."""
    if library == "go":
        built = toolchain.run("go", "build", "-o", str(folder / "driver"), "./internal/driver")
        assert built.returncode == 0, built.stdout
        return str(folder / "driver")
    if library == "php":
        return f"php {ROOT / 'clients/php/tests/driver.php'}"
    return f"{sys.executable} {ROOT / 'clients/python/tests/driver.py'}"


def play(driver: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Play cases against a driver."""
    command = [sys.executable, str(BEHAVIOUR / "play.py"), "--driver", driver, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PLAY_SECONDS, check=False)
