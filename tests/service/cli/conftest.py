"""Running commands against a service of a test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.service.harness import Hookline

Run = Callable[..., subprocess.CompletedProcess[str]]


def environment() -> dict[str, str]:
    """This process's environment without settings of a Hookline."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")}


def command(hookline: Hookline, *arguments: str) -> list[str]:
    """The command line of a command that talks to the service."""
    return [sys.executable, "-m", "hookline.cli.main", *arguments, "--data-dir", str(hookline.data)]


@pytest.fixture
def run() -> Run:
    """Run a command to its end and return what it printed."""

    def run_command(hookline: Hookline, *arguments: str) -> subprocess.CompletedProcess[str]:
        line = command(hookline, *arguments)
        done = subprocess.run(
            line, cwd=hookline.folder, env=environment(), capture_output=True, text=True, timeout=120, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run_command
