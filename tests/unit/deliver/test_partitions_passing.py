"""What is under way as a partition is lost: nothing of it is forgotten or kept for ever, whoever owns it next."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import msgspec
import pytest
import structlog

from hookline.connections.model import DeliveryOptions, WebhookSettings
from hookline.deliver.cluster import worker as worker_module
from hookline.deliver.cluster.fence import now_seconds
from hookline.deliver.cluster.worker import Worker
from hookline.deliver.lanes import mapped, sinks
from hookline.deliver.lanes.mapped import Parcel, event_of
from hookline.outcomes.outcome import Outcome
from hookline.outcomes.progress import OFFSET_MASK, POSITION_SHIFT
from tests.unit.deliver.conftest import MakeWorker
from tests.unit.deliver.rig import Rig, destination
from tests.unit.deliver.test_sinks import LAKE, accept, with_sinks
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

    async def try_to_take(*_: object) -> None:
        if errors:
            raise errors.pop()

    worker.lose()
    with worker.member() as member, structlog.testing.capture_logs() as lines:
        monkeypatch.setattr(member, "_try_to_take", try_to_take)
        member._wanted[0] = mark
        worker.rig.loop.run_until_complete(member._take(0, mark, 0.0))
    (line,) = lines
    assert line["event"] == "partition_not_taken"
    assert words in str(line)


@pytest.fixture
def lakes(make_worker: MakeWorker) -> WorkerRig:
    """A worker of two partitions that has a sink too, in parcels of ten events."""
    worker = make_worker(partitions=2)
    with_sinks(worker.rig, 10)
    worker.rig.change(msgspec.structs.replace(LAKE, sources=("website",)))
    worker.rig.follow()
    return worker


def at_the_sink(worker: WorkerRig, partition: int = 0) -> list[list[int]]:
    """Return the offsets of a partition in each parcel that the sink has, when all others have been answered."""
    rig = worker.rig
    rig.answer_all(200, "crm")
    rig.checkpoint()
    parcels = [request.token for request in rig.network.waiting]
    positions = [[event_of(token).position for token in each.tokens] for each in parcels if isinstance(each, Parcel)]
    return [[each & OFFSET_MASK for each in some if each >> POSITION_SHIFT == partition] for some in positions]


def go_on(worker: WorkerRig) -> None:
    """Let time pass in which the sink accepts everything."""
    for _ in range(20):
        worker.rig.pass_time(60.0)
        while at_the_sink(worker):
            accept(worker.rig)
        worker.rig.checkpoint()


def refuse(rig: Rig) -> None:
    """Have the write end that has taken longest, as a failure."""
    rig.answer(rig.network.waiting[0], Outcome.TIMED_OUT)
    rig.turn()


def test_a_sink_that_does_not_end_keeps_a_partition_from_nobody(lakes: WorkerRig) -> None:
    """The group gives the partition back to the process whose sink still writes: the other destination goes on."""
    rig, mark = lakes.rig, object()
    lakes.append(0, "m0")
    rig.turn()
    assert at_the_sink(lakes) == [[0]]
    lakes.lose()
    lakes.append(0, "m1")
    with lakes.member() as member:
        member._wanted[0] = mark
        rig.loop.run_until_complete(asyncio.wait_for(member._take(0, mark, 0.0), 10))
    rig.turn()
    assert at_the_sink(lakes) == [[0], [0], [1]]
    assert rig.status_at("m1", "crm") == "delivered"


@pytest.mark.parametrize("end", [accept, refuse])
@pytest.mark.parametrize("is_back", [True, False], ids=["the partition is back", "the partition is away"])
@pytest.mark.parametrize("failed_before", [True, False])
def test_the_late_result_of_a_sink_says_nothing(
    lakes: WorkerRig, end: Callable[[Rig], None], is_back: bool, failed_before: bool
) -> None:
    """The events are their new owner's, who may be the same process: they are written again, and the lane goes on."""
    rig = lakes.rig
    lakes.append(0, "m0")
    rig.turn()
    assert at_the_sink(lakes) == [[0]]
    if failed_before:
        refuse(rig)
        rig.checkpoint()
        rig.pass_time(5.0)
        assert at_the_sink(lakes) == [[0]]
    lakes.lose()
    engine, lane = rig.role.engine, rig.lane("lake")
    assert (lane.in_flight, engine.in_flight, engine.unhealthy) == ({}, 0, 0)
    if not is_back:
        end(rig)
    lakes.take_up()
    rig.pass_time(5.0)
    if is_back:
        assert at_the_sink(lakes) == [[0], [0]]
        end(rig)
    assert at_the_sink(lakes) == [[0]]
    assert rig.status_at("m0", "lake") != "delivered"
    assert len(lane.in_flight) == 1
    accept(rig)
    lakes.append(0, "m1")
    rig.turn()
    assert at_the_sink(lakes) == [[1]]
    accept(rig)
    rig.checkpoint()
    assert {rig.status_at(each, "lake") for each in ("m0", "m1")} == {"delivered"}
    assert lakes.rows(RETRIES) == []
    assert (lane.in_flight, lane.retry_count, engine.unhealthy, engine._with_sinks) == ({}, 0, 0, {})


