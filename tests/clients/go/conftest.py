"""Programs with the Go library in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.go.programs import PROGRAMS, Program
from tests.clients.go.toolchain import run


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[list[Program]]:
    """Programs that have no client yet."""
    driver = tmp_path / "driver"
    built = run("go", "build", "-o", str(driver), "./internal/driver")
    assert built.returncode == 0, built.stdout
    running = [Program(driver, f"program-{number}") for number in range(PROGRAMS)]
    yield running
    for program in running:
        program.end()
