"""The cases of a fuzz test, and a log in which nothing may be reported as our own fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from tests.fuzz.cases import Cases

BEYOND_SECONDS = 300.0
"""What a test may take beyond its cases."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """An hour of cases is no test that hangs."""
    seconds = config.getoption("--fuzz-seconds")
    for item in items:
        if seconds is not None and "cases" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(seconds + BEYOND_SECONDS))


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> Cases:
    """The cases as the command line wants them; ``--fuzz-seconds`` is shared by the tests that have cases."""
    option = request.config.getoption
    seconds = option("--fuzz-seconds")
    sharers = sum("cases" in getattr(item, "fixturenames", ()) for item in request.session.items)
    return Cases(option("--fuzz-seed"), None if seconds is None else seconds / sharers, option("--fuzz-case"))


@pytest.fixture(autouse=True)
def silent_log() -> Iterator[None]:
    """No case may make the product log an error: those are for faults of its own."""
    with structlog.testing.capture_logs() as lines:
        yield
    assert [line for line in lines if line["log_level"] == "error"] == []
