"""Replays in control.db, and the other roles' view of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.connections.store import Store
from hookline.database.location import DatabaseLocation
from hookline.database.sqlite import DatabaseNotMade
from hookline.replays import store as store_module
from hookline.replays.dead_letters import DeadLetterFilter
from hookline.replays.model import Replay, ReplayRequest, lane_of
from hookline.replays.offset_set import OffsetSet
from hookline.replays.store import ReplayFeed, ReplayStore, TooManyReplays
from tests.unit.conftest import LocationOf

REQUEST = ReplayRequest(destination="crm", rate=5)


@pytest.fixture
def location(location_of: LocationOf) -> DatabaseLocation:
    """A new control database."""
    Store(location_of("control")).close()
    return location_of("control")


@pytest.fixture
def store(location: DatabaseLocation) -> Iterator[ReplayStore]:
    """The replays of it, at the time 1,000 ms."""
    opened = ReplayStore(location, now_ms=lambda: 1_000)
    yield opened
    opened.close()


@pytest.fixture
def feed(location: DatabaseLocation) -> Iterator[ReplayFeed]:
    """A view of it."""
    opened = ReplayFeed(location)
    yield opened
    opened.close()


def make(store: ReplayStore, request: ReplayRequest = REQUEST) -> Replay:
    """A replay of offsets 3 to 9."""
    return store.create(request, 1, {0: 3}, {0: 10}, "test", "preparing" if request.by_positions else "running")


def test_what_is_made_is_read_back(store: ReplayStore, feed: ReplayFeed) -> None:
    """By its id, in the list, and by the feed; nothing is answered again without a change."""
    made = make(store)
    assert store.get(made.lane) == made
    assert (lane_of(made.id), made.rate, made.covers(0, 9), made.covers(0, 10)) == (made.lane, 5, True, False)
    assert feed.poll() == [made]
    assert feed.poll() is None


def test_a_replay_with_a_rate_that_was_once_taken_is_read(store: ReplayStore, feed: ReplayFeed) -> None:
    """Earlier versions took less than the API takes now."""
    made = make(store, ReplayRequest(destination="crm", rate=1e-300))
    assert feed.poll() == [made]
    assert made.rate == 1e-300


def test_lane_numbers_are_shared_with_destinations(store: ReplayStore) -> None:
    """A replay's lane is never another lane."""
    assert [make(store).lane for _ in range(3)] == [1, 2, 3]


def test_changes_reach_the_feed(store: ReplayStore, feed: ReplayFeed) -> None:
    """Each change is seen at the next look; a pause keeps its first time."""
    made = make(store)
    feed.poll()
    store.want(made.lane, "paused", None)
    (paused,) = feed.poll() or []
    assert (paused.state, paused.rate, paused.paused_ms) == ("paused", None, 1_000)
    store.want(made.lane, "running", 7)
    (running,) = feed.poll() or []
    assert (running.state, running.rate, running.paused_ms) == ("running", 7, None)


def test_single_events_are_prepared(store: ReplayStore, feed: ReplayFeed) -> None:
    """With its places it begins, unless it was paused meanwhile; until then it is not prepared."""
    first = make(store, ReplayRequest(destination="crm", message_ids=("m",)))
    second = make(store, ReplayRequest(destination="crm", user_id="u"))
    assert not first.is_prepared
    store.want(second.lane, "paused", None)
    for replay in (first, second):
        store.prepare(replay.lane, {0: OffsetSet([4, 8])})
    prepared = feed.poll() or []
    assert [(each.state, each.total, each.starts, each.ends) for each in prepared] == [
        ("running", 2, {0: 4}, {0: 9}),
        ("paused", 2, {0: 4}, {0: 9}),
    ]
    positions = feed.positions(first.lane)
    assert positions is not None
    assert list(positions[0]) == [4, 8]


def test_positions_are_given_once(store: ReplayStore, feed: ReplayFeed) -> None:
    """A second count, of which less is found because the replay is under way, changes nothing of it."""
    made = make(store, ReplayRequest(destination="crm", dead_letters=DeadLetterFilter(destination="crm")))
    for found in ([4, 8], [8]):
        store.prepare(made.lane, {0: OffsetSet(found)})
    (prepared,) = feed.poll() or []
    positions = feed.positions(made.lane)
    assert positions is not None
    assert (prepared.total, prepared.starts, list(positions[0])) == (2, {0: 4}, [4, 8])


def test_so_many_are_open_and_so_many_are_kept(store: ReplayStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the one limit none is made, beyond the other the oldest ended ones are forgotten."""
    monkeypatch.setattr(store_module, "OPEN_MAX", 2)
    monkeypatch.setattr(store_module, "KEPT_MAX", 2)
    made = [make(store), make(store)]
    with pytest.raises(TooManyReplays):
        make(store)
    store.end(made[0].lane, 2_000)
    made.append(make(store))
    store.end(made[1].lane, 3_000)
    assert [replay.lane for replay in store.newest(10, None)] == [3, 2]


def test_forgetting(store: ReplayStore) -> None:
    """An open one is never forgotten; an ended one when asked to, or when it is old."""
    made = [make(store) for _ in range(3)]
    store.end(made[0].lane, 2_000)
    store.end(made[1].lane, 5_000)
    store.forget(made[2].lane)
    store.forget_ended_before(3_000)
    assert [replay.lane for replay in store.newest(10, None)] == [3, 2]
    store.forget(made[1].lane)
    assert [replay.lane for replay in store.newest(10, None)] == [3]


def test_discards_are_read_in_order(store: ReplayStore, feed: ReplayFeed) -> None:
    """Each one once, after the last that was carried out."""
    numbers = [store.discard(DeadLetterFilter(ids=(id,)), "test") for id in (7, 8)]
    assert [action.dead_letters.ids for action in feed.actions(0)] == [(7,), (8,)]
    assert [action.id for action in feed.actions(numbers[0])] == [numbers[1]]


def test_before_control_has_made_its_file(tmp_path: Path) -> None:
    """Without a file nobody can tell which replays there are."""
    feed = ReplayFeed(tmp_path / "control.db")
    for question in (feed.poll, lambda: feed.positions(1), lambda: feed.actions(0)):
        with pytest.raises(DatabaseNotMade):
            question()


@pytest.mark.parametrize("id", ["", "r", "7", "rx", "r-1", "r1.5", "r" + "9" * 16, "dry-1"])
def test_what_is_no_id(id: str) -> None:
    """Other texts name no lane."""
    assert lane_of(id) is None
