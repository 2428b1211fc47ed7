"""A partition that comes goes on where it stood, whatever became of the connections while nobody owned it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from hookline.connections.edits import Delete
from hookline.connections.model import DeliveryOptions
from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.location import location_of
from hookline.deliver.cluster import takeover
from hookline.deliver.cluster.shared_ring import SharedRing
from hookline.deliver.cluster.takeover import Claims
from hookline.index.duplicates import Duplicates
from hookline.journal.damaged import read_lost
from hookline.journal.opening import FOLDER
from hookline.journal.port import JournalAway
from tests.unit.deliver.conftest import MakeWorker
from tests.unit.deliver.rig import Rig, destination, source
from tests.unit.deliver.test_filters import HEARTBEATS, event
from tests.unit.deliver.test_pausing import pause, resume
from tests.unit.deliver.worker_rig import WorkerRig
from tests.unit.index.conftest import finish

PARTITION = 0


@pytest.fixture
def passing(make_worker: MakeWorker) -> WorkerRig:
    """A worker whose one partition is on its way."""
    return make_worker(delivery=DeliveryOptions(max_concurrency=2))


@pytest.fixture
def rig(passing: WorkerRig) -> Rig:
    """Its rig."""
    return passing.rig


def test_what_was_queued_and_what_waits_as_a_row_goes_on(rig: Rig, passing: WorkerRig) -> None:
    """Each event is sent by whoever owns it: what was answered not again, what was not, or failed, once more."""
    rig.append(*(f"m{number}" for number in range(6)))
    rig.turn()
    rig.answer(rig.network.waiting[0], 200)
    rig.answer(rig.network.waiting[0], 503)
    in_flight = [request.offset for request in rig.network.waiting]
    assert in_flight == [2]
    in_flight = [request.delivery for request in rig.network.waiting]
    rig.network.waiting.clear()
    passing.give_up()
    for delivery in in_flight:
        rig.role.engine.release(delivery)
    sent = len(rig.network.sent)
    rig.append("later")
    passing.take_up()
    rig.come_to_rest()
    again = [request.offset for request in rig.network.sent[sent:]]
    assert sorted(again) == [1, 2, 3, 4, 5, 6]
    assert all(rig.status_at(f"m{number}", "crm") == "delivered" for number in range(6))
    assert rig.status_at("later", "crm") == "delivered"


@pytest.mark.parametrize("how", ["given up", "killed", "back"])
def test_a_chosen_rate_goes_with_the_partition(rig: Rig, passing: WorkerRig, how: str) -> None:
    """What waited during a pause comes no faster from a process that owned nothing for a while, and ended its own part
    of catching up."""
    pause(rig)
    rig.append(*(f"m{number}" for number in range(40)))
    resume(rig, rate=10.0)
    rig.checkpoint()
    if how == "back":
        rig.role.feeder.freeze(PARTITION)
        rig.pass_time(0.1)
        passing.give_up(answer=200)
        rig.pass_time(0.1)
        passing.take_up()
    else:
        rig.answer_all(200)
        rig.checkpoint()
        passing.replace(is_killed=how == "killed")
    before = len(rig.network.sent)
    for _ in range(20):
        rig.pass_time(0.1)
        rig.answer_all(200)
    assert 15 <= len(rig.network.sent) - before <= 23
    rig.come_to_rest(seconds=0.1)
    assert rig.lane("crm").rate is None
    assert set(rig.offsets("crm")) == set(range(40))


def test_a_chosen_rate_holds_where_nobody_saw_the_pause(rig: Rig, passing: WorkerRig) -> None:
    """It began and ended while nobody owned the partition."""
    passing.give_up()
    rig.append(*(f"m{number}" for number in range(40)))
    pause(rig)
    resume(rig, rate=10.0)
    rig.pass_time(0.1)
    passing.take_up()
    for _ in range(20):
        rig.pass_time(0.1)
        rig.answer_all(200)
    assert 15 <= len(rig.network.sent) <= 23


def test_a_lane_that_ended_meanwhile_is_discarded_on_the_record(rig: Rig, passing: WorkerRig) -> None:
    """Nobody sent what was left, and the status of it says why."""
    rig.append(*(f"m{number}" for number in range(3)))
    rig.turn()
    rig.answer_all()
    passing.give_up()
    rig.append("left")
    rig.change(Delete("destination", "crm"), destination("other"))
    rig.follow()
    passing.take_up()
    rig.append("new")
    rig.turn()
    rig.come_to_rest()
    assert rig.status_at("m1", "crm") == "delivered"
    assert rig.status_at("left", "crm") == "discarded"
    connection = connect(location_of(rig.settings, "deliver"), read_only=True)
    assert connection.execute("SELECT first_offset, last_offset, status FROM ranges").fetchall() == [
        (3, 3, "discarded")
    ]
    connection.close()
    assert rig.offsets("other") == [4]


def test_what_a_lane_that_ended_had_to_catch_up_with_is_discarded_and_the_rest_stays_filtered(
    rig: Rig, passing: WorkerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While brokers are slow with a new source's events the lane follows the partition, whatever its own row says."""
    filtered = partial(destination, "crm", filters=(HEARTBEATS,))
    rig.change(source("app"), filtered())
    rig.follow()
    rig.change(filtered(sources=("website", "app")))
    rig.append(*(rig.record(f"a{number}", source="app") for number in range(3)))
    rig.turn()
    passing.give_up()
    rig.follow()
    monkeypatch.setattr(rig.role.feeder.catch_up, "turn", lambda: False)
    passing.take_up()
    rig.checkpoint()
    rig.checkpoint()
    rig.append(event(rig, "beat", "Heartbeat"))
    rig.turn()
    rig.checkpoint()
    assert passing.rows("SELECT next_offset FROM lanes") == [(3,)]
    passing.lose()
    rig.change(Delete("destination", "crm"))
    rig.follow()
    passing.take_up()
    rig.checkpoint()
    assert passing.rows("SELECT first_offset, last_offset, status FROM ranges") == [(0, 3, "discarded")]
    assert [rig.status_at(each, "crm") for each in ("a2", "beat")] == ["discarded", "filtered"]


