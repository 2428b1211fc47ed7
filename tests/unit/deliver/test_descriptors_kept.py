"""Descriptors that are kept for others than connections stay free however connections begin."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from tests.unit.deliver import connections_begin
from tests.unit.deliver.connections_begin import Case


def begin_all(case: Case) -> None:
    """Run the case in a process of its own, whose complaint is the test's."""
    command = [sys.executable, "-m", connections_begin.__name__, msgspec.json.encode(case).decode()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "case",
    [
        Case(["127.0.0.1"]),
        Case(["127.0.0.1"] * 2),
        Case(["127.0.0.1"] * 4, asks_others=True),
        Case(["127.0.0.1"], is_proxied=True),
    ],
    ids=["one address", "several addresses", "several addresses at once", "a proxy"],
)
def test_connections_that_begin_together(case: Case) -> None:
    """Each counts those that have begun before it and have no socket yet."""
    begin_all(case)


def test_a_descriptor_that_came_free_among_the_first() -> None:
    """It is one, and says nothing of those above it."""
    begin_all(Case(["127.0.0.1"], has_room_below=True))
