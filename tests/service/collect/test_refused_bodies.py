"""Bodies that are too large: 413 arrives, whatever their size and whatever stands in between."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.client import basic, send
from tests.service.fronts import FRONTS
from tests.service.harness import WRITE_KEY, Hookline

TRIES = int(os.environ.get("HOOKLINE_TEST_TRIES", "1"))
"""Of each size behind each front; the whole table takes 24."""
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hookline]:
    """One service behind all of them."""
    with Hookline(tmp_path_factory.mktemp("refused-bodies")) as running:
        yield running
    assert "Traceback (most recent call last)" not in running.log, running.log[-4000:]


@pytest.mark.parametrize("name", FRONTS)
def test_a_body_that_is_too_large_is_413_behind(name: str, tmp_path: Path, hookline: Hookline) -> None:
    """From a little above what was drained once to nearly all that is: never 502, which clients would repeat."""
    with FRONTS[name](tmp_path, [hookline.collect_port]) as front:
        statuses: Counter[tuple[float, int | str]] = Counter()
        for size in (1.1, 4.0, 15.0):
            body = b"x" * int(size * MEGABYTE)
            for _ in range(TRIES):
                statuses[size, status_of(front.port, body)] += 1
        assert set(statuses) == {(1.1, 413), (4.0, 413), (15.0, 413)}, (statuses, front.log[-2000:])


def status_of(port: int, body: bytes) -> int | str:
    """Post a batch; what it came to when nobody answered."""
    try:
        return send(port, "POST", "/v1/batch", body, basic(WRITE_KEY)).status
    except OSError as error:
        return repr(error)