def test_what_only_a_ring_knows_of_a_lane_that_ended_is_saved(rig: Rig, passing: WorkerRig) -> None:
    """The ring comes round, and is of one machine: the events said then that they were discarded."""
    rig.append("m0", "m1")
    rig.turn()
    rig.checkpoint()
    rig.answer_all()
    rig.change(Delete("destination", "crm"))
    passing.replace(is_killed=True)
    rig.checkpoint()
    (rig.folder / "progress.ring").unlink()
    assert [rig.status_at(each, "crm") for each in ("m0", "m1")] == ["delivered"] * 2
    assert passing.rows("SELECT destination, delivered FROM delivered") == [("crm", 2)]


def test_what_only_a_ring_knows_of_a_lane_that_came_and_went_is_saved(rig: Rig, passing: WorkerRig) -> None:
    """The connections of the last checkpoint know nothing of it either."""
    rig.checkpoint()
    rig.change(destination("late"))
    rig.append("m0")
    rig.follow()
    rig.answer_all(destination="late")
    rig.change(Delete("destination", "late"))
    for _ in range(2):
        passing.replace(is_killed=True)
        rig.checkpoint()
    (rig.folder / "progress.ring").unlink()
    assert rig.status_at("m0", "late") == "delivered"
    assert passing.rows("SELECT destination, delivered FROM delivered") == [("late", 1)]


def test_what_only_a_ring_knows_of_a_lane_that_ends_just_then_counts_once(make_worker: MakeWorker) -> None:
    """Until the next checkpoint this process knows the lane, and counts what is saved of it."""
    worker = make_worker(partitions=2)
    rig = worker.rig
    worker.append(1, "m0")
    rig.turn()
    rig.checkpoint()
    rig.answer_all()
    worker.lose(1)
    rig.checkpoint()
    SharedRing(location_of(rig.settings, "deliver"), rig.role.engine.ring).publish()
    rig.change(Delete("destination", "crm"))
    worker.take_up(1)
    rig.checkpoint()
    assert worker.rows("SELECT destination, delivered FROM delivered") == [("crm", 1)]


def test_what_only_a_ring_knows_of_a_new_source_is_not_sent_again(rig: Rig, passing: WorkerRig) -> None:
    """The source came after the last checkpoint, and its events lie before where the lane stood."""
    rig.change(source("app"))
    rig.follow()
    rig.append("m0")
    rig.turn()
    rig.answer_all()
    rig.change(destination("crm", sources=("website", "app")))
    rig.append(*(rig.record(f"a{number}", source="app") for number in range(3)))
    rig.turn()
    rig.checkpoint()
    rig.follow()
    assert rig.answer_all() == 3
    passing.replace(is_killed=True)
    rig.come_to_rest()
    assert rig.offsets("crm") == [0, 1, 2, 3]
    assert passing.rows("SELECT delivered FROM delivered") == [(4,)]


