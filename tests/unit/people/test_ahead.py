"""Reading ahead: whoever has read, people are the same; and a reader that fails, or read too early, costs nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import crowd

from hookline.database.location import DatabaseLocation
from hookline.database.open import ensure
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.partition_reader import LocalReader
from hookline.people import role
from hookline.people.definitions.feature import Feature
from hookline.people.ingest import ahead, extraction
from hookline.people.ingest.ahead import NotReadAhead
from hookline.people.ingest.ingest import Ingest
from hookline.people.role import ProfilesRole
from hookline.people.store.catalog import FeatureCatalog
from hookline.people.store.people import People
from hookline.people.store.store import ProfileStore
from hookline.settings import Settings
from tests.service.waiting import wait_until

EVENTS = 20_000
BATCH_RECORDS = 2_000
SOME = dict(list(crowd.FEATURES.items())[:3])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal of a crowd."""
    folder = tmp_path_factory.mktemp("ahead") / "journal"
    asyncio.run(fill(folder))
    return folder


async def fill(folder: Path) -> None:
    """Write the crowd's events."""
    appender = LocalAppender(folder, retention_seconds=1e9, retention_bytes=1 << 40)
    for group in crowd.records(EVENTS, EVENTS // crowd.EVENTS_PER_USER, 1_800_000_000_000):
        await appender.append(group)
    await appender.close()


class Kept:
    """What one process keeps of people."""

    def __init__(self, folder: Path, location: DatabaseLocation) -> None:
        self.folder = folder
        self.journal = LocalReader(folder)
        self.store = ProfileStore(location)
        self.registry = FeatureCatalog(self.store)
        self.ingest = Ingest(self.journal, self.store, BATCH_RECORDS)
        self.keep(dict(crowd.FEATURES))

    def keep(self, features: dict[Feature, int | None]) -> None:
        """Keep the history of these features."""
        self.registry.keep(features, {})
        self.ingest.keep(self.registry.features())

    def read_ahead(self) -> int:
        """Have another process read; return its process id."""
        self.ingest.read_ahead(self.folder)
        assert self.ingest._ahead is not None
        return self.ingest._ahead._process.pid

    def read_on(self) -> None:
        """Read to the end."""
        while self.ingest.step():
            pass

    def finish(self) -> dict[str, list[str]]:
        """Read to the end; return all that is stored."""
        self.read_on()
        assert self.ingest.applied == EVENTS
        return self.stored()

    def stored(self) -> dict[str, list[str]]:
        """All rows of all tables."""
        query = "SELECT name FROM sqlite_schema WHERE type = 'table'"
        tables = [name for (name,) in self.store.connection.execute(query)]
        return {each: sorted(map(repr, self.store.connection.execute(f"SELECT * FROM {each}"))) for each in tables}

    def close(self) -> None:
        self.ingest.read_alone()
        self.store.close()
        self.journal.close()


@pytest.fixture
def kept(folder: Path, tmp_path: Path) -> Iterator[Kept]:
    """People, of whom nothing is read yet."""
    found = Kept(folder, tmp_path / "people.db")
    yield found
    found.close()


@pytest.fixture
def alone(folder: Path, tmp_path: Path) -> Iterator[Kept]:
    """The same, of whom nobody reads ahead."""
    found = Kept(folder, tmp_path / "alone.db")
    yield found
    found.close()


def test_people_are_the_same_whoever_reads(kept: Kept, alone: Kept) -> None:
    pid = kept.read_ahead()
    assert kept.finish() == alone.finish()
    assert not kept.ingest.reads_ahead
    assert not is_there(pid)
    assert kept.ingest.last_received_at == alone.ingest.last_received_at


def test_features_that_come_are_met_from_the_next_record_on(kept: Kept, alone: Kept) -> None:
    """What was read ahead was matched with the features of before."""
    for each in (kept, alone):
        each.keep(SOME)
        if each is kept:
            each.read_ahead()
        assert each.ingest.step()
        each.keep(dict(crowd.FEATURES))
        if each is kept:
            assert not each.ingest.reads_ahead
            each.read_ahead()
    assert kept.finish() == alone.finish()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_reader_that_fails_costs_a_turn(
    kept: Kept, alone: Kept, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """It is said once; nothing of the turn stays, and the next one is read without it."""
    monkeypatch.setattr(ahead, "PAGES_BYTES_MAX", 1)
    pid = kept.read_ahead()
    assert kept.ingest.step()
    os.kill(pid, number)
    monkeypatch.setattr(ahead, "PATIENCE_SECONDS", 0.3)
    with pytest.raises(NotReadAhead, match="ended" if number == signal.SIGKILL else "does not go on"):
        kept.read_on()
    assert not kept.ingest.reads_ahead
    assert kept.finish() == alone.finish()


@pytest.mark.parametrize("written", [r"\144\0", r"\144\0\0\0", r"\144\0\0\0page"])
def test_what_a_reader_was_writing_when_it_ended_is_no_page(
    kept: Kept, alone: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """It is not taken for a page, nor for the end of a turn."""
    reader = tmp_path / "reader"
    reader.write_text(f"#!/bin/sh\ncat > /dev/null\nprintf '{written}'\n")
    reader.chmod(0o700)
    with monkeypatch.context() as other:
        other.setattr(ahead.sys, "executable", str(reader))
        kept.read_ahead()
    with pytest.raises(NotReadAhead, match="ended"):
        kept.read_on()
    assert kept.finish() == alone.finish()


def test_nothing_of_who_was_erased_comes_from_what_was_read_ahead(tmp_path: Path) -> None:
    """The reader has read the person before; what it has read is not taken any more."""
    folder = tmp_path / "journal"
    asyncio.run(fill(folder))
    own = Kept(folder, tmp_path / "own.db")
    own.read_ahead()
    assert own.ingest.step()
    reading = own.ingest._ahead
    assert reading is not None
    wait_until(lambda: reading._waiting_bytes, what="something was read ahead")
    known = own.stored()["identities"]
    keys = {offset: key for offset, key in all_keys(own.journal) if key.startswith("user-")}
    gone = next(key for key in keys.values() if not any(key in row for row in known))
    appender = LocalAppender(folder, retention_seconds=1e9, retention_bytes=1 << 40)
    assert appender.erase(0, [offset for offset, key in keys.items() if key == gone])
    asyncio.run(appender.close())
    own.ingest.forget()
    own.read_on()
    assert not any(gone in row for row in own.stored()["identities"])
    assert len(own.stored()["identities"]) > len(known)
    own.close()


def all_keys(journal: LocalReader) -> Iterator[tuple[int, str]]:
    """The offset and user key of every record."""
    for group in journal.read(0, 0):
        for offset, record in enumerate(group.records, group.first_offset):
            yield offset, record.user_key


def test_it_ends_with_whoever_takes_its_pages(folder: Path, tmp_path: Path) -> None:
    """Also where that one could not say anything any more."""
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from hookline.people.ingest.ahead import Ahead\n"
        "reading = Ahead(Path(sys.argv[1]), {}, {}, 10)\n"
        "print(reading._process.pid, flush=True)\n"
        "time.sleep(3600)\n"
    )
    taker = subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE)
    assert taker.stdout is not None
    pid = int(taker.stdout.readline())
    assert is_there(pid)
    taker.kill()
    taker.wait()
    taker.stdout.close()
    wait_until(lambda: not is_there(pid), what="the reader ended")


def test_the_role_has_somebody_read_while_there_is_much(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And reads alone once there is less, and for a while after the machine was busy."""
    data = tmp_path / "data"
    (data / "run").mkdir(parents=True)
    (data / "journal").symlink_to(folder)
    for which in ("control", "privacy", "profiles"):
        ensure(data / f"{which}.db", which)
    monkeypatch.setattr(role, "AHEAD_RECORDS", EVENTS // 2)
    monkeypatch.setattr(role, "processors", lambda: 2)
    profiles = ProfilesRole(Settings(data_dir=str(data)))
    profiles.ingest._batch_records = BATCH_RECORDS
    profiles.work()
    assert profiles.ingest.reads_ahead
    profiles._read_alone()
    profiles.work()
    assert not profiles.ingest.reads_ahead
    profiles._alone_until = 0.0
    profiles.work()
    assert profiles.ingest.reads_ahead
    while profiles.work():
        pass
    assert not profiles.ingest.reads_ahead
    assert (profiles.ingest.lag(), profiles.ingest.applied) == (0, EVENTS)
    assert People(profiles.store.connection).by_user_id("user-00000001") is not None
    profiles.close()


def test_turns_that_end_early_do_not_end_the_reading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They end where records say much of people; what ends the reading is the end of the journal."""
    monkeypatch.setattr(extraction, "BYTES_PER_TURN", 1)
    task = ahead._Task(str(folder), {}, {}, BATCH_RECORDS)
    pages = [ahead._page(page) for page in ahead._all_turns(task) if page]
    assert sum(len(page.said) for page in pages) == EVENTS


def is_there(pid: int) -> bool:
    """Whether there is such a process, one that has ended and was not asked for its result left out."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
