"""Replays where partitions come and go: each event once, all of it counted, and an end that every worker hears of."""

from __future__ import annotations

import pytest

from hookline.connections.model import DeliveryOptions
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
