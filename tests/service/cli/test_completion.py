"""`hookline completion`: what shells offer, asked of the service that runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.cli import commands, completion  # noqa: F401  what is imported is known
from hookline.cli.completion import offered
from tests.service.harness import Hookline, wait_until, webhook

BIN = Path(sys.executable).parent


@pytest.fixture
def hookline(new_hookline: Callable[..., Hookline]) -> Hookline:
    """A service with two destinations, not started."""
    return new_hookline(webhook("crm", "https://crm.example.com/"), webhook("mailer", "https://mail.example.com/"))


def test_what_is_offered(hookline: Hookline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands, options, choices and live ids; nothing where nothing is known, or the service is away."""
    monkeypatch.setattr(completion, "ASK_SECONDS", 30)
    server = ("--data-dir", str(hookline.data))
    with hookline:
        assert offered(["desti"]) == ["destinations"]
        assert {"list", "show", "retry", "discard"} <= set(offered(["dead-letters", ""]))
        assert offered(["dead-letters", "retry", "--st"]) == ["--status"]
        assert offered(["dead-letters", "retry", "--status", ""]) == ["discarded", "expired", "failed"]
        assert offered(["dead-letters", "list", *server, "--destination", ""]) == ["crm", "mailer"]
        assert offered(["pause", *server, "m"]) == ["mailer"]
        assert offered(["destinations", "show", *server, "c"]) == ["crm"]
        assert offered(["completion", "z"]) == ["zsh"]
        assert offered(["up", "--"]) == ["--help"]
        assert offered(["nonsense", ""]) == []
    assert offered(["pause", "--data-dir", str(tmp_path), ""]) == []


def test_bash_offers_it(hookline: Hookline) -> None:
    """In a real shell, with its own splitting of the line."""
    with hookline:
        line = f"hookline destinations show --data-dir {hookline.data} m"
        script = f"""
            export PATH={BIN}:$PATH; eval "$(hookline completion bash)"
            COMP_WORDS=({line}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _hookline; printf '%s,' "${{COMPREPLY[@]}}"
            complete -p hookline
        """

        def said() -> str:
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60)
            return done.stdout

        # Beside load the service may take longer than a person at a shell should wait: then nothing is offered.
        offers = "mailer,complete -o bashdefault -o default -F _hookline hookline\n"
        wait_until(lambda: said() == offers, what="the offer")


def test_bash_gets_a_name_as_one_word() -> None:
    """Whatever is in it: the names of accounts and tokens are free, and a Tab and Enter makes none a command."""
    script = f"""
        hookline() {{ printf '%s\\n' crm 'Jane Doe; *'; }}
        {completion.SCRIPTS["bash"]}
        COMP_WORDS=(hookline users remove ''); COMP_CWORD=3; _hookline; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "crm\nJane\\ Doe\\;\\ \\*\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_is_put_where_the_shell_looks(shell: str, tmp_path: Path) -> None:
    """Twice is the same as once; a shell that is here reads it without a complaint."""
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    for _ in range(2):
        line = [str(BIN / "hookline"), "completion", shell, "--install"]
        done = subprocess.run(line, capture_output=True, text=True, check=True, env=environment)
    path = Path(done.stdout.split("written to ")[1].split(";")[0])
    assert path.is_relative_to(tmp_path)
    assert "hookline complete --" in path.read_text()
    if shutil.which(shell):
        assert subprocess.run([shell, "-n", str(path)], capture_output=True, check=True).stderr == b""


def test_a_folder_nobody_may_write_is_said(tmp_path: Path) -> None:
    """In one sentence."""
    (tmp_path / ".local").write_text("a file")
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    line = [str(BIN / "hookline"), "completion", "bash", "--install"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cannot write" in done.stderr
