"""One service for a module's tests: a receiver for each case that its ``CASES`` names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.deliver.per_case import Cases, receiver_per_case
from tests.service.harness import Receiver


@pytest.fixture(scope="module")
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cases, dict[str, Receiver]]]:
    """One service for all that do not stop it, and the receiver of each case."""
    with receiver_per_case(tmp_path_factory.mktemp("cases"), *request.module.CASES) as both:
        yield both


@pytest.fixture
def cases(running: tuple[Cases, dict[str, Receiver]]) -> Cases:
    """The service with its cases."""
    return running[0]


@pytest.fixture
def receivers(running: tuple[Cases, dict[str, Receiver]]) -> dict[str, Receiver]:
    """Receivers, which answer as each test has them."""
    return running[1]
