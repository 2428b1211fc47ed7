"""What sinks say of themselves and of events, on its way from their thread to the next checkpoint."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.connections.model import DeliveryOptions, Destination
from hookline.database.sqlite import DatabaseAway
from hookline.deliver.event import Event
from hookline.deliver.lanes import sinks as module
from hookline.deliver.lanes.lane import Target
from hookline.deliver.lanes.sinks import (
    NEWS_MAX,
    NOT_WRITTEN,
    REMARK_CHARACTERS_MAX,
    SinkParcel,
    SinkRequests,
    SinkRoute,
    Sinks,
    SinkTemplate,
)
from hookline.deliver.send.port import Answer, Failure
from hookline.deliver.store.batch import RemarkRow
from hookline.kinds.model import KindSettings, SinkBatch
from hookline.kinds.requests import event_fields
from hookline.kinds.sink import SinkAway, SinkContext, SinkEvent, SinkFailed, Verdict
from hookline.outcomes.outcome import Outcome, to_number
from hookline.outcomes.progress import POSITION_SHIFT
from hookline.route.filters import Filters
from hookline.settings import Settings
from tests.unit.deliver.rig import FakeRoute, Rig, destination, source

Notice = Callable[[str, str], None]


class Talking:
    """A sink that says something at each write, and may fail then."""

    def __init__(self, notice: Notice, sentences: Sequence[str], error: BaseException | None = None) -> None:
        self._notice = notice
        self._sentences = sentences
        self._error = error

    def write(self, events: Sequence[SinkEvent]) -> Sequence[Verdict]:
        for sentence in self._sentences:
            self._notice("columns_added", sentence)
        if self._error is not None:
            raise self._error
        return [Verdict(True)] * len(events)

    def close(self) -> None:
        return


class Opened(Talking):
    """A sink that accepts everything."""

    def __init__(self) -> None:
        super().__init__(lambda name, sentence: None, ())

    def open_sink(self, context: SinkContext, settings: KindSettings) -> Opened:
        return self


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A role with one lane."""
    made = Rig(tmp_path)
    made.change(source(), destination())
    made.start()
    yield made
    made.close()


def news(rig: Rig, *writes: Sequence[str], error: BaseException | None = None) -> list[str]:
    """Write so often, with a sink that says these sentences; return what the next checkpoint would save."""
    engine = rig.role.engine
    engine.batch.news.clear()
    left = list(writes)

    async def write() -> None:
        route = SinkRoute(LAKE, lambda notice: Talking(notice, left.pop(0), error), engine)
        target = Target(SinkTemplate(LAKE), 0, 1, route)
        target.lane = rig.lane("crm")
        route.ask(target, [(EMPTY, b"")] * len(writes), 0)
        route.close()
        await asyncio.to_thread(route.join, 10)
        await asyncio.sleep(0)  # the results of its thread came before this

    asyncio.run(write())
    return [each.sentence for each in engine.batch.news]


def read(event: Event, body: bytes) -> SinkEvent:
    """Make something of an event."""
    return SinkEvent(0, 0, 0, {}, body)


EMPTY = SinkParcel([], [], read)
LAKE = Destination(id="lake", name="Lake", kind="files", settings=KindSettings({"where": "folder"}))


def with_sinks(rig: Rig, size: int, bytes: int = 8_000_000) -> None:
    """Have parcels of so many events for sinks wait as requests do."""

    def requests_of(
        resolved: Destination, lane_number: int, filters: Filters | None, *, is_replay: bool = False
    ) -> SinkRequests:
        batch = SinkBatch(size=size, bytes=bytes, wait=0)
        return SinkRequests(resolved, batch, FakeRoute(rig.network), lane_number, filters)

    rig.role.lane_set.sinks.requests_of = requests_of  # type: ignore[method-assign]


def accept(rig: Rig) -> None:
    """Have the sink that has waited longest accept its parcel."""
    request = rig.network.waiting.pop(0)
    assert isinstance(request.token, SinkParcel)
    request.token.verdicts = [Verdict(True)] * len(request.token.tokens)
    rig.role.engine.answered_whole(request.token, request.target, Answer(200, "", b""), 1)
    rig.turn()


