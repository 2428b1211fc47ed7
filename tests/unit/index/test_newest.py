"""Looking for the newest records of users, stretch by stretch, over the real journal and real runs."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hookline.index import lookup
from hookline.index.duplicates import Duplicates
from hookline.index.lookup import newest_of
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.record import Record
from tests.unit.index.conftest import finish
from tests.unit.index.journal_in_memory import record

EVENTS = 60
RUN_EVENTS = 16

MANY = (*(f"u{n}" for n in range(0, EVENTS, 2)), "often")
"""So many that each record is looked at instead of searching for each of them."""

Look = Callable[..., list[int]]


def of(user: str, number: int) -> Record:
    """A record of a user."""
    made = record(f"m{number}")
    made.user_key = user
    return made


def users() -> list[str]:
    """Whose each event is: ``rare`` has three, ``often`` every fourth, others one each."""
    return ["rare" if n in (5, 20, 58) else "often" if n % 4 == 0 else f"u{n}" for n in range(EVENTS)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a journal, of which all but the last events are in runs; it is only read."""
    folder = tmp_path_factory.mktemp("newest")

    async def append() -> None:
        appender = LocalAppender(folder / "journal", retention_seconds=86_400, retention_bytes=1 << 30)
        for number, user in enumerate(users()):
            await appender.append([of(user, number)])
        await appender.close()

    asyncio.run(append())
    reader = LocalReader(folder / "journal")
    options = {"window_seconds": 3600, "bytes_max": 1 << 30, "run_events": RUN_EVENTS}
    index = Duplicates(folder / "index" / "0", reader, 0, **options)  # type: ignore[arg-type]
    for group in reader.read(0, 0):
        index.feed(group.records, group.first_offset)
        finish(index)
    index.close()
    reader.close()
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy of it, for who damages it."""
    return shutil.copytree(written, tmp_path / "copy")


@pytest.fixture
def look(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Look]:
    """Looks for users in the journal."""
    monkeypatch.setattr(lookup, "STRETCH_MIN", 3)
    reader = LocalReader(folder / "journal")

    def looked(*keys: str, before: int = EVENTS) -> list[int]:
        stretches = list(newest_of(reader, folder / "index", 0, keys, before))
        starts = [each.first_offset for each in stretches]
        assert starts == sorted(starts, reverse=True), "backwards"
        assert not stretches or starts[-1] == 0, "to the start"
        offsets = [offset for each in stretches for offset, _ in each.found]
        assert len(set(offsets)) == len(offsets), "each once"
        return offsets

    yield looked
    reader.close()


def expected(*keys: str, before: int = EVENTS) -> Sequence[int]:
    """Newest first, from the list itself."""
    return [n for n, user in reversed(list(enumerate(users()))) if user in keys and n < before]


@pytest.mark.parametrize("keys", [("rare",), ("often",), ("often", "rare", "u7"), ("nobody",), MANY])
@pytest.mark.parametrize("before", [EVENTS, 59, 48, 33, 20, 1, 0, EVENTS + 100])
def test_exactly_the_records_of_the_users_newest_first(look: Look, keys: tuple[str, ...], before: int) -> None:
    """From the unsealed end through the runs to the start, from wherever one begins."""
    assert look(*keys, before=before) == expected(*keys, before=before)


def test_a_run_that_is_gone_or_damaged_is_made_up_for_by_the_journal(look: Look, folder: Path) -> None:
    """Nothing is left out, and nothing comes twice."""
    runs = sorted((folder / "index" / "0").glob("*.run"))
    assert len(runs) == EVENTS // RUN_EVENTS
    runs[0].unlink()
    runs[2].write_bytes(b"damaged")
    assert look("often", "rare") == expected("often", "rare")


def test_who_has_enough_has_not_looked_further(look: Look, folder: Path) -> None:
    """The first stretch is the end of the journal alone."""
    reader = LocalReader(folder / "journal")
    first = next(newest_of(reader, folder / "index", 0, ["rare"], EVENTS))
    assert first.first_offset == EVENTS - 3
    assert [(offset, record.user_key) for offset, record in first.found if record] == [(58, "rare")]
    reader.close()