@pytest.mark.parametrize("end", [accept, refuse])
def test_the_partitions_that_stay_hear_of_a_write_that_has_others_too(
    lakes: WorkerRig, end: Callable[[Rig], None]
) -> None:
    """One write may have events of several partitions."""
    rig = lakes.rig
    lakes.fence.shut()  # so that what is read of both leaves together
    lakes.append(0, "m0")
    lakes.append(1, "m1")
    rig.turn()
    lakes.fence.confirm(now_seconds())
    rig.pass_time(0.5)
    assert at_the_sink(lakes) == [[0]]
    assert at_the_sink(lakes, 1) == [[0]]
    lakes.lose(1)
    end(rig)
    rig.checkpoint()
    assert rig.status_at("m0", "lake") == ("delivered" if end is accept else "retrying")
    lakes.take_up(1)
    lakes.append(1, "m2")
    go_on(lakes)
    assert {rig.status_at(each, "lake") for each in ("m0", "m1", "m2")} == {"delivered"}


def test_what_a_sink_has_is_bounded_however_often_its_partition_passes(
    lakes: WorkerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays in memory until the write ends; then all of it is written."""
    monkeypatch.setattr(mapped, "GATHERED_IN_FLIGHT_MAX", 20)
    rig, ids = lakes.rig, [f"m{number}" for number in range(40)]
    lakes.append(0, *ids)
    rig.turn()
    for _ in range(4):
        held = sum(map(len, at_the_sink(lakes)))
        lakes.lose()
        lakes.take_up()
        rig.pass_time(0.5)
    assert sum(map(len, at_the_sink(lakes))) == held
    lakes.append(0, "later")
    go_on(lakes)
    assert {rig.status_at(each, "lake") for each in (*ids, "later")} == {"delivered"}


def test_what_waits_for_room_at_a_sink_keeps_no_partition(lakes: WorkerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that has begun but not left, for what the sink has is as many bytes as may be."""
    monkeypatch.setattr(sinks, "IN_FLIGHT_BYTES_MAX", 2_000)
    rig = lakes.rig
    with_sinks(rig, 10, bytes=1_024)
    rig.change(msgspec.structs.replace(LAKE, sources=("website",), name="Smaller"))
    rig.follow()
    lake = rig.lane("lake")
    lake.configure(lake.destination, lake.start, *rig.role.lane_set.usable(lake.destination, lake.start))
    lakes.append(0, "m0")
    rig.turn()
    rig.answer_all(200, "crm")
    refuse(rig)
    rig.checkpoint()
    large = b'{"type":"track","event":"Order","properties":{"p":"%b"}}' % (b"x" * 400)
    lakes.append(0, *(f"n{number}" for number in range(20)), body=large)
    rig.turn()
    at_the_sink(lakes)
    rig.pass_time(60.0)
    assert lake in rig.role.engine._gathering
    lakes.lose()
    assert (lake.in_flight, rig.role.engine.unhealthy, rig.role.engine._gathering) == ({}, 0, {})
    lakes.take_up()
    go_on(lakes)
    assert rig.status_at("m0", "lake") == rig.status_at("n19", "lake") == "delivered"


def test_a_partition_that_waits_says_once_for_what(worker: WorkerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks for the reason finds the destination."""
    rig, mark = worker.rig, object()
    monkeypatch.setattr(worker_module, "WAIT_LOGGED_SECONDS", 0)
    monkeypatch.setattr(worker_module, "POLL_SECONDS", 0)
    rig.append("m0")
    rig.turn()
    (request,) = rig.network.waiting
    worker.lose()

    async def passing(member: Worker) -> None:
        member._wanted[0] = mark
        taking = asyncio.create_task(member._take(0, mark, 0.0))
        for _ in range(50):
            await asyncio.sleep(0)
        rig.answer(request, 200)
        await asyncio.wait_for(taking, 10)

    with worker.member() as member, structlog.testing.capture_logs() as lines:
        rig.loop.run_until_complete(passing(member))
    (line,) = [line for line in lines if line["event"] == "partition_not_taken"]
    assert "crm" in line["reason"]
    assert 0 in rig.role.feeder.shared
