"""The store: versions, lanes, owners, refusals."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from hookline.connections.edits import Delete, Put
from hookline.connections.model import LaneConfig, Offsets, WebhookSettings
from hookline.connections.state import Feed
from hookline.connections.store import ChangeRefused, Store, VersionConflict
from hookline.database.commits import Highest
from hookline.database.connect import connect
from hookline.database.location import DatabaseLocation
from hookline.database.postgres.connection import take_turn
from hookline.database.sqlite import IntegrityError, OperationalError
from hookline.replays.dead_letters import DeadLetterFilter
from hookline.replays.store import ReplayStore
from tests.unit.connections.examples import change, destination, ends, give_line_ends, source


def codes(store: Store, *edits: Put | Delete) -> list[str]:
    """The codes of the problems a change is refused for."""
    before = store.snapshot()
    with pytest.raises(ChangeRefused) as refused:
        store.change(edits, "somebody", None, ends(0))
    assert store.snapshot() == before
    return [problem.code for problem in refused.value.problems]


def test_a_change_makes_one_version(store: Store) -> None:
    """All objects of one change come into force together, at the next version."""
    assert store.version == 0
    assert change(store, source(), destination()) == 1
    snapshot = store.snapshot()
    assert (snapshot.version, snapshot.sources, snapshot.destinations) == (1, (source(),), (destination(),))


def test_ids_that_end_in_a_line_end_still_open(store: Store, location: DatabaseLocation, feed: Feed) -> None:
    """Older versions took them: they stay what they were, with their lanes, for whoever opens the database."""
    change(store, source(), destination(), at=3)
    give_line_ends(location)
    opened = feed.load()
    assert [(each.id, each.write_keys) for each in opened.sources] == [("website\n", ("wk_website\n",))]
    assert [(each.id, each.sources) for each in opened.destinations] == [("crm\n", ("website\n",))]
    assert opened.lanes["crm\n"].sources == {"website\n": {0: 3}}
    store.close()
    again = Store(location)
    assert again.last_source("website\n") == opened.sources[0]
    change(again, Delete("destination", "crm\n"), Delete("source", "website\n"), source())
    assert [each.id for each in again.snapshot().sources] == ["website"]
    again.close()


def test_what_was_stored_is_there_after_a_restart(store: Store, location: DatabaseLocation) -> None:
    """A new process reads back exactly what the last one had."""
    change(store, source(), destination(secret="s3cret"), at=7)
    change(store, destination(name="New", secret="s3cret"), at=9)
    again = Store(location)
    assert again.snapshot() == store.snapshot()
    again.close()


def test_an_identical_object_is_no_change(store: Store) -> None:
    """Writing what is stored already makes no version and asks for no offsets."""
    change(store, source(), destination())

    def never() -> Offsets:
        raise AssertionError("asked for the journal's ends")

    assert store.change([Put(source()), Put(destination())], "somebody", None, never) == 1


def test_every_version_can_be_read_back(store: Store) -> None:
    """Changing and deleting objects leaves earlier versions as they were."""
    change(store, source(), destination())
    change(store, destination(name="Renamed"))
    change(store, Delete("destination", "crm"))
    names = [[found.name for found in store.snapshot(version).destinations] for version in range(4)]
    assert names == [[], ["Crm"], ["Renamed"], []]
    assert store.snapshot(2).lanes["crm"].number == 1


def test_a_change_costs_a_row_per_changed_object(store: Store, location: DatabaseLocation) -> None:
    """History grows with what changed, not with everything there is."""
    change(store, source(), *(destination(f"d{number}") for number in range(20)))
    change(store, destination("d7", name="Renamed"))
    connection = connect(location, read_only=True)
    ((rows,),) = connection.execute("SELECT count(*) FROM objects").fetchall()
    version = connection.execute("SELECT at, author, ends FROM versions WHERE version = 2").fetchone()
    connection.close()
    assert rows == 22
    assert version == (1_700_000_000_000, "somebody", '{"0":0}')


def test_enabling_starts_a_lane_at_the_journals_end(store: Store) -> None:
    """A destination created enabled gets a lane that begins, for each source, at every partition's end."""
    store.change(
        [Put(source("a")), Put(source("b")), Put(destination(sources=("a", "b")))], "somebody", None, ends(5, 8)
    )
    begin = {0: 5, 1: 8}
    assert store.snapshot().lanes == {"crm": LaneConfig(number=1, sources={"a": begin, "b": begin}, since=begin)}


def test_a_disabled_destination_has_no_lane(store: Store) -> None:
    """Disabling takes the lane away; enabling again gives another number and a later begin."""
    change(store, source(), destination(), at=5)
    change(store, destination(enabled=False), at=6)
    assert store.snapshot().lanes == {}
    change(store, destination(), at=9)
    assert store.snapshot().lanes == {"crm": LaneConfig(number=2, sources={"website": {0: 9}}, since={0: 9})}


