"""A page while its databases are in PostgreSQL, and while that cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.postgres import PostgresServer
from tests.service.harness import Hookline, Receiver, webhook


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that this module stops and starts."""
    running = PostgresServer()
    try:
        yield running
    finally:
        running.remove()


@pytest.fixture
def hookline(server: PostgresServer, receiver: Receiver, tmp_path: Path) -> Iterator[Hookline]:
    """A service on that server."""
    with (
        server.database() as url,
        Hookline(tmp_path / "h", [webhook("crm", receiver.url())], settings={"database.url": url}) as running,
    ):
        yield running


def test_a_page_says_that_the_database_is_away_and_comes_back(
    overview: Page, hookline: Hookline, receiver: Receiver, server: PostgresServer
) -> None:
    """What is shown comes of PostgreSQL; without it the page says so, and returns by itself."""
    message = hookline.track("Bought")
    hookline.wait_status(message, "crm", "delivered")
    overview.goto("/destinations/crm")
    expect(overview.get_by_role("heading", level=1)).to_contain_text("crm")
    server.stop()
    try:
        overview.goto("/destinations/crm")
        expect(overview.get_by_role("heading", level=1)).to_have_text("PostgreSQL cannot be reached")
        receiver.wait_for(hookline.track("While it is away"))
    finally:
        server.start()
    expect(overview.get_by_role("heading", level=1)).to_contain_text("crm")
