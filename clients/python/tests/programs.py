"""Programs run in processes of their own: for forks, exits and imports, which a test cannot do to itself."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
PROGRAM_SECONDS = 60.0
EXIT_SECONDS = 30.0
"""The exit timeout of clients that have none of their own: what arrives decides a test, not how busy the machine is."""


def run(program: str, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the library on its path, and wait for its end."""
    return _run(["-c", textwrap.dedent(program), *arguments], check, environment)


def run_file(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that its children have to be able to read as well."""
    return _run([str(file), *arguments], True, {})


def _run(command: list[str], check: bool, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": path, "HOOKLINE_CLIENT_EXIT_TIMEOUT": str(EXIT_SECONDS), **environment},
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=check,
    )
