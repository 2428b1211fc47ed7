"""Fixtures of the crash tests: a service at its full defaults whose one receiver is the ledger's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench.crash.ledger import Ledger

from tests.service.harness import Hookline, webhook


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger with its receiver running."""
    with Ledger(tmp_path) as running:
        yield running


@pytest.fixture
def hookline(ledger: Ledger, new_hookline: Callable[..., Hookline]) -> Hookline:
    """A service, not yet started, that forwards everything to the ledger's receiver, signed."""
    return new_hookline(webhook("crm", ledger.sinks[0].url, secret="s3cret"))
