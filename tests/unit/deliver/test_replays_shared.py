"""Replays where partitions come and go: each event once, all of it counted, and an end that every worker hears of."""

from __future__ import annotations

from contextlib import closing

import pytest

from hookline.connections.model import DeliveryOptions
from hookline.database.connect import connect
from hookline.database.location import location_of
from hookline.deliver.replays import CANCELLED
from hookline.deliver.store.batch import Batch, ReplayRow
from hookline.replays.model import Replay
from tests.unit.deliver.conftest import MakeWorker
from tests.unit.deliver.rig import destination
from tests.unit.deliver.worker_rig import WorkerRig


def begin(worker: WorkerRig, events: int) -> Replay:
    """Replay so many events, in turn from each partition, which were delivered before."""
    rig = worker.rig
    partitions = rig.settings.journal.partitions
    for number in range(events):
        worker.append(number % partitions, f"m{number}")
    worker.go_on(3)
    replay = rig.replay()
    rig.follow()
    rig.checkpoint()
    return replay


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_new_worker_goes_on_with_what_failed(worker: WorkerRig, is_paused: bool) -> None:
    """Also where the replay is paused as the worker comes, for longer than the window, and is resumed later."""
    rig = worker.rig
    replay = begin(worker, 3)
    rig.answer_all(503)
    rig.checkpoint()
    if is_paused:
        rig.want(replay, "paused")
        rig.checkpoint()
        rig.pass_time(rig.settings.deliver.retry_window * 2)
    worker.replace()
    if is_paused:
        worker.go_on(2)
        rig.want(replay, "running")
    worker.go_on()
    assert sorted(rig.replayed(replay)) == [0, 0, 1, 1, 2, 2]
    assert worker.rows("SELECT lane FROM retries") == []
    assert rig.replay_row(replay) == ("done", 3, 0)


def test_a_new_worker_reads_nothing_again_that_waits_for_another_try(worker: WorkerRig) -> None:
    """Where an earlier event was in flight as the last owner was killed, it is sent anew, the others once more."""
    rig = worker.rig
    replay = begin(worker, 3)
    for request in worker.in_flight()[1:]:
        rig.answer(request, 503)
    rig.want(replay, "paused")
    rig.checkpoint()
    worker.replace(is_killed=True)
    rig.want(replay, "running")
    worker.go_on()
    assert sorted(rig.replayed(replay)) == [0, 0, 1, 1, 2, 2]
    assert rig.replay_row(replay) == ("done", 3, 0)


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_new_worker_sends_nothing_again_that_was_delivered(worker: WorkerRig, is_paused: bool) -> None:
    """Where an earlier event was in flight as the last owner was killed, that is sent anew, and each counts once."""
    rig = worker.rig
    replay = begin(worker, 4)
    for request in worker.in_flight()[1:]:
        rig.answer(request)
    if is_paused:
        rig.want(replay, "paused")
    rig.checkpoint()
    worker.replace(is_killed=True)
    if is_paused:
        rig.want(replay, "running")
    worker.go_on()
    assert sorted(rig.replayed(replay)) == [0, 0, 1, 2, 3]
    assert rig.replay_row(replay) == ("done", 4, 0)


def test_a_part_that_is_done_is_said_to_be_after_another_came_and_went(make_worker: MakeWorker) -> None:
    """The replay ends when whoever has the other partition is through it."""
    worker = make_worker(partitions=2)
    rig = worker.rig
    replay = begin_in_one(worker, 24)
    worker.go_on(3)
    assert worker.rows("SELECT partition, state FROM lanes") == [(0, "finished")]
    worker.take_up(1)
    rig.checkpoint()
    assert len(rig.network.waiting) == 4
    worker.give_up(1, answer=200)
    worker.go_on(3)
    end_part(worker, replay, 1)
    worker.go_on(3)
    assert rig.replay_row(replay)[0] == "done"


def test_a_part_that_is_done_takes_no_place(make_worker: MakeWorker) -> None:
    """While whoever has the other partition is still at work, this worker begins with the next replay."""
    worker = make_worker(partitions=2)
    rig = worker.rig
    rig.role.replays._running_max = 1
    first = begin_in_one(worker, 4)
    second = rig.replay()
    rig.follow()
    assert rig.replayed(second) == []
    worker.go_on(3)
    assert rig.replay_row(first)[0] == "running"
    assert rig.replayed(second) == [0, 1]


def test_what_was_delivered_as_its_partition_was_lost_counts_once(worker: WorkerRig) -> None:
    """Nothing of it was saved: whoever owns the partition next finds it delivered, and counts it."""
    rig = worker.rig
    replay = begin(worker, 2)
    assert len(rig.network.waiting) == 2
    rig.answer_all()
    worker.lose()
    rig.checkpoint()
    worker.take_up()
    worker.go_on(3)
    assert rig.replay_row(replay) == ("done", 2, 0)


