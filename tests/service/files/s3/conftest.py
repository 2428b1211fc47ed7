"""A running S3-compatible server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.files.s3.server import S3Server


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    """A server with an empty bucket."""
    with S3Server(tmp_path / "s3") as server:
        yield server
