"""The library's own tests under every Python that it supports and scripts/client-pythons.sh finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PYTHONS = sorted((ROOT / "build/client-pythons").glob("*/bin/python"))
RUN_SECONDS = 600.0


def test_this_machine_has_pythons_to_test_under() -> None:
    """At least the one that the service runs on; a test of none would prove nothing."""
    versions = {python.parts[-3] for python in PYTHONS}
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in versions, "run scripts/client-pythons.sh"


@pytest.fixture(scope="module")
def runs() -> dict[Path, subprocess.Popen[str]]:
    """All at once, since most of each is waiting."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python/src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        "-m",
        "pytest",
        "-q",
        "-x",
        "--timeout=120",
        "-p",
        "hookline_client.pytest_plugin",
        "-p",
        "no:cacheprovider",
    ]
    return {
        python: subprocess.Popen(
            [str(python), *command, f"--rootdir={ROOT / 'clients/python'}", str(ROOT / "clients/python/tests")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT / "clients/python",
        )
        for python in PYTHONS
    }


@pytest.mark.timeout(900)
@pytest.mark.parametrize("python", PYTHONS, ids=lambda python: python.parts[-3])
def test_the_library_works_under(python: Path, runs: dict[Path, subprocess.Popen[str]]) -> None:
    """All its unit tests pass, none is skipped."""
    output, _ = runs[python].communicate(timeout=RUN_SECONDS)
    assert runs[python].returncode == 0, output[-4000:]
    assert " passed" in output
    assert "skipped" not in output
