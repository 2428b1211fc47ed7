"""What is under way as a partition is lost: nothing of it is forgotten or kept for ever, whoever owns it next."""

from __future__ import annotations

import asyncio
import errno

import msgspec
import pytest
import structlog

from hookline.connections.model import DeliveryOptions, WebhookSettings
from hookline.deliver.cluster import worker as worker_module
from hookline.deliver.cluster.worker import Worker
from tests.unit.deliver.conftest import MakeWorker
from tests.unit.deliver.rig import destination
from tests.unit.deliver.worker_rig import WorkerRig

RETRIES = 'SELECT partition, "offset" FROM retries'


@pytest.mark.parametrize("answer", [503, 200])
@pytest.mark.parametrize("failed_before", [True, False])
def test_an_event_in_flight_as_its_partition_is_lost_is_sent_by_its_owners(
    worker: WorkerRig, answer: int, failed_before: bool
) -> None:
    """Its answer comes too late to be saved: the event is tried again when the partition is back, and leaves no row."""
    rig = worker.rig
    rig.append("m0")
    rig.turn()
    if failed_before:
        rig.answer_all(503)
        rig.checkpoint()
        rig.pass_time(5.0)
    (request,) = rig.network.waiting
    rig.checkpoint()
    worker.lose()
    rig.answer(request, answer)
    rig.checkpoint()
    if not failed_before:  # the owner in between has no success either
        worker.take_up()
        rig.answer_all(503)
        rig.checkpoint()
        worker.give_up()
    worker.take_up()
    assert worker.rows(RETRIES) == [(0, 0)]
    worker.go_on()
    assert rig.status_at("m0", "crm") == "delivered"
    assert worker.rows(RETRIES) == []


def test_what_fails_after_its_partition_was_lost_is_no_row_here(worker: WorkerRig) -> None:
    """The lane counts the rows that it has."""
    rig = worker.rig
    rig.append("m0")
    rig.turn()
    (request,) = rig.network.waiting
    rig.checkpoint()
    worker.lose()
    rig.answer(request, 503)
    worker.go_on()
    lane = rig.lane("crm")
    assert (lane.retry_count, lane.in_flight, worker.rows(RETRIES)) == (0, {}, [])


def test_what_fails_after_its_partition_was_lost_keeps_no_replay_from_its_end(make_worker: MakeWorker) -> None:
    """The worker says that it is done with its own part."""
    worker = make_worker(partitions=2)
    rig = worker.rig
    for partition in range(2):
        worker.append(partition, *(f"m{partition}{n}" for n in range(2)))
    worker.go_on(3)
    rig.replay()
    rig.follow()
    rig.checkpoint()
    assert len(rig.network.waiting) == 4
    theirs = worker.in_flight(1)
    worker.lose(1)
    for request in theirs:
        rig.answer(request, 503)
    worker.go_on()
    assert (0, "finished") in worker.rows("SELECT partition, state FROM lanes")


def test_urls_that_change_between_owners_are_followed(make_worker: MakeWorker) -> None:
    """The one that has accepted an event is not asked again, wherever it stands in the list now."""
    worker = make_worker()
    rig = worker.rig
    crm = destination("crm", urls=3, delivery=DeliveryOptions(fan_out="all"))
    webhooks = crm.settings.webhooks
    rig.change(crm)
    rig.follow()
    rig.append("m0")
    rig.turn()
    for request in list(rig.network.waiting):
        rig.answer(request, 503 if request.target.index == 1 else 200)
    worker.give_up()
    rig.change(msgspec.structs.replace(crm, settings=WebhookSettings(webhooks=webhooks[1:])))
    rig.follow()
    worker.take_up()
    worker.go_on()
    asked = [request.target.url for request in rig.network.sent]
    assert asked == [*(each.url for each in webhooks), webhooks[1].url]
    assert rig.status_at("m0", "crm") == "delivered"


def test_who_saves_for_long_as_a_partition_goes_keeps_it_when_it_is_back(
    worker: WorkerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group waits for a while, takes the partition, and gives it back before the database has answered."""
    role = worker.rig.role

    async def passing(member: Worker) -> None:
        answered = asyncio.Event()
        monkeypatch.setattr(role.checkpointer, "save", answered.wait)
        release = asyncio.create_task(member._release(frozenset((0,))))
        await asyncio.sleep(0)
        member._lost(frozenset((0,)))
        worker.take_up()
        answered.set()
        await release

    with worker.member() as member:
        worker.rig.loop.run_until_complete(passing(member))
    assert 0 in role.feeder.shared


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "free space"),
        (ValueError("not what it should be"), "ValueError"),
    ],
)
def test_a_partition_that_cannot_be_taken_is_tried_again(
    worker: WorkerRig, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    """Whatever the reason is: it is this worker's, and nobody else delivers it. The log says why, once."""
    monkeypatch.setattr(worker_module, "AGAIN_SECONDS", 0)
    errors, mark = [error, error], object()

    async def try_to_take(*_: object) -> bool:
        if errors:
            raise errors.pop()
        return True

    with worker.member() as member, structlog.testing.capture_logs() as lines:
        monkeypatch.setattr(member, "_try_to_take", try_to_take)
        member._wanted[0] = mark
        worker.rig.loop.run_until_complete(member._take(0, mark, 0.0))
    (line,) = lines
    assert line["event"] == "partition_not_taken"
    assert words in str(line)
