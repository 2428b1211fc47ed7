"""Control as the tests of the event tester have it: it may reach this machine, and has a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from hookline.settings import Deliver
from tests.unit.control.running import Running, source

PATIENCE_SECONDS = 30.0
"""More than any receiver here takes: a busy machine is no failure."""


@pytest.fixture(scope="module")
def new_control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Running]]:
    """Start one, with further settings of deliver."""
    with ExitStack() as started:

        def start(timeout: float = PATIENCE_SECONDS, **settings: Any) -> Running:
            deliver = Deliver(allow_networks=("127.0.0.0/8",), timeout=timeout, **settings)
            running = started.enter_context(Running(tmp_path_factory.mktemp("tester") / "data", deliver=deliver))
            running.api("POST", "/sources", source())
            return running

        yield start
