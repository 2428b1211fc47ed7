"""One edge per test module, emptied before each test; tests that stop or starve an edge start their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.collect.wire import Running


@pytest.fixture(scope="module")
def shared_edge() -> Iterator[Running]:
    running = Running()
    yield running
    running.stop()


@pytest.fixture
def edge(shared_edge: Running) -> Running:
    shared_edge.memory.records.clear()
    return shared_edge


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """Start an edge of the test's own."""
    started: list[Running] = []

    def begin(**options: Any) -> Running:
        started.append(Running(**options))
        return started[-1]

    yield begin
    for running in started:
        running.stop()
