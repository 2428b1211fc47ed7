"""Nothing of the environment of whoever runs the tests sets an option."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from scripted_service import ScriptedService


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("HOOKLINE_CLIENT_") or name == "DEBUG":
            monkeypatch.delenv(name)


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    """A service that accepts everything, unless it has a script."""
    with ScriptedService() as running:
        yield running
