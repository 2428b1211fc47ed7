"""The clients meet the same services and receivers as the service tests."""

from __future__ import annotations

import pytest

from tests.service.conftest import new_hookline, receiver

__all__ = ["new_hookline", "receiver"]


@pytest.fixture
def client_events(pytestconfig: pytest.Config) -> int:
    """How many events each consumer sends while the service is killed."""
    return int(pytestconfig.getoption("--client-events"))
