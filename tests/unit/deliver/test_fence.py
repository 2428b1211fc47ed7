"""One of many workers writes only what it owns, by the number that was raised when it took it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.open import ensure
from hookline.deliver.cluster.fence import Fence, Fenced, now_seconds, raise_epoch
from hookline.deliver.store.batch import Batch, CheckpointRow, LaneRow, ReplayedRow, ReplayRow, RetryRow
from hookline.deliver.store.writer import DeliverStore
from hookline.replays.dead_letters import DeadLetterAction, DeadLetterFilter
from tests.unit.conftest import LocationOf
from tests.unit.deliver.rig import Rig, destination, source

SESSION_SECONDS = 10.0


@pytest.fixture
def location(location_of: LocationOf) -> DatabaseLocation:
    """A new deliver database."""
    ensure(location_of("deliver"), "deliver")
    return location_of("deliver")


@pytest.fixture
def rows(location: DatabaseLocation) -> Iterator[Connection]:
    """What anybody may read and change."""
    connection = connect(location)
    yield connection
    connection.close()


class Worker:
    """A store behind a fence."""

    def __init__(self, location: DatabaseLocation, rows: Connection, name: str) -> None:
        self.fence = Fence(SESSION_SECONDS)
        self.store = DeliverStore(location, self.fence)
        self._rows = rows
        self._name = name

    def take(self, *partitions: int) -> None:
        """Become the owner of partitions."""
        for partition in partitions:
            self.fence.epochs[partition] = raise_epoch(self._rows, partition, self._name, 0)

    def batch(self) -> Batch:
        """A batch that begins now."""
        begun = Batch()
        begun.epochs = dict(self.fence.epochs)
        return begun


@pytest.fixture
def workers(location: DatabaseLocation, rows: Connection) -> Iterator[tuple[Worker, Worker]]:
    """Two workers that own nothing yet."""
    pair = Worker(location, rows, "one"), Worker(location, rows, "two")
    yield pair
    for worker in pair:
        worker.store.close()


def retry(lane: int, partition: int, offset: int = 5) -> RetryRow:
    """A retry row that is due."""
    return RetryRow(lane, partition, offset, 1, 0, 0, 31)


def test_a_later_owner_shuts_the_earlier_one_out(workers: tuple[Worker, Worker], rows: Connection) -> None:
    """What an outdated owner wants to write is not written, and it hears of which partitions it is."""
    one, two = workers
    one.take(0, 1)
    batch = one.batch()
    batch.checkpoints += [CheckpointRow(0, 7, 1, b""), CheckpointRow(1, 8, 1, b"")]
    batch.retry(retry(1, 1))
    two.take(1)
    with pytest.raises(Fenced) as fenced:
        one.store.commit(batch)
    assert fenced.value.partitions == {1}
    assert rows.execute("SELECT count(*) FROM checkpoints").fetchone()[0] == 0
    batch.leave_out(fenced.value.partitions.__contains__)
    one.store.commit(batch)
    assert rows.execute("SELECT partition, next_offset FROM checkpoints").fetchall() == [(0, 7)]
    assert rows.execute("SELECT count(*) FROM retries").fetchone()[0] == 0


def test_rows_of_others_are_not_acted_on(workers: tuple[Worker, Worker]) -> None:
    """A worker tries the rows of its partitions, and of those it is giving up none."""
    one, two = workers
    one.take(0, 1)
    batch = one.batch()
    for partition in (0, 1):
        batch.retry(retry(1, partition))
    one.store.commit(batch)
    two.take(1)
    del one.fence.epochs[1]
    assert [row.partition for row in one.store.rows.first_due(1, 10)] == [0]
    assert [row.partition for row in two.store.rows.oldest(1, 10)] == [1]
    batch = two.batch()
    batch.counts = {1, 2}
    two.store.look(batch)
    assert batch.counted == {1: 1, 2: 0}
    two.fence.leaving.add(1)
    assert two.store.rows.first_due(1, 10) == []


def test_what_ends_a_lane_ends_it_in_ones_own_partitions(workers: tuple[Worker, Worker], rows: Connection) -> None:
    """Rows of a lane that are another worker's are that worker's to delete, and to bring back."""
    one, two = workers
    one.take(0)
    two.take(1)
    for worker, partition in ((one, 0), (two, 1)):
        batch = worker.batch()
        batch.retry(retry(1, partition))
        batch.lanes[1, partition] = LaneRow(1, partition, 3, "closed", b"")
        worker.store.commit(batch)
    batch = one.batch()
    batch.lanes_ended.add(1)
    one.store.commit(batch)
    for table in ("lanes", "retries"):
        assert rows.execute(f"SELECT partition FROM {table}").fetchall() == [(1,)]


def test_a_discard_that_every_worker_hears_of_is_carried_out_once(
    workers: tuple[Worker, Worker], rows: Connection
) -> None:
    """How many letters it was about is told by the one that was first."""
    rows.execute(
        'INSERT INTO dead_letters (lane, destination, partition, "offset", message_id, source, type, status, attempts,'
        " at) VALUES (1, 'crm', 0, 1, 'm', 's', 'track', 'failed', 1, 1)"
    )
    for worker in workers:
        batch = worker.batch()
        batch.actions.append(DeadLetterAction(1, DeadLetterFilter(destination="crm")))
        worker.store.commit(batch)
    assert rows.execute("SELECT last, discarded FROM dead_letter_actions").fetchall() == [(1, 1)]


def test_a_replay_is_done_when_it_is_in_every_partition(workers: tuple[Worker, Worker], rows: Connection) -> None:
    """Each worker says that its part is done; the last one ends the replay, and nobody brings it back."""
    state = "SELECT state FROM replays"
    for worker, partition, expected in ((workers[0], 0, "running"), (workers[1], 1, "done")):
        worker.take(partition)
        batch = worker.batch()
        batch.lanes[9, partition] = LaneRow(9, partition, 3, "finished", b"")
        batch.replays[9] = ReplayRow(9, "running", 5)
        batch.replayed.append(ReplayedRow(9, partition, 2, "crm"))
        batch.parts_done.append((5, 9, 2))
        worker.store.commit(batch)
        assert rows.execute(state).fetchall() == [(expected,)]
    late = workers[0].batch()
    late.replays[9] = ReplayRow(9, "running", 6)
    late.replayed.append(ReplayedRow(9, 0, 1, "crm"))
    workers[0].store.commit(late)
    assert rows.execute("SELECT state, delivered, ended_at FROM replays").fetchall() == [("done", 3, 5)]


def test_nothing_is_sent_without_the_groups_word() -> None:
    """The lease is half the session, from when the word was asked for."""
    fence = Fence(SESSION_SECONDS)
    assert fence.is_shut
    fence.confirm(now_seconds())
    assert not fence.is_shut
    fence.confirm(now_seconds() - SESSION_SECONDS)  # an answer that comes late takes nothing back
    assert not fence.is_shut
    fence.shut()
    assert fence.is_shut
    fence.confirm(now_seconds() - SESSION_SECONDS / 2)
    assert fence.is_shut


def test_first_tries_retries_and_probes_wait_for_the_groups_word(rig: Rig) -> None:
    """While the fence is shut nothing leaves, whatever is queued or due; what was in flight ends; then all goes on."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append("a")
    rig.turn()
    fence = rig.role.engine.fence = Fence(SESSION_SECONDS)
    fence.epochs[0] = 1
    rig.append("b")
    rig.turn()
    (first,) = rig.network.waiting
    rig.answer(first, 503)
    rig.checkpoint()
    rig.pass_time(5.0)
    assert rig.network.waiting == []
    fence.confirm(now_seconds())
    rig.pass_time(1.0)
    assert rig.answer_all() == 2