def test_a_source_and_a_destination_that_came_meanwhile_miss_nothing(rig: Rig, passing: WorkerRig) -> None:
    """What was accepted from the change on is sent to them, also what the last owner had read without knowing of it."""
    rig.append("before", rig.record("not-yet", source="app"))
    rig.change(source("app"), destination("crm", sources=("website", "app")), destination("late", sources=("app",)))
    rig.append("after", rig.record("now", source="app"))
    rig.turn()
    rig.answer_all()
    passing.give_up()
    rig.follow()
    passing.take_up()
    rig.come_to_rest()
    assert rig.offsets("crm") == [0, 2, 3]
    assert rig.offsets("late") == [3]


def test_a_lane_that_was_paused_meanwhile_waits(rig: Rig, passing: WorkerRig) -> None:
    """The new owner sends nothing to it before the pause ends, and then everything."""
    passing.give_up()
    rig.append("m0", "m1")
    pause(rig)
    passing.take_up()
    rig.pass_time(1.0)
    assert rig.offsets("crm") == []
    resume(rig)
    rig.come_to_rest()
    assert rig.offsets("crm") == [0, 1]


def test_the_window_stands_still_for_a_pause_that_ended_meanwhile(rig: Rig, passing: WorkerRig) -> None:
    """The new owner tries again what failed before a pause that is longer than the window."""
    rig.append("late")
    rig.turn()
    rig.answer_all(503)
    pause(rig)
    rig.checkpoint()
    rig.pass_time(rig.settings.deliver.retry_window * 3)
    passing.give_up()
    resume(rig)
    rig.checkpoint()
    passing.take_up()
    passing.go_on()
    assert rig.status_at("late", "crm") == "delivered"


def test_a_pause_that_ends_as_a_partition_comes_is_left_out_once(rig: Rig, passing: WorkerRig) -> None:
    """It makes the window no longer, whether the worker hears of the end before it takes the partition up or then."""
    rig.append("late")
    rig.turn()
    rig.answer_all(503)
    pause(rig)
    rig.checkpoint()
    ((first_at,),) = passing.rows("SELECT first_at FROM retries")
    paused_ms = 60_000
    rig.pass_time(paused_ms / 1000)
    passing.give_up()
    rig.store.resume("crm", None, "test", rig.appender.ends)
    passing.take_up()
    rig.checkpoint()
    assert passing.rows("SELECT first_at FROM retries") == [(first_at + paused_ms,)]


def test_the_window_stands_still_for_a_pause_of_a_replay_that_ended_meanwhile(rig: Rig, passing: WorkerRig) -> None:
    """So it does for what a replay sends, whichever of the two was paused."""
    rig.append("late")
    passing.go_on(1)
    replay = rig.replay()
    rig.follow()
    rig.turn()
    rig.answer_all(503)
    for begin, end in (
        (lambda: rig.want(replay, "paused"), lambda: rig.want(replay, "running")),
        (lambda: pause(rig), lambda: resume(rig)),
    ):
        begin()
        rig.checkpoint()
        rig.pass_time(rig.settings.deliver.retry_window * 3)
        passing.give_up()
        end()
        passing.take_up()
        rig.checkpoint()
        rig.pass_time(rig.settings.deliver.retry_max)
        rig.answer_all(503)
        rig.checkpoint()
    passing.go_on()
    assert rig.replay_row(replay) == ("done", 1, 0)


def test_a_place_behind_the_journals_end_is_not_taken_up(rig: Rig, passing: WorkerRig) -> None:
    """Nothing is sent again, and nothing passed over, because the journal lacks what was read before."""
    rig.append("m0", "m1")
    rig.turn()
    rig.answer_all()
    passing.give_up()
    connection = connect(location_of(rig.settings, "deliver"))
    connection.execute("UPDATE checkpoints SET next_offset = 9")
    with pytest.raises(JournalAway, match="ends at 2, before 9"):
        passing.take_up()
    connection.execute("UPDATE checkpoints SET next_offset = 2")
    connection.close()
    passing.take_up()
    rig.append("m2")
    rig.come_to_rest()
    assert rig.offsets("crm") == [0, 1, 2]


@pytest.fixture
def short(rig: Rig, passing: WorkerRig) -> Iterator[Connection]:
    """The database as the worker finds that the partition ends at 1, where it had been read up to 2."""
    rig.append("m0")
    rig.turn()
    rig.answer_all()
    passing.give_up()
    with closing(connect(location_of(rig.settings, "deliver"))) as connection:
        connection.execute("UPDATE checkpoints SET next_offset = 2")
        with pytest.raises(JournalAway, match="ends at 1, before 2"):
            passing.take_up()
        yield connection