@pytest.mark.parametrize("begins_as", ["sink", "webhook"])
def test_what_is_in_flight_is_counted_as_it_is_now(rig: Rig, begins_as: str) -> None:
    """A destination may become a sink, or no sink, while events are on their way: the count is right afterwards."""
    with_sinks(rig, 10)
    lake = msgspec.structs.replace(LAKE, sources=("website",))
    webhook = destination("lake")
    rig.change(lake if begins_as == "sink" else webhook)
    rig.follow()
    rig.append(*(f"m{number}" for number in range(10)))
    rig.turn()
    rig.answer_all(200, "crm")
    assert rig.network.waiting
    rig.change(webhook if begins_as == "sink" else lake)
    rig.follow()
    while rig.network.waiting:
        if isinstance(rig.network.waiting[0].token, SinkParcel):
            accept(rig)
        else:
            rig.answer(rig.network.waiting[0], 200)
    rig.checkpoint()
    assert rig.role.engine.in_flight == 0


def test_what_is_in_flight_to_a_sink_is_bounded_by_bytes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few large events wait for a slow sink in memory; each result makes room for the next, and all get there."""
    monkeypatch.setattr(module, "IN_FLIGHT_BYTES_MAX", 2_000)
    with_sinks(rig, 10, bytes=1_024)
    rig.change(msgspec.structs.replace(LAKE, sources=("website",)))
    rig.follow()
    ids = [f"m{number}" for number in range(40)]
    large = b'{"type":"track","event":"Order","properties":{"p":"%b"}}' % (b"x" * 400)
    rig.append(*(rig.record(id, body=large) for id in ids))
    rig.turn()
    rig.answer_all(200, "crm")
    while rig.network.waiting:
        waiting = [request.token for request in rig.network.waiting]
        held = sum(parcel.size_bytes for parcel in waiting if isinstance(parcel, SinkParcel))
        assert held < 2_048 + len(large) + 200
        accept(rig)
        rig.answer_all(200, "crm")
        rig.pass_time(0.5)
    rig.checkpoint()
    assert {rig.status_at(id, "lake") for id in ids} == {"delivered"}


def test_results_wait_for_room_in_the_ring(rig: Rig) -> None:
    """While checkpoints wait for the disk four sinks accept more than it holds: nothing is written over."""
    with_sinks(rig, 10_000)
    lakes = [msgspec.structs.replace(LAKE, id=f"lake{number}", sources=("website",)) for number in range(4)]
    rig.change(*lakes)
    rig.follow()
    for step in range(50):
        rig.append(*(f"m{step}-{number}" for number in range(500)))
        rig.turn()
        rig.answer_all(200, "crm")
    rig.checkpoint()
    while rig.network.waiting:
        if rig.network.waiting[0].destination == "crm":
            rig.answer(rig.network.waiting[0], 200)
        else:
            accept(rig)
        assert rig.role.engine.ring.uncheckpointed <= rig.limits.ring_entries
    for _ in range(10):
        rig.checkpoint()
        while rig.network.waiting:
            accept(rig)
    assert {rig.status_at("m0-0", lake.id) for lake in lakes} == {"delivered"}
    assert {rig.status_at("m49-499", lake.id) for lake in lakes} == {"delivered"}


def test_what_is_said_is_in_the_next_checkpoint(rig: Rig) -> None:
    """Also of a write that fails: the tables are there nevertheless. Long sentences are cut, and many are too many."""
    assert news(rig, ["one", "two"]) == ["one", "two"]
    assert news(rig, ["one"], error=SinkFailed("not now")) == ["one"]
    assert news(rig, ["x" * 900]) == ["x" * REMARK_CHARACTERS_MAX]
    assert len(news(rig, [f"column {number}" for number in range(500)])) == NEWS_MAX


def test_what_is_said_again_after_an_outage_is_told_once(rig: Rig) -> None:
    """The sink was opened anew and has forgotten that it said so."""
    assert news(rig, ["full", "one"], ["full", "two"], error=SinkFailed("not now")) == ["full", "one", "two"]


def test_what_panics_in_a_library_is_a_failure_of_its_write(rig: Rig) -> None:
    """What a library in Rust raises then is no Exception; the next write is made all the same."""
    assert news(rig, ["one"], ["two"], error=BaseException("panicked")) == ["one", "two"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no number: 'person-4711'"), "the kind failed (ValueError: no number: …)"),
        (SinkFailed("the folder '/data/7' is full"), "the folder '/data/7' is full"),
    ],
    ids=["code that failed", "a sentence of the kind"],
)
def test_what_code_says_that_failed_is_kept_without_what_may_name_a_person(
    rig: Rig, error: Exception, said: str
) -> None:
    """It is said of each event of a write, and stays with the others when one goes with its person."""
    engine = rig.role.engine
    rig.append("m0", "m1")
    failures: list[Failure] = []
    tokens = [Event(number, rig.record(f"m{number}")) for number in range(2)]

    async def write() -> None:
        route = SinkRoute(LAKE, lambda notice: Talking(notice, (), error), engine)
        target = Target(SinkTemplate(LAKE), 0, 1, route)
        target.lane = rig.lane("crm")
        route.ask(target, [(SinkParcel(tokens, [b"", b""], read), b"")], 0)
        route.close()
        await asyncio.to_thread(route.join, 10)
        await asyncio.sleep(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_answered_alone", lambda *given, counts: failures.append(given[3]))
        asyncio.run(write())
    for each in failures:
        each.hide(lambda text: text)
    assert [each.error for each in failures] == [said] * 2


class Held(Talking):
    """A sink whose write takes as long as the test says."""

    def __init__(self, notice: Notice) -> None:
        super().__init__(notice, ["written"])
        self.begun, self.may_end = threading.Event(), threading.Event()

    def open_sink(self, context: SinkContext, settings: KindSettings) -> Held:
        self._notice = context.notice
        return self

    def write(self, events: Sequence[SinkEvent]) -> Sequence[Verdict]:
        self.begun.set()
        assert self.may_end.wait(10)
        return super().write(events)


@pytest.mark.parametrize("is_changed", [False, True], ids=["its lane is there", "its settings were just changed"])
def test_the_end_of_the_role_waits_for_what_is_being_written(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, is_changed: bool
) -> None:
    """Its result is heard, so that the last checkpoint has it, and nothing is heard after the files are closed."""
    held = Held(lambda name, sentence: None)
    monkeypatch.setattr(module, "sink_module", lambda name: held)
    engine = rig.role.engine
    sinks = Sinks(engine, Settings())

    def lake(folder: str) -> Destination:
        return Destination(id="lake", name="Lake", kind="files", settings=KindSettings({"where": folder}))

    async def run(seconds: float) -> list[str]:
        engine.batch.news.clear()
        monkeypatch.setattr(module, "FINISH_SECONDS_MAX", seconds)
        held.begun.clear()
        held.may_end.clear()
        (target,) = sinks.requests_of(lake("one"), 1, None).targets
        target.lane = rig.lane("crm")
        target.route.ask(target, [(EMPTY, b"")], 0)
        assert await asyncio.to_thread(held.begun.wait, 10)
        if is_changed:
            sinks.requests_of(lake("two"), 1, None)
        finishing = asyncio.create_task(sinks.finish())
        await asyncio.sleep(0.05)
        if seconds < 1:
            await finishing
            sinks.close()
        assert not engine.batch.news
        held.may_end.set()
        await finishing
        await asyncio.to_thread(target.route.join, 10)
        await asyncio.sleep(0)
        return [each.sentence for each in engine.batch.news]

    assert asyncio.run(run(10.0)) == ["written"]
    assert asyncio.run(run(0.01)) == []


class Noting(Held):
    """A sink that takes its time, and keeps what it was given."""

    def __init__(self) -> None:
        super().__init__(lambda name, sentence: None)
        self.written: list[list[bytes]] = []

    def write(self, events: Sequence[SinkEvent]) -> Sequence[Verdict]:
        self.written.append([each.body for each in events])
        return super().write(events)


def test_what_others_own_by_the_time_is_not_written(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its partition was left while the sink was busy with something else; the rest is written, and its verdicts are
    those of the events that they are about."""
    sink = Noting()
    parcels = [
        SinkParcel(
            [Event(partition << POSITION_SHIFT, rig.record("m")) for partition in partitions],
            [b"of %d" % partition for partition in partitions],
            lambda event, body: SinkEvent(0, 0, 0, {}, body),
        )
        for partitions in ((0,), (1, 0), (1,))
    ]
    done: list[object] = []
    monkeypatch.setattr(rig.role.engine, "answered_whole", lambda *result: done.append(result[0]))

    async def write() -> None:
        route = SinkRoute(LAKE, lambda notice: sink, rig.role.engine)
        target = Target(SinkTemplate(LAKE), 0, 1, route)
        target.lane = rig.lane("crm")
        route.ask(target, [(parcel, b"") for parcel in parcels], 0)
        assert await asyncio.to_thread(sink.begun.wait, 10)
        for parcel in parcels:
            parcel.forget(1)
        sink.may_end.set()
        route.close()
        await asyncio.to_thread(route.join, 10)
        await asyncio.sleep(0)

    asyncio.run(write())
    assert sink.written == [[b"of 0"], [b"of 0"]]
    assert done == parcels
    assert parcels[1].verdicts == [NOT_WRITTEN, Verdict(True)]


