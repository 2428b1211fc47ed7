"""The clients meet the same services and receivers as the service tests."""

from __future__ import annotations

import pytest

from tests.service.conftest import new_hookline, receiver

__all__ = ["new_hookline", "receiver"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/clients --client-cycles 100``: how many clients are killed."""
    parser.addoption("--client-cycles", type=int, default=10, help="kill -9 of clients in a test (default 10)")
