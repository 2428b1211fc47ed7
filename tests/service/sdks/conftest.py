"""The service that all SDKs are pointed at, and the option that writes the page about them anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.sdks.field import Field


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/service/sdks --write-compatibility``: docs/reference/compatibility.md, and what is recorded."""
    parser.addoption(
        "--write-compatibility", action="store_true", help="write docs/reference/compatibility.md as measured"
    )


@pytest.fixture(scope="package")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    """The service and its receiver; programs run when a test asks for them."""
    with Field(tmp_path_factory.mktemp("field")) as running:
        yield running