def test_a_further_source_joins_the_lane_where_the_journal_ends(store: Store) -> None:
    """Connecting a source leaves the others' begin alone; disconnecting and connecting again begins anew."""
    change(store, source("a"), source("b"), destination(sources=("a",)), at=5)
    change(store, destination(sources=("b", "a")), at=8)
    assert store.snapshot().lanes["crm"] == LaneConfig(number=1, sources={"b": {0: 8}, "a": {0: 5}}, since={0: 5})
    change(store, destination(sources=("b",)), at=9)
    change(store, destination(sources=("a", "b")), at=12)
    assert store.snapshot().lanes["crm"] == LaneConfig(number=1, sources={"a": {0: 12}, "b": {0: 8}}, since={0: 5})


def test_new_settings_keep_the_lane(store: Store) -> None:
    """Name, URLs and secret may change without the stream beginning anew."""
    change(store, source(), destination(), at=5)
    lane = store.snapshot().lanes["crm"]
    change(store, destination(name="New", url="https://other.example.com/", secret="s3cret"), at=9)
    assert store.snapshot().lanes["crm"] == lane


def test_a_lane_number_is_never_used_again(store: Store) -> None:
    """Deleting a destination does not bring its number back."""
    change(store, source(), destination("one"))
    change(store, Delete("destination", "one"))
    change(store, destination("one"), destination("two"))
    assert {id: lane.number for id, lane in store.snapshot().lanes.items()} == {"one": 2, "two": 3}


