"""A machine learns what others erased of the journal they share, also what was done while it was away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.location import location_of
from hookline.database.open import ensure
from hookline.journal.kafka.erased import ErasedPlaces
from hookline.journal.opening import journal_of
from hookline.privacy.shared_erased import CHANGES, SharedErased
from hookline.privacy.suppressions import PrivacyStore
from hookline.replays.offset_set import OffsetSet, encode_offset_sets
from hookline.settings import Database, Journal, Settings
from tests.postgres import PostgresServer


@pytest.fixture
def settings(tmp_path: Path, postgres: PostgresServer) -> Iterator[Settings]:
    """An installation on Kafka and PostgreSQL."""
    with postgres.database("hookline_template") as url:
        yield Settings(
            data_dir=str(tmp_path), journal=Journal(url="kafka://127.0.0.1:1/events"), database=Database(url=url)
        )


@pytest.fixture
def privacy(settings: Settings) -> Iterator[PrivacyStore]:
    """Where control writes what is to be erased."""
    store = PrivacyStore(location_of(settings, "privacy"))
    yield store
    store.close()


@pytest.fixture
def deliver(settings: Settings) -> Iterator[Connection]:
    """Where deliver processes note what they erased."""
    ensure(location_of(settings, "deliver"), "deliver")
    connection = connect(location_of(settings, "deliver"))
    yield connection
    connection.close()


@pytest.fixture
def elsewhere(settings: Settings, deliver: Connection, privacy: PrivacyStore) -> Iterator[SharedErased]:
    """What is tested."""
    made = SharedErased(settings, journal_of(settings))
    yield made
    made.close()


def begin(privacy: PrivacyStore, **positions: list[int]) -> None:
    """Control has a request cleared."""
    blob = encode_offset_sets({int(name[1:]): OffsetSet(offsets) for name, offsets in positions.items()})
    with privacy.change(CHANGES) as execute:
        execute(
            "INSERT INTO deletion_requests (at, author, action, state, updated_at, round, places)"
            " VALUES (1, 'a', 'delete', 'clearing', 1, 1, ?)",
            (blob,),
        )


def end(privacy: PrivacyStore, deliver: Connection, partition: int, offsets: list[int]) -> None:
    """A deliver process has done its part, and control has closed the request."""
    deliver.execute(
        'INSERT INTO erased_parts (request, asked_at, "round", partition, last_offset, places)'
        " VALUES (1, 1, 1, ?, ?, ?)",
        (partition, offsets[-1], encode_offset_sets({partition: OffsetSet(offsets)})),
    )
    with privacy.change(CHANGES) as execute:
        execute("UPDATE deletion_requests SET state = 'done', places = NULL")


def test_what_is_under_way_is_erased_here_at_once(
    settings: Settings, privacy: PrivacyStore, elsewhere: SharedErased
) -> None:
    """In every partition, whoever owns it."""
    seen = ErasedPlaces(settings.data_path / "journal")
    elsewhere.follow()
    assert seen.of(0) == frozenset()
    begin(privacy, p0=[3, 4], p1=[7])
    elsewhere.follow()
    assert (seen.of(0), seen.of(1)) == ({3, 4}, {7})


def test_what_was_done_meanwhile_is_learned(
    settings: Settings, privacy: PrivacyStore, deliver: Connection, elsewhere: SharedErased
) -> None:
    """Begun and closed between two looks, and before the first look of a machine that is new."""
    seen = ErasedPlaces(settings.data_path / "journal")
    elsewhere.follow()
    begin(privacy, p0=[5])
    end(privacy, deliver, 0, [5])
    elsewhere.follow()
    assert seen.of(0) == {5}
    (settings.data_path / "journal" / "erased" / "0").unlink()
    late = SharedErased(settings, journal_of(settings))
    late.follow()
    late.close()
    assert seen.of(0) == {5}


def test_what_a_disk_did_not_take_is_noted_once_it_does(
    settings: Settings, privacy: PrivacyStore, elsewhere: SharedErased
) -> None:
    """It is no reason to take no events, nor to forget it although nothing changes any more."""
    seen = ErasedPlaces(settings.data_path / "journal")
    in_the_way = settings.data_path / "journal" / "erased" / "0"
    in_the_way.mkdir(parents=True)
    begin(privacy, p0=[3])
    elsewhere.follow()
    in_the_way.rmdir()
    elsewhere.follow()
    assert seen.of(0) == {3}