@pytest.mark.parametrize(("came_after", "expected"), [(1, [(PARTITION, 1, 2)]), (-1, [])])
def test_offsets_that_were_lost_and_given_again_are_noted(
    rig: Rig, passing: WorkerRig, short: Connection, came_after: int, expected: list[tuple[int, int, int]]
) -> None:
    """What has the offsets now came after the partition was seen to be too short: that is no broker that was late."""
    rig.append(rig.record("m1", received_at=rig.clock.steady_ms() + came_after))
    passing.take_up()
    folder = rig.settings.data_path / FOLDER
    assert [(each.partition, each.first, each.next_offset) for each in read_lost(folder)] == expected


def test_what_others_read_behind_a_short_journal_was_not_lost(rig: Rig, passing: WorkerRig, short: Connection) -> None:
    """Another worker took the partition once it was long enough; when it comes back it is further than it was then."""
    rig.append(*(rig.record(f"n{number}", received_at=rig.clock.steady_ms() + 1) for number in range(20)))
    short.execute("UPDATE checkpoints SET next_offset = 21")
    passing.take_up()
    lost = read_lost(rig.settings.data_path / FOLDER)
    assert [(each.first, each.next_offset) for each in lost] == [(1, 2)]


def test_a_partition_that_was_short_for_a_worker_which_lost_it_is_looked_at_anew(
    rig: Rig, passing: WorkerRig, short: Connection
) -> None:
    """The broker was only late; others delivered what it had, and retention has dropped that before it comes back."""
    with passing.member() as member:
        member._lost(frozenset((PARTITION,)))
    for message_id in ("m1", "m2"):
        rig.append(message_id)
        rig.appender.retain(rig.clock.now_ms() + 10**12)
    assert rig.role.journal.start(PARTITION) == 2
    passing.take_up()
    assert read_lost(rig.settings.data_path / FOLDER) == ()


def test_two_processes_with_the_same_host_and_number_are_two_workers(rig: Rig, passing: WorkerRig) -> None:
    """As in containers that share the host's network: each took all of a destination's rate for itself."""
    with closing(Claims(rig.settings, passing._shelf, rig.clock.steady_ms)) as other:
        assert other.worker != passing._claims.worker


TABLES = ("checkpoints", "lanes", "retries", "outcome_blocks")


def test_a_database_that_went_back_sends_nothing_again_that_a_ring_knows(rig: Rig, passing: WorkerRig) -> None:
    """Whoever takes the partition up knows from its last owner's ring what was delivered since the checkpoint that is
    left, at once and after a retry; what that did not deliver is sent."""
    rig.append(*(f"m{number}" for number in range(3)))
    rig.turn()
    rig.answer(rig.network.waiting[0], 503)
    passing.give_up()
    with closing(connect(location_of(rig.settings, "deliver"))) as connection:
        before = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
        passing.take_up()
        rig.append(*(f"m{number}" for number in range(3, 6)))
        rig.come_to_rest()
        passing.give_up()
        sent = len(rig.network.sent)
        for table, rows in before.items():
            connection.execute(f"DELETE FROM {table}")
            for row in rows:
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    SharedRing(location_of(rig.settings, "deliver"), rig.role.engine.ring).publish()
    rig.append("later")
    passing.take_up()
    rig.come_to_rest()
    assert [request.offset for request in rig.network.sent[sent:]] == [6]
    assert all(rig.status_at(f"m{number}", "crm") == "delivered" for number in range(6))
    rig.checkpoint()
    with closing(connect(location_of(rig.settings, "deliver"), read_only=True)) as connection:
        assert connection.execute("SELECT count(*) FROM retries").fetchone() == (0,)


def test_an_owner_that_stays_keeps_no_runs_of_what_the_journal_has_dropped(
    make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each run that it seals it lets go of those that retention has passed since it took the partition."""
    monkeypatch.setattr(takeover, "Duplicates", partial(Duplicates, run_events=50))
    rig = make_worker().rig

    def store(events: int) -> None:
        for _ in range(0, events, 25):
            end = rig.appender.ends()[PARTITION]
            rig.append(*(f"m{end + number}" for number in range(25)))
            rig.turn()
            rig.answer_all()
        finish(rig.role.feeder.shared[PARTITION].duplicates)

    store(600)
    rig.appender.retain(rig.clock.now_ms() + 10**12)
    start = rig.role.journal.start(PARTITION)
    assert start > 50
    store(50)
    with closing(connect(location_of(rig.settings, "deliver"), read_only=True)) as connection:
        rows = connection.execute("SELECT first_offset, next_offset FROM index_runs ORDER BY first_offset").fetchall()
    assert rows[0][0] <= start < rows[0][1]
    assert rows[-1] == (600, 650)
