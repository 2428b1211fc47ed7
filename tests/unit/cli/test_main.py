"""The command as a process: exit codes, and what is imported before anything is known to be needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def hookline(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "hookline.cli.main", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--version"], 0, "0."),
        (["nonsense"], 2, "nonsense"),
        (["send", "nonsense"], 2, "identify"),
        (["up", "--nonsense"], 2, "--nonsense"),
        (["up", "--deliver.timeout=soon"], 2, "deliver.timeout"),
        (["why", "m-1"], 1, "hookline up"),
        (["why", "m-1", "--token=t", "--api=http://127.0.0.1:1"], 1, "127.0.0.1:1"),
        (["check", "missing.yaml"], 1, "missing.yaml"),
        (["apply", "missing.yaml", "--token=t"], 1, "missing.yaml"),
        (["destinations", "delete", "--help"], 0, "--waiting drain"),
    ],
)
def test_exit_codes_and_sentences(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    """0 done, 1 failed, 2 wrong usage; the text names what was wrong and there is never a traceback."""
    done = hookline(*arguments, folder=tmp_path)
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_misspelt_setting_in_the_environment_is_named(tmp_path: Path) -> None:
    """A variable that looks like a setting but is none stops the start and names its neighbour."""
    command = [sys.executable, "-m", "hookline.cli.main", "up"]
    environment = {**os.environ, "HOOKLINE_DELIVER_TIMEOUTT": "5s"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "HOOKLINE_DELIVER_TIMEOUT'" in done.stderr


@pytest.mark.parametrize(
    "module", ["hookline.cli.main", "hookline.cli.service.roles", "hookline.cli.service.supervisor"]
)
def test_starting_a_role_imports_nothing_heavy(module: str) -> None:
    """What every process of the service imports stays out of its memory for good: no third-party packages."""
    script = f"import sys, {module}; print(*sorted(m for m in sys.modules if m.partition('.')[0] in {HEAVY}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_commands_import_nothing_that_only_one_of_them_needs() -> None:
    """A terminal waits for every import: the databases, YAML and the connections are loaded by who works with them."""
    rooms = "('hookline.database', 'hookline.connections', 'hookline.journal', 'hookline.deliver', 'asyncio', 'yaml')"
    script = f"import sys, hookline.cli.commands; print(*sorted(m for m in sys.modules if m.startswith({rooms})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


HEAVY = {"cyclopts", "rich", "msgspec", "yaml", "litestar", "asyncio", "http", "subprocess"}


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "0<&- 1>&- 2>&-"])
@pytest.mark.parametrize(("words", "code"), [("doctor", 0), ("check missing.yaml", 1)])
def test_a_closed_stream_is_one_to_nobody(words: str, code: int, closed: str, tmp_path: Path) -> None:
    """A command works as ever where nobody reads it, and nothing that belongs to one stream comes in the other."""
    line = f"exec {sys.executable} -m hookline.cli.main {words} {closed}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")}
    done = subprocess.run(line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == code
    assert "HOOKLINE_TRACEBACK" not in done.stderr
    assert "hookline: " not in done.stdout


@pytest.mark.parametrize(
    ("words", "code"), [("completion bash", 0), ("--help", 0), ("check missing.yaml --json", 1), ("nonsense", 2)]
)
def test_a_reader_that_has_seen_enough_changes_no_exit_code(words: str, code: int, tmp_path: Path) -> None:
    """As in `hookline … | head`, however little is printed: Python would find out at the end, and say 120."""
    reading, writing = os.pipe()
    os.close(reading)
    done = into(writing, words, tmp_path)
    assert (done.returncode, "BrokenPipeError" in done.stderr) == (code, False)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_an_older_locale_fails_no_command(encoding: str, tmp_path: Path) -> None:
    """What a terminal of that locale lacks is printed as UTF-8, as the service prints it."""
    line = [sys.executable, "-m", "hookline.cli.main", "doctor"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")}
    environment |= {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "● ok" in done.stdout.decode()


@pytest.mark.parametrize("words", ["completion bash", "--help"])
def test_output_that_finds_no_room_is_a_failure(words: str, tmp_path: Path) -> None:
    """A file that lacks what was printed is not what was asked for."""
    done = into(os.open("/dev/full", os.O_WRONLY), words, tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("No space left on device") == 1


def into(output: int, words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that prints there, as much at a time as it does into anything but a terminal."""
    command = [sys.executable, "-m", "hookline.cli.main", *words.split()]
    left_out = ("HOOKLINE_", "PYTHONUNBUFFERED")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.PIPE, text=True, timeout=120
        )
    finally:
        os.close(output)