def test_what_is_left_of_a_replay_that_was_cancelled_between_owners_is_discarded(worker: WorkerRig) -> None:
    """Whoever takes the partition up keeps no rows of it, and its events say that they were not sent again."""
    rig = worker.rig
    replay = begin(worker, 9)
    worker.give_up(answer=503)
    rig.want(replay, "cancelled")
    rig.checkpoint()
    worker.take_up()
    worker.go_on(3)
    assert is_discarded(worker, replay, "m8")


def test_what_is_left_of_a_paused_replay_that_is_cancelled_is_discarded(worker: WorkerRig) -> None:
    """Also by a worker that came while it was paused, and has no lane of it."""
    rig = worker.rig
    replay = begin(worker, 9)
    rig.answer_all(503)
    rig.want(replay, "paused")
    worker.replace()
    rig.want(replay, "cancelled")
    worker.go_on(3)
    assert is_discarded(worker, replay, "m8")


def test_whoever_hears_of_a_cancellation_by_others_has_its_own_part_on_the_record(make_worker: MakeWorker) -> None:
    """Another worker's row may say so before this one looks at what control wants."""
    worker = make_worker(partitions=2)
    rig = worker.rig
    replay = begin_in_one(worker, 24)
    rig.replays.want(replay.lane, "cancelled", None)
    end_elsewhere(worker, replay, "cancelled")
    rig.pass_time(2.0)
    (request, *others) = rig.network.waiting
    rig.answer(request)
    for each in others:
        rig.answer(each, 503)
    worker.go_on(3)
    assert worker.rows("SELECT partition, status, reason FROM ranges") == [(0, "discarded", CANCELLED)]
    assert rig.replay_row(replay) == ("cancelled", 1, 0)


@pytest.mark.parametrize("state", ["done", "cancelled"])
def test_a_replay_that_others_ended_begins_nothing_anew_in_a_partition_that_comes(
    make_worker: MakeWorker, state: str
) -> None:
    """The last owner has dropped where it stood; that it ended is looked for here only once a second."""
    worker = make_worker(partitions=2)
    rig = worker.rig
    replay = begin_in_one(worker, 8)
    worker.go_on(3)
    end_elsewhere(worker, replay, state)
    worker.take_up(1)
    worker.go_on(3)
    assert rig.replayed(replay) == [0, 1, 2, 3]


@pytest.mark.parametrize("is_paused", [False, True])
def test_an_order_that_ended_between_owners_holds_up_nothing_of_a_replay(
    make_worker: MakeWorker, is_paused: bool
) -> None:
    """What waited for its user's turn is sent: no turn is called any more. So it is where the lane is opened later."""
    worker = make_worker(delivery=DeliveryOptions(order="user"))
    rig = worker.rig
    replay = begin(worker, 3)
    rig.answer_all(503)
    if is_paused:
        rig.want(replay, "paused")
    worker.give_up()
    assert worker.rows("SELECT count(*) FROM retries") == [(3,)]
    rig.change(destination("crm"))
    rig.follow()
    rig.checkpoint()
    if is_paused:
        worker.replace()
        rig.want(replay, "running")
    else:
        worker.take_up()
    worker.go_on()
    assert sorted(set(rig.replayed(replay))) == [0, 1, 2]
    assert worker.rows("SELECT * FROM retries") == []


def is_discarded(worker: WorkerRig, replay: Replay, message_id: str) -> bool:
    """Return whether nothing is left of a cancelled replay but the record of what it did not send."""
    assert worker.rig.replay_row(replay)[0] == "cancelled"
    assert worker.rows("SELECT lane FROM retries") == worker.rows("SELECT lane FROM lanes") == []
    (of_destination,) = worker.rig.event(message_id).destinations
    return [each.status for each in of_destination.replays] == ["discarded"]


def begin_in_one(worker: WorkerRig, events: int) -> Replay:
    """Replay so many events, half of which are in a partition that others own."""
    for number in range(events):
        worker.append(number % 2, f"m{number}")
    worker.go_on(3)
    worker.give_up(1)
    replay = worker.rig.replay()
    worker.rig.follow()
    worker.rig.checkpoint()
    return replay


def end_elsewhere(worker: WorkerRig, replay: Replay, state: str) -> None:
    """Have another worker end a replay."""
    batch = Batch()
    batch.replays[replay.lane] = ReplayRow(replay.lane, state, 5, ended_ms=5, reason=CANCELLED)
    worker.rig.role.store.commit(batch)


def end_part(worker: WorkerRig, replay: Replay, partition: int) -> None:
    """Have another worker come to the end of a replay in its partition, and say so."""
    rig = worker.rig
    with closing(connect(location_of(rig.settings, "deliver"))) as connection:
        connection.execute(
            "UPDATE lanes SET state = 'finished', next_offset = ? WHERE partition = ?",
            (rig.appender.ends()[partition], partition),
        )
    batch = Batch()
    batch.parts_done.append((5, replay.lane, 2))
    rig.role.store.commit(batch)
