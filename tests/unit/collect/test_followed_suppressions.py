"""How collect follows the suppression list: beside the edge, and never back to an older one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from hookline.collect.before_opening import JournalEnds
from hookline.collect.role import CollectRole
from hookline.database.connection import Connection
from hookline.database.location import location_of
from hookline.privacy import id_digest
from hookline.privacy.requests import Requests
from hookline.privacy.suppressions import PrivacyStore, Suppressed, SuppressionFeed, Suppressions
from hookline.settings import Settings


@pytest.fixture
def requests(tmp_path: Path) -> Iterator[Requests]:
    """The list as control has it, in the data folder of the role."""
    location = location_of(Settings(data_dir=str(tmp_path)), "privacy")
    store = PrivacyStore(location)
    digests = id_digest.load_shared(location, store.database, tmp_path)
    yield Requests(store, digests, Suppressions(store, digests))
    store.close()


@asynccontextmanager
async def role(path: Path) -> AsyncIterator[CollectRole]:
    """The role, which does nothing by itself."""
    made = CollectRole(Settings(data_dir=str(path)), None, JournalEnds({}))
    yield made
    made._suppressions_thread.shutdown()
    made.suppressions.close()
    await made.appender.close()


def suppressed_of(made: CollectRole) -> Suppressed | None:
    """Whom the edge stores nothing of."""
    return made.edge._intake.suppressed


def test_the_list_is_read_in_a_thread_of_its_own(
    requests: Requests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start at once; later the edge goes on while a long one is read. In force when the look is over."""
    read_in: list[str] = []
    read = SuppressionFeed._list

    def noted(feed: SuppressionFeed, connection: Connection) -> tuple[Suppressed, ...]:
        read_in.append(threading.current_thread().name)
        return read(feed, connection)

    monkeypatch.setattr(SuppressionFeed, "_list", noted)

    async def run() -> None:
        async with role(tmp_path) as made:
            await made._refresh()
            requests.create(["gone"], "suppress", "me")
            await made._refresh()
            now = suppressed_of(made)
            assert now is not None
            assert "gone" in now
            await made._refresh()
            assert suppressed_of(made) is now

    asyncio.run(run())
    at_the_start, later = read_in
    assert at_the_start == threading.main_thread().name
    assert later.startswith("suppressions")


def test_a_list_that_nobody_waited_for_is_in_force_with_the_next_look(
    requests: Requests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked for a look may go before it is over: what it saw counts as seen, and was never in force."""
    begun, goes_on = threading.Event(), threading.Event()
    changed = SuppressionFeed.changed

    def held_up(feed: SuppressionFeed) -> bool:
        begun.set()
        goes_on.wait(10)
        return changed(feed)

    async def run() -> None:
        async with role(tmp_path) as made:
            await made._refresh()
            requests.create(["gone"], "suppress", "me")
            monkeypatch.setattr(SuppressionFeed, "changed", held_up)
            left = asyncio.create_task(made._refresh())
            await asyncio.to_thread(begun.wait, 10)
            left.cancel()
            with suppress(asyncio.CancelledError):
                await left
            goes_on.set()
            await made._refresh()
            now = suppressed_of(made)
            assert now is not None
            assert "gone" in now

    asyncio.run(run())