def test_the_ends_are_read_inside_the_transaction(store: Store, location: DatabaseLocation) -> None:
    """While the offsets are read nobody else can write, so no other change can come in between."""
    seen: list[str] = []

    def look() -> Offsets:
        other = connect(location)
        if isinstance(location, Path):
            other.execute("PRAGMA busy_timeout = 0")
        else:
            other.execute("BEGIN")
            other.execute("SET LOCAL lock_timeout = 1")
        with pytest.raises(OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE" if isinstance(location, Path) else take_turn(location.which))
        other.close()
        seen.append("locked")
        return {0: 1}

    store.change([Put(source()), Put(destination())], "somebody", None, look)
    assert seen == ["locked"]


def test_a_change_that_fails_midway_leaves_nothing(store: Store) -> None:
    """When the journal cannot tell its end, the store is as before and goes on working."""

    def fail() -> Offsets:
        raise OSError("no journal")

    with pytest.raises(OSError, match="no journal"):
        store.change([Put(source())], "somebody", None, fail)
    assert (store.version, store.snapshot().sources) == (0, ())
    assert change(store, source()) == 1


def test_a_database_that_fails_midway_leaves_nothing(store: Store, location: DatabaseLocation) -> None:
    """When the second of two rows cannot be written, neither the version nor the first row nor a lane number stays."""
    change(store, source(), destination("one"))
    faulty = connect(location)
    if isinstance(location, Path):
        faulty.execute(
            "CREATE TRIGGER fault BEFORE INSERT ON objects WHEN NEW.id = 'bad' BEGIN SELECT RAISE(ABORT, 'fault'); END"
        )
    else:
        faulty.execute("ALTER TABLE objects ADD CONSTRAINT fault CHECK (id <> 'bad')")
    with pytest.raises(IntegrityError, match="fault"):
        change(store, destination("two"), destination("bad"))
    faulty.execute("DROP TRIGGER fault" if isinstance(location, Path) else "ALTER TABLE objects DROP CONSTRAINT fault")
    faulty.close()
    assert change(store, destination("three")) == 2
    assert {id: lane.number for id, lane in store.snapshot().lanes.items()} == {"one": 1, "three": 2}


def test_an_outdated_expectation_is_a_conflict(store: Store) -> None:
    """A caller that read version 1 cannot overwrite what version 2 brought."""
    change(store, source())
    change(store, source("app"))
    with pytest.raises(VersionConflict, match="at version 2"):
        store.change([Put(source(name="New"))], "somebody", None, ends(0), expected_version=1)
    assert store.change([Put(source(name="New"))], "somebody", None, ends(0), expected_version=2) == 3


def test_the_owner_stays_unless_given(store: Store) -> None:
    """An edit through the API of what a file owns leaves it the file's; a new object there has no owner."""
    change(store, source(), owner="file")
    change(store, source(name="New"), source("app"))
    assert [(stored.object.id, stored.owner, stored.since) for stored in store.sources()] == [
        ("app", None, 2),
        ("website", "file", 2),
    ]


def test_looking_up_one_object(store: Store) -> None:
    """An object is found by its kind and id, with its lane; an unknown id finds nothing."""
    change(store, source(), destination(), at=4)
    found = store.destination("crm")
    assert found is not None
    assert (found.object, found.since, found.lane) == (
        destination(),
        1,
        LaneConfig(number=1, sources={"website": {0: 4}}, since={0: 4}),
    )
    assert store.source("crm") is None
    assert store.destination("website") is None


def test_masks_and_keep_stand_for_the_stored_secret(store: Store) -> None:
    """What the API shows can be sent back without losing the secret."""
    change(store, source(), destination(secret="abcdefghijklmnop"))
    for written in ("keep", "…mnop"):
        change(store, destination(name=written, secret=written))
        assert store.snapshot().destinations[0].settings.shared_secret == "abcdefghijklmnop"


def test_what_would_be_wrong_is_refused_whole(store: Store) -> None:
    """A refused change leaves everything as it was and names each problem."""
    change(store, source("a"), source("b"), destination("crm", sources=("a",)))
    assert codes(store, Put(source("c")), Put(destination("x", sources=("nope",)))) == ["unknown_source"]
    assert codes(store, Put(source("c", write_keys=("wk_a",)))) == ["duplicate_write_key"]
    assert codes(store, Put(source("c")), Put(source("c"))) == ["duplicate_id"]
    assert codes(store, Delete("source", "a")) == ["source_in_use"]
    assert codes(store, Delete("destination", "nope")) == ["not_found"]
    assert codes(store, Put(destination("x", sources=("a",), secret="keep"))) == ["nothing_to_keep"]
    assert codes(store, Put(destination("x", sources=("a",), url="ftp://x"))) == ["invalid_url"]
    assert codes(store, Put(destination("x", sources=("a",), settings=WebhookSettings(webhooks=())))) == [
        "invalid_value"
    ]


def test_a_source_may_go_together_with_its_last_destination(store: Store) -> None:
    """Rules are judged on what a change leaves behind, not edit by edit."""
    change(store, source("a"), source("b"), destination("one", sources=("a",)), destination("two", sources=("a", "b")))
    change(store, Delete("source", "a"), Delete("destination", "one"), destination("two", sources=("b",)))
    assert [found.id for found in store.snapshot().sources] == ["b"]


def test_a_write_key_may_move_between_sources(store: Store) -> None:
    """A key is free again when the same change takes it from its source."""
    change(store, source("a"), source("b"))
    change(store, source("a", write_keys=()), source("b", write_keys=("wk_a", "wk_b")))
    assert store.snapshot().sources[1].write_keys == ("wk_a", "wk_b")


def test_threads_share_a_store(store: Store) -> None:
    """Concurrent changes each get a version of their own."""
    versions: list[int] = []
    threads = [
        threading.Thread(target=lambda number=number: versions.append(change(store, source(f"s{number}"))))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert sorted(versions) == list(range(1, 9))
    assert len(store.snapshot().sources) == 8


def test_a_store_that_went_back_gives_no_number_again(store: Store, location: DatabaseLocation, feed: Feed) -> None:
    """Neither of a version nor of a lane nor of an action on dead letters: what others know by it stays that."""
    change(store, source(), destination(), at=3)
    store.pass_over(Highest(version=7, lane=4, action=6), ends(5))
    assert (store.version, store.snapshot().destinations) == (8, (destination(),))
    change(store, destination("next"), at=6)
    assert (store.version, feed.load().lanes["next"].number) == (9, 5)
    replays = ReplayStore(location)
    number = replays.discard(DeadLetterFilter(), "somebody")
    assert number == 7 or not isinstance(location, Path)
    store.pass_over(Highest(version=7, lane=4, action=6), ends(5))
    assert store.version == 9
    replays.close()


def test_a_feed_reads_anew_what_went_back(store: Store, feed: Feed, location: DatabaseLocation) -> None:
    """Where a version's number comes again for something else, or was passed over, nothing of what is gone stays."""
    change(store, source(), at=1)
    change(store, source("lost"), at=2)
    feed.load()
    with closing(connect(location)) as connection:
        connection.execute("DELETE FROM versions WHERE version = 2")
        connection.execute("DELETE FROM objects WHERE since = 2")
        later = Store(location, now_ms=lambda: 1)
        change(later, source("other"), at=2)
        assert feed.poll() == later.snapshot()
        connection.execute("DELETE FROM versions WHERE version = 2")
        connection.execute("DELETE FROM objects WHERE since = 2")
    later.pass_over(Highest(version=2), ends(2))
    assert feed.poll() == later.snapshot()
    assert [each.id for each in later.snapshot().sources] == ["website"]
    later.close()