def test_a_sink_without_a_thread_for_now_writes_once_one_can_be_had(lake: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was given meanwhile is tried again, and was not the events' fault."""

    start = threading.Thread.start

    def cannot_start(thread: threading.Thread) -> None:
        if thread.name.startswith("sink-"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", cannot_start)
        lake.append("m1")
        let_write(lake)
        assert lake.status_at("m1", "lake") == "retrying"
        assert lake.lane("lake").unreached
    let_write(lake, 60)
    assert lake.status_at("m1", "lake") == "delivered"


@pytest.fixture
def lake(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """The rig with a destination whose sink accepts everything, and whose secret reads ``old``."""
    monkeypatch.setattr(module, "sink_module", lambda name: Opened())
    monkeypatch.setenv("HOOKLINE_SECRET_LAKE", "old")
    rig.change(lake_in("one"))
    rig.follow()
    return rig


def lake_in(bucket: str) -> Destination:
    """The destination in a bucket."""
    usual = {"where": "s3", "bucket": bucket, "secretKey": "env:HOOKLINE_SECRET_LAKE", "batchSeconds": 0}
    return msgspec.structs.replace(LAKE, sources=("website",), settings=KindSettings(usual))


def let_write(rig: Rig, seconds: float = 0.0) -> None:
    """Let the role follow what changed, and do what is due by then, until its sinks have written what they were
    given."""

    async def write() -> None:
        rig.follow()
        rig.pass_time(seconds)
        for _ in range(500):
            await asyncio.sleep(0.01)
            if not any(lane.is_apart and lane.in_flight for lane in rig.role.engine.lanes.values()):
                return
        raise AssertionError("what the sink was given has no result")

    asyncio.run(write())
    rig.checkpoint()


def test_a_replay_takes_nothing_from_the_stream(lake: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """They share a sink, also where a secret reads otherwise than when the stream began."""

    def written(id: str) -> str:
        lake.append(id)
        let_write(lake)
        return lake.status_at(id, "lake")

    assert written("m1") == "delivered"
    monkeypatch.setenv("HOOKLINE_SECRET_LAKE", "new")
    replay = lake.replay("lake")
    assert written("m2") == "delivered"
    let_write(lake, 1)
    assert lake.replay_row(replay) == ("done", 1, 0)
    assert written("m3") == "delivered"


def test_a_replay_goes_on_where_the_stream_does(lake: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while it does not know yet that the stream has another sink, for the database is away just then."""

    def away() -> None:
        raise DatabaseAway

    lake.append(*(f"m{number}" for number in range(6)))
    let_write(lake)
    replay = lake.replay("lake", rate=1)
    let_write(lake)
    lake.change(lake_in("other"))
    with monkeypatch.context() as patch:
        patch.setattr(lake.role.replay_feed, "poll", away)
        for _ in range(2):
            let_write(lake, 1)
    for _ in range(4):
        let_write(lake, 1)
    assert lake.replay_row(replay) == ("done", 6, 0)


def test_what_could_not_be_replaced_goes_on(lake: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the change that could not be made is taken back."""

    def cannot_be_loaded(name: str) -> Opened:
        raise ValueError(name)

    lake.append("m1")
    let_write(lake)
    with monkeypatch.context() as patch:
        patch.setattr(module, "sink_module", cannot_be_loaded)
        lake.change(lake_in("other"))
        lake.append("m2")
        let_write(lake)
    lake.change(lake_in("one"))
    let_write(lake)
    assert lake.status_at("m2", "lake") == "delivered"


def test_events_are_decoded_in_the_thread_of_their_sink(lake: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has megabytes of JSON: on the event loop everybody else would wait for it."""
    threads: list[threading.Thread] = []

    def fields(*given: Any) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return event_fields(*given)

    monkeypatch.setattr(module, "event_fields", fields)
    lake.append("m1", "m2")
    let_write(lake)
    assert lake.status_at("m2", "lake") == "delivered"
    assert len(threads) == 2
    assert threading.main_thread() not in threads


def test_what_is_no_verdict_is_a_failure_of_its_write(lake: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of somebody else answers with something of its own: the events are tried again, not stuck for good."""
    with monkeypatch.context() as patch:
        patch.setattr(Opened, "write", lambda self, events: [True] * len(events))
        lake.append("m1")
        let_write(lake)
        assert lake.status_at("m1", "lake") == "retrying"
    let_write(lake, 60)
    assert lake.status_at("m1", "lake") == "delivered"


@pytest.mark.parametrize(
    ("method", "error", "is_away"),
    [
        ("open_sink", SinkFailed("no bucket"), True),
        ("write", SinkAway("no server"), True),
        ("write", SinkFailed("one deletion cannot be carried out"), False),
        ("write", ValueError("one event cannot be written"), False),
    ],
)
def test_a_store_that_is_away_has_nothing_against_events(
    lake: Rig, monkeypatch: pytest.MonkeyPatch, method: str, error: Exception, is_away: bool
) -> None:
    """As with a receiver that is not reached, no event's window begins for a probe; other failures may be one's."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Opened, method, fail)
    lake.append("m1")
    let_write(lake)
    assert lake.lane("lake").unreached is is_away


def test_remarks_are_kept_of_what_was_accepted(rig: Rig) -> None:
    """By lane and place; events without a word have no row."""
    events = [Event((2 << POSITION_SHIFT) + offset, rig.record("m1")) for offset in range(3)]
    parcel = SinkParcel(events, [b""] * 3, read)
    parcel.verdicts = [Verdict(True), Verdict(True, remark="r" * 900), Verdict(False, remark="no")]
    assert parcel.remarks(7) == [RemarkRow(7, 2, 1, "r" * REMARK_CHARACTERS_MAX)]


def test_a_sink_that_becomes_a_webhook_sends_to_all_its_urls(rig: Rig) -> None:
    """What failed at the sink has been accepted by none of them."""
    with_sinks(rig, 10)
    rig.change(msgspec.structs.replace(LAKE, sources=("website",)))
    rig.follow()
    rig.append("m0")
    rig.turn()
    rig.answer_all(200, "crm")
    (request,) = [each for each in rig.network.waiting if each.destination == "lake"]
    rig.network.waiting.remove(request)
    failure = Failure(Outcome.CONNECTION_FAILED, None, "no")
    rig.role.engine.answered(request.token, request.target, to_number(failure.outcome, None), 1, failure)
    rig.turn()
    rig.checkpoint()
    rig.network.sent.clear()
    rig.change(destination("lake", urls=2, delivery=DeliveryOptions(fan_out="all")))
    rig.follow()
    rig.come_to_rest()
    sent = [each.target.url for each in rig.network.sent if each.destination == "lake"]
    assert sorted(url[-2:] for url in sent) == ["/0", "/1"]
