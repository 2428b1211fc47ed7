"""The feed: what other processes see of the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.connections import history
from hookline.connections.edits import Delete
from hookline.connections.state import Feed
from hookline.connections.store import Store
from hookline.database.connect import connect
from hookline.database.location import DatabaseLocation
from hookline.database.migrate import HEADS
from hookline.database.sqlite import DatabaseNotMade, DatabaseUnreadable
from tests.unit.conftest import LocationOf
from tests.unit.connections.examples import change, destination, source


def test_before_control_has_started_nothing_can_be_told(bare_location_of: LocationOf) -> None:
    """A role that starts first is told that it cannot be told, never that there is nothing, and makes no file."""
    place = bare_location_of("control")
    feed = Feed(place)
    for question in (feed.load, feed.poll, feed.ready, lambda: feed.at(1)):
        with pytest.raises(DatabaseNotMade):
            question()
    assert feed.at(0).version == 0
    assert not isinstance(place, Path) or not place.exists()
    feed.close()


def test_a_feed_that_started_first_follows(bare_location_of: LocationOf) -> None:
    """Once control has made its database, the next look finds it."""
    feed = Feed(bare_location_of("control"))
    with pytest.raises(DatabaseNotMade):
        feed.load()
    store = Store(bare_location_of("control"))
    change(store, source(), destination(), at=3)
    assert feed.poll() == store.snapshot()
    store.close()
    feed.close()


def test_an_unchanged_store_is_no_news(store: Store, feed: Feed) -> None:
    """A poll answers once per change, and not for a change of something else."""
    change(store, source())
    assert feed.load() == store.snapshot()
    assert feed.poll() is None
    store.mark_ready("boot")
    assert feed.poll() is None


def test_changes_arrive_whole(store: Store, feed: Feed) -> None:
    """Created, changed and deleted objects and their lanes are what the store has, after several changes at once."""
    change(store, source(), destination("one"), destination("two"), at=1)
    feed.load()
    change(store, destination("one", name="Renamed"), at=2)
    change(store, Delete("destination", "two"), destination("three"), at=3)
    change(store, destination("one", enabled=False), at=4)
    assert feed.poll() == store.snapshot()
    assert feed.poll() is None


def test_an_object_that_came_and_went_between_two_looks(store: Store, feed: Feed) -> None:
    """A follower that missed a short-lived object does not see its remains."""
    change(store, source())
    feed.load()
    change(store, source("brief"))
    change(store, Delete("source", "brief"))
    snapshot = feed.poll()
    assert snapshot is not None
    assert [found.id for found in snapshot.sources] == ["website"]


def test_more_objects_than_a_page(store: Store, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading in pages loses none and repeats none."""
    monkeypatch.setattr(history, "PAGE_ROWS", 7)
    change(store, *(source(f"s{number:02}") for number in range(35)))
    assert len(feed.load().sources) == 35


