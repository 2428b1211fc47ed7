"""The command ``hookline-upload``: arguments, environment, what it prints and how it exits."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from hookline_client.uploader.command import main
from hookline_client.uploader.exit_code import ExitCode
from hookline_client.uploader.uploader import Uploader
from scripted_service import Reply, ScriptedService

LINE = '{"type":"track","event":"e","userId":"u","messageId":"m1"}\n'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with one event."""
    path = tmp_path / "app.log"
    path.write_text(LINE)
    return path


def test_a_run_uploads_with_the_key_and_prints_nothing(
    service: ScriptedService, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Secret, file and endpoint are enough; without a terminal a good run is silent."""
    assert main(["--secret", "wk", "--file", str(log), "--endpoint", service.url]) == 0
    (post,) = service.posts
    assert (post.path, post.headers["authorization"]) == ("/v1/batch", "Basic d2s6")
    assert [event["messageId"] for event in post.batch] == ["m1"]
    assert capsys.readouterr() == ("", "")


def test_everything_may_come_from_the_environment(
    service: ScriptedService, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody needs to write the key where everyone can read it."""
    monkeypatch.setenv("HOOKLINE_CLIENT_WRITE_KEY", "wk")
    monkeypatch.setenv("HOOKLINE_CLIENT_FILENAME", str(log))
    monkeypatch.setenv("HOOKLINE_CLIENT_ENDPOINT", service.url)
    monkeypatch.setenv("HOOKLINE_CLIENT_GZIP", "1")
    assert main([]) == 0
    assert service.posts[0].headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "HOOKLINE_CLIENT_WRITE_KEY"),
        (["--secret", "wk", "--endpoint", "ftp://x"], "endpoint must"),
        (["--secret", "wk", "--timeout", "0"], "timeout must"),
        (["--secret", "wk", "--retry-for", "-1"], "from 0 to"),
        (["--secret", "wk", "--retry-for", "soon"], "from 0 to"),
        (["--what"], "--what"),
    ],
)
def test_wrong_arguments_are_named(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be used ends with 2 and a sentence that names it."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == ExitCode.USAGE
    assert sentence in capsys.readouterr().err


def test_a_program_may_read_the_outcome(
    service: ScriptedService, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With ``--json`` there is one object on standard output and nothing else."""
    log.write_text(LINE + "rubbish\n")
    assert main(["--secret", "wk", "--file", str(log), "--endpoint", service.url, "--json"]) == ExitCode.SET_ASIDE
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert (document["acknowledged"], document["setAside"], document["exitCode"]) == (1, 1, 65)
    assert output.err == ""


def test_verbose_says_what_was_done(service: ScriptedService, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal ``--verbose`` asks for a line."""
    assert main(["--secret", "wk", "--file", str(log), "--endpoint", service.url, "--verbose"]) == 0
    assert capsys.readouterr().err == "events uploaded: 1\n"


def test_a_terminal_shows_progress(service: ScriptedService, log: Path) -> None:
    """A person sees how far it is."""
    terminal, shown = pty.openpty()
    program = "import sys; from hookline_client.uploader.command import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "--secret", "wk", "--file", str(log), "--endpoint", service.url]
    run = subprocess.run(command, stderr=shown, timeout=60, check=False)
    os.close(shown)
    text = os.read(terminal, 65_536).decode()
    os.close(terminal)
    assert run.returncode == 0
    assert "100 %  events: 1" in text
    assert "events uploaded: 1" in text


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(401, {"success": False, "code": "unknown_write_key", "message": "No source."}), ExitCode.REFUSED),
        (Reply(503, {"success": False, "code": "overloaded", "message": "Later."}), ExitCode.LATER),
        (Reply(200, b"<html>Welcome to our wireless network</html>"), ExitCode.LATER),
        (Reply(301, b"", {"Location": "/"}), ExitCode.REFUSED),
        (Reply(fault="reset"), ExitCode.LATER),
    ],
)
def test_answers_end_the_run_with_their_code(
    service: ScriptedService, log: Path, reply: Reply, code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only Hookline's own yes counts; anything else keeps the events and says one sentence."""
    service.script = [reply] * 3
    arguments = ["--secret", "wk", "--file", str(log), "--endpoint", service.url, "--retry-for", "0"]
    assert main(arguments) == code
    assert capsys.readouterr().err.count("\n") == 1
    service.script.clear()
    assert main(arguments) == 0
    assert service.events[-1]["messageId"] == "m1"


def test_nobody_at_the_endpoint_is_later(log: Path) -> None:
    """A service that is away ends the run with the code for later."""
    with ScriptedService() as gone:
        url = gone.url
    assert main(["--secret", "wk", "--file", str(log), "--endpoint", url, "--retry-for", "0"]) == ExitCode.LATER


def test_ctrl_c_is_later(service: ScriptedService, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who interrupts a run loses nothing and gets no traceback."""
    run = Uploader.run

    def interrupted(uploader: Uploader) -> ExitCode:
        raise KeyboardInterrupt

    monkeypatch.setattr(Uploader, "run", interrupted)
    arguments = ["--secret", "wk", "--file", str(log), "--endpoint", service.url]
    assert main(arguments) == ExitCode.LATER
    monkeypatch.setattr(Uploader, "run", run)
    assert main(arguments) == 0


def test_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """Every code is in the help, where somebody who writes a scheduler's line looks."""
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(f"\n  {int(code):2}  " in text for code in ExitCode)
