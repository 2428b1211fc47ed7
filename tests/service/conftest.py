"""Fixtures of the service tests: receivers, and services that are stopped and checked for tracebacks afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.harness import Hookline, Receiver


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/service/crash --cycles 500``: how often the crash ledger kills everything."""
    parser.addoption("--cycles", type=int, default=8, help="kill -9 cycles of the crash ledger (default 8)")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A healthy receiver."""
    with Receiver() as running:
        yield running


@pytest.fixture
def new_hookline(tmp_path: Path) -> Iterator[Callable[..., Hookline]]:
    """Make a service (not started) in a folder of its own; whatever still runs at the end of the test is stopped."""
    made: list[Hookline] = []

    def make(*destinations: dict[str, Any], **arguments: Any) -> Hookline:
        made.append(Hookline(tmp_path / f"h{len(made)}", destinations, **arguments))
        return made[-1]

    yield make
    for hookline in made:
        if hookline.process is not None and hookline.process.poll() is None:
            hookline.kill9()
        assert "Traceback (most recent call last)" not in hookline.log, hookline.log[-4000:]