def test_a_version_can_be_read_while_it_is_left_behind(
    store: Store, location: DatabaseLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change in the middle of a load does not mix into the version being loaded."""
    monkeypatch.setattr(history, "PAGE_ROWS", 2)
    change(store, *(source(f"s{number}", name="old") for number in range(6)))
    connection = connect(location, read_only=True)
    rows = history.rows_at(connection, 1)
    first = next(rows)
    change(store, *(source(f"s{number}", name="new") for number in range(6)), source("s7"))
    seen = {row.id: row.document for row in [first, *rows]}
    connection.close()
    assert sorted(seen) == [f"s{number}" for number in range(6)]
    assert all('"old"' in document for document in seen.values())


def test_a_role_may_follow_sources_alone(store: Store, location: DatabaseLocation) -> None:
    """The collection edge does not carry thousands of destinations that it has no use for."""
    change(store, source(), destination())
    feed = Feed(location, kinds=("source",))
    assert [len(feed.load().sources), len(feed.load().destinations)] == [1, 0]
    change(store, destination("two"), source("app"))
    snapshot = feed.poll()
    feed.close()
    assert snapshot is not None
    assert (len(snapshot.sources), snapshot.destinations, snapshot.lanes) == (2, (), {})


def test_an_earlier_version_can_be_read(store: Store, feed: Feed) -> None:
    """What was in force when an event was taken is still known later."""
    change(store, source(), destination(), at=1)
    before = store.snapshot()
    change(store, destination(name="Renamed"))
    assert feed.at(1) == before
    assert feed.at(2) == store.snapshot()


def test_what_is_made_again_was_made_in_another_version(store: Store, feed: Feed) -> None:
    """A change leaves it, and so does whatever happens to others; of what is gone the last time stays."""
    change(store, source())
    change(store, source("app"))
    change(store, source(name="Renamed"))
    assert feed.made() == {("source", "website"): 1, ("source", "app"): 2}
    change(store, Delete("source", "website"))
    assert feed.made()["source", "website"] == 1
    change(store, source())
    change(store, source(name="Renamed"))
    assert feed.made() == {("source", "website"): 5, ("source", "app"): 2}


def test_ready_counts_for_one_boot(store: Store, feed: Feed) -> None:
    """The marker of an earlier boot does not make this one ready."""
    assert not feed.ready()
    store.mark_ready("first")
    assert feed.ready()
    assert feed.ready("first")
    assert not feed.ready("second")
    store.mark_ready("second")
    assert feed.ready("second")


def test_a_file_of_another_version_is_not_read(store: Store, location: DatabaseLocation, feed: Feed) -> None:
    """Until control has made the tables that are read, a reading role waits."""
    change(store, source())
    connection = connect(location)
    connection.execute("UPDATE alembic_version SET version_num = 'control_0000'")
    with pytest.raises(DatabaseNotMade):
        feed.load()
    connection.execute("UPDATE alembic_version SET version_num = ?", (f"control_{HEADS['control']:04}",))
    connection.close()
    assert feed.poll() == store.snapshot()


@pytest.mark.parametrize("number", [1, 99])
def test_tables_of_another_version_are_read_as_far_as_that_goes(
    store: Store, location: DatabaseLocation, feed: Feed, number: int
) -> None:
    """An older or newer schema that has what is read is read; no reader waits for a migration it does not need."""
    change(store, source())
    connection = connect(location)
    connection.execute("UPDATE alembic_version SET version_num = ?", (f"control_{number:04}",))
    connection.execute("ALTER TABLE objects ADD COLUMN colour TEXT")
    connection.close()
    assert feed.load() == store.snapshot()


def test_newer_tables_that_cannot_be_read_are_not_none(store: Store, location: DatabaseLocation, feed: Feed) -> None:
    """The reason says which version wrote them; they are followed again once they can be read."""
    change(store, source())
    feed.load()
    connection = connect(location)
    connection.execute("UPDATE alembic_version SET version_num = 'control_0099'")
    connection.execute("ALTER TABLE versions RENAME COLUMN version TO number")
    for _ in range(2):
        with pytest.raises(DatabaseUnreadable, match="written by a newer Hookline"):
            feed.poll()
    connection.execute("ALTER TABLE versions RENAME COLUMN number TO version")
    connection.close()
    change(store, source("app"))
    assert feed.poll() == store.snapshot()


def test_an_object_that_only_a_newer_version_knows_cannot_be_read(
    store: Store, location: DatabaseLocation, feed: Feed
) -> None:
    """A document with a field that is not known here is nothing to guess at, and no reason to end."""
    change(store, source())
    connection = connect(location)
    connection.execute("""UPDATE objects SET document = replace(document, '"id":', '"shape":1,"id":')""")
    connection.close()
    with pytest.raises(DatabaseUnreadable, match="shape"):
        feed.load()


def test_a_closed_feed_opens_again(store: Store, feed: Feed) -> None:
    """Closing twice is fine, and a later look still finds the changes."""
    change(store, source())
    feed.load()
    feed.close()
    feed.close()
    change(store, source("app"))
    assert feed.poll() == store.snapshot()
