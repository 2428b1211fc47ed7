"""How long a turn of the event loop makes requests, and what waits for the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.connections.edits import Delete
from hookline.connections.model import Pause
from hookline.deliver import dispatcher
from hookline.deliver.dispatcher import MAKING_SECONDS_MAX
from hookline.deliver.event import Event
from hookline.deliver.lanes import mapped
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.lanes.sinks import SinkParcel
from hookline.kinds.requests import CompiledRequest
from tests.unit.deliver.rig import Rig, destination, source
from tests.unit.deliver.test_mapped import ONE, api, body_of, start
from tests.unit.deliver.test_sinks import LAKE, accept, with_sinks

BATCH = {"batch": {"size": 1_000, "wait": 1.0}}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A role that is not started."""
    made = Rig(tmp_path)
    yield made
    made.close()


@pytest.fixture
def costs(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Have each request, or item of one, take so many seconds to make."""
    render, item = CompiledRequest.render, CompiledRequest.plain_item

    def cost(seconds: float) -> None:
        def rendered(request: CompiledRequest, *given: Any) -> Any:
            rig.clock.seconds += seconds
            return render(request, *given)

        def as_item(request: CompiledRequest, body: bytes) -> bytes:
            rig.clock.seconds += seconds
            return item(request, body)

        monkeypatch.setattr(CompiledRequest, "render", rendered)
        monkeypatch.setattr(CompiledRequest, "plain_item", as_item)

    return cost


def longest_turn(rig: Rig) -> float:
    """Play all turns; return the seconds that the longest took."""
    longest = 0.0
    while rig._turns:
        began_seconds = rig.clock.seconds
        rig.one_turn()
        longest = max(longest, rig.clock.seconds - began_seconds)
    return longest


@pytest.mark.parametrize("batch", [{}, {"batch": {"size": 20, "wait": 0}}])
@pytest.mark.parametrize("order", ["none", "user"])
def test_requests_that_take_long_to_make_leave_in_several_turns(
    rig: Rig, batch: dict[str, Any], order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Senders choose how long it takes, and all destinations share the event loop."""
    looks = count()
    monkeypatch.setattr(rig.clock, "monotonic", lambda: 1_000.0 + next(looks) * 0.01)
    monkeypatch.setattr(mapped, "LOOKED_EVERY", 1)
    monkeypatch.setattr(dispatcher, "MADE_BYTES_MAX", 1)
    rig.change(source(), api({**ONE, **batch}, delivery={"order": order}), destination("crm"))
    rig.start()
    rig.append(*(rig.record(f"m{number}", user_key=f"u{number}") for number in range(20)))
    made = [0]
    while rig._turns:
        rig.one_turn()
        made.append(sum(len(body_of(each)) if batch and each.destination == "api" else 1 for each in rig.network.sent))
    assert max(after - before for before, after in pairwise(made)) < 10
    assert made[-1] >= 16
    rig.answer_all()
    rig.checkpoint()
    assert {rig.status_at(f"m{number}", name) for number in range(20) for name in ("api", "crm")} == {"delivered"}


def test_a_lane_whose_requests_take_long_to_make_lets_the_others_go_first(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its receiver is quick and it always has more to send."""
    looks = count()
    monkeypatch.setattr(rig.clock, "monotonic", lambda: 1_000.0 + next(looks) * 0.03)
    monkeypatch.setattr(dispatcher, "MADE_BYTES_MAX", 1)
    rig.change(source(), destination("crm"), destination("other"))
    rig.start()
    rig.append(*(f"m{number}" for number in range(30)))
    while rig._turns and (sent := Counter(each.destination for each in rig.network.sent))["crm"] < 20:
        rig.one_turn()
        for request in list(rig.network.waiting):
            rig.answer(request)
    assert abs(sent["crm"] - sent["other"]) < 5


def fail_all(rig: Rig) -> None:
    """Have every request fail, which nobody takes for an outage."""
    while rig.network.waiting:
        for request in list(rig.network.waiting):
            request.target.lane.breaker.failures = 0
            rig.answer(request, 500)
            request.target.lane.breaker.allowance = 64
        rig.turn()
    rig.checkpoint()


@pytest.mark.parametrize("request_of", [{**ONE, **BATCH}, BATCH], ids=["mapped", "as webhooks get them"])
def test_a_large_batch_leaves_in_several_turns(
    rig: Rig, costs: Callable[[float], None], request_of: dict[str, Any]
) -> None:
    """However short each step is: what was made of it before counts."""
    start(rig, request_of)
    rig.append(*(f"m{number}" for number in range(400)))
    rig.turn()
    costs(0.0015)
    rig.clock.seconds += 1.0
    rig.role.beat()
    assert longest_turn(rig) < 2 * MAKING_SECONDS_MAX
    assert sum(len(body_of(each)) for each in rig.network.sent) == 400


def test_short_steps_count_where_a_turn_has_been_long(rig: Rig, costs: Callable[[float], None]) -> None:
    """Two destinations share a turn, and the first takes nearly all of it."""
    first = api(ONE, delivery={"maxConcurrency": 31})
    rig.change(source(), first, msgspec.structs.replace(api({**ONE, **BATCH}), id="batched", name="Batched"))
    rig.start()
    rig.turn()
    rig.lane("api").breaker.allowance = 31
    costs(0.0015)
    rig.append(*(f"m{number}" for number in range(400)))
    longest_turn(rig)
    rig.clock.seconds += 1.0
    rig.role.engine.succeeded([([each.token], each.target, 200, 1) for each in rig.network.waiting])
    rig.network.waiting.clear()
    rig.role.engine.wake_paced()
    assert longest_turn(rig) < 2 * MAKING_SECONDS_MAX


def test_events_for_a_sink_leave_in_several_turns(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of thousands is brought together in the event loop, where each event may take long."""
    looks = count()
    rig.change(source())
    rig.start()
    with_sinks(rig, 1_000)
    rig.change(msgspec.structs.replace(LAKE, sources=("website",)))
    rig.follow()
    monkeypatch.setattr(rig.clock, "monotonic", lambda: 1_000.0 + next(looks) * 0.01)
    rig.append(*(f"m{number}" for number in range(100)))
    left = [0]
    while rig._turns:
        rig.one_turn()
        left.append(sum(len(each.token.tokens) for each in rig.network.sent if isinstance(each.token, SinkParcel)))
    assert max(after - before for before, after in pairwise(left)) < 30
    while rig.network.waiting:
        accept(rig)
    rig.checkpoint()
    assert {rig.status_at(f"m{number}", "lake") for number in range(100)} == {"delivered"}


def test_a_lane_that_cannot_go_on_holds_up_no_other(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the reason: lanes that were to go on in the same turn do so in the next."""
    rig.change(source(), destination("broken"), destination("crm"))
    rig.start()
    rig.turn()
    engine, dispatch = rig.role.engine, rig.role.engine.dispatch

    def broken(lane: Lane) -> None:
        if lane.destination.id == "broken":
            raise ValueError("broken")
        dispatch(lane)

    monkeypatch.setattr(engine, "dispatch", broken)
    rig.lane("crm").queue.append(Event(0, rig.record("m0")))
    for name in ("broken", "crm"):
        engine.go_on_with(rig.lane(name))
    with pytest.raises(ValueError, match="broken"):
        rig.one_turn()
    rig.turn()
    assert [each.destination for each in rig.network.sent] == ["crm"]


def test_a_batch_that_has_waited_leaves_although_another_took_the_time(
    rig: Rig, costs: Callable[[float], None]
) -> None:
    """Two destinations whose waits end together: what there was no time for does not wait for others anew."""
    batched = api({**ONE, **BATCH})
    rig.change(source(), batched, msgspec.structs.replace(batched, id="second", name="Second"))
    rig.start()
    rig.turn()
    costs(0.002)
    for number in range(60):
        rig.clock.seconds += 0.1
        rig.append(*(f"m{number}-{each}" for each in range(3)))
        rig.role.beat()
        rig.turn()
        rig.answer_all()
    sent = Counter(each.destination for each in rig.network.sent for _ in body_of(each))
    assert min(sent["api"], sent["second"]) > 120


def test_rows_that_are_due_together_leave_in_several_turns(rig: Rig, costs: Callable[[float], None]) -> None:
    """Those of several destinations come with one beat, and each may take long to make."""
    several = [msgspec.structs.replace(api(ONE), id=f"api{each}", name=f"API {each}") for each in range(4)]
    rig.change(source(), *several)
    rig.start()
    lanes = [rig.lane(each.id) for each in several]
    ids = [f"m{number}" for number in range(40)]
    rig.append(*ids)
    rig.turn()
    for lane in lanes:
        lane.breaker.allowance = 64
    fail_all(rig)
    assert [lane.retry_count for lane in lanes] == [40] * 4
    costs(0.005)
    rig.clock.seconds += 60
    began_seconds = rig.clock.seconds
    rig.role.beat()
    assert rig.clock.seconds == began_seconds
    assert longest_turn(rig) < 2 * MAKING_SECONDS_MAX
    assert sum(len(lane.in_flight) for lane in lanes) == 160


def iteration(rig: Rig) -> None:
    """Play one iteration of an event loop; what it sent is answered in the next."""
    for _ in range(len(rig._turns)):
        rig.one_turn()
    answered = [([each.token], each.target, 200, 1) for each in rig.network.waiting]
    rig.network.waiting.clear()

    def answer() -> None:
        rig.role.engine.succeeded(answered)
        rig.role.engine.go_on()

    rig._turns.append(answer)


def test_a_row_leaves_beside_destinations_that_always_have_more(rig: Rig, costs: Callable[[float], None]) -> None:
    """Whoever has costly requests takes all the time of each turn, but not of all of them."""
    busy = [msgspec.structs.replace(api(ONE), id=f"busy{each}", name=f"Busy {each}") for each in range(2)]
    quiet = msgspec.structs.replace(api(ONE), id="quiet", name="Quiet", sources=("other",))
    rig.change(source(), source("other"), *busy, quiet)
    rig.start()
    rig.append(rig.record("m", "other"))
    rig.turn()
    fail_all(rig)
    costs(0.005)
    rig.append(*(f"m{number}" for number in range(2_000)))
    for each in busy:
        rig.lane(each.id).breaker.allowance = 64
    rig.clock.seconds += 60
    rig.role.beat()
    sent = len(rig.network.sent)
    for _ in range(10):
        iteration(rig)
    assert "quiet" in [each.destination for each in rig.network.sent[sent:]]
    assert rig.lane("busy1").queue


def test_fresh_events_leave_beside_rows_that_are_due(rig: Rig, costs: Callable[[float], None]) -> None:
    """One destination's rows, of which requests cost much, hold up nobody else's events until the last of them."""
    rig.change(source(), source("other"), api(ONE), destination("crm", sources=("other",)))
    rig.start()
    rig.append(*(f"m{number}" for number in range(400)))
    rig.turn()
    rig.lane("api").breaker.allowance = 64
    fail_all(rig)
    costs(0.005)
    rig.clock.seconds += 60
    rig.role.beat()
    rig.append(rig.record("fresh", "other"))
    for _ in range(5):
        iteration(rig)
    assert "crm" in [each.destination for each in rig.network.sent]
    assert rig.lane("api").retry_count > 300


def test_others_get_there_beside_a_replay_of_a_busy_destination(rig: Rig, costs: Callable[[float], None]) -> None:
    """Its stream goes before it, in the replay's place too: that is no reason to have the first place again."""
    rig.change(source(), source("other"), api(ONE), destination("crm", sources=("other",)))
    rig.start()
    rig.append(*(f"m{number}" for number in range(100)))
    rig.turn()
    while rig.network.waiting:
        rig.answer_all()
    rig.checkpoint()
    rig.replay("api")
    rig.append(*(f"n{number}" for number in range(2_000)))
    costs(0.01)
    rig.role.follow_connections()
    for number in range(40):
        if number == 20:
            rig.append(rig.record("fresh", "other"))
        iteration(rig)
        rig.role.beat()
    assert "crm" in [each.destination for each in rig.network.sent]


def test_lanes_that_wait_for_time_are_looked_at_once_a_turn(rig: Rig, costs: Callable[[float], None]) -> None:
    """However many answers come meanwhile, and however long it goes on."""
    batch = {"batch": {"size": 2, "wait": 0}}
    busy = [msgspec.structs.replace(api({**ONE, **batch}), id=f"busy{each}", name=f"{each}") for each in range(20)]
    rig.change(source(), *busy)
    rig.start()
    costs(0.005)
    rig.append(*(f"m{number}" for number in range(500)))
    for _ in range(60):
        iteration(rig)
        assert len(rig._turns) < 10


PROPERTIES = {"k" * 2_500: {f"{number:x}": 1 for number in range(200)}}


@pytest.fixture
def waiting(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Events of which much is made, most of whose attempts have begun and wait until others are answered."""
    monkeypatch.setattr(mapped, "HEAVY_BYTES_IN_FLIGHT_MAX", 1_000_000)
    flat = {"@flatten": {"value": {"@path": "$.properties"}, "separator": "."}}
    start(rig, {"body": flat, "batch": {"size": 50, "wait": 0.5, "bytes": 8_000_000}}, delivery={"order": "user"})
    rig.lane("api").breaker.allowance = 64
    ids = [f"m{number}" for number in range(40)]
    for id in ids:
        body = msgspec.json.encode({"type": "track", "event": "Order", "userId": id, "properties": PROPERTIES})
        rig.append(rig.record(id, body=body, user_key=id))
    rig.turn()
    rig.pass_time(0.6)
    return ids


def assert_nothing_leaves(rig: Rig) -> None:
    """Answer what was sent; nothing follows it."""
    sent = len(rig.network.sent)
    rig.answer_all()
    rig.turn()
    rig.checkpoint()
    assert len(rig.network.sent) == sent


@pytest.mark.parametrize("fail_first", [False, True])
def test_attempts_that_wait_are_not_sent_while_their_destination_is_paused(
    rig: Rig, waiting: list[str], fail_first: bool
) -> None:
    """They wait as if they had not begun, and go when it is resumed."""
    if fail_first:
        fail_all(rig)
        rig.clock.seconds += 60
        rig.role.beat()
        rig.turn()
    assert len(rig.lane("api").in_flight) > sum(len(body_of(each)) for each in rig.network.waiting) > 0
    rig.store.pause("api", Pause(since=rig.clock.now_ms()), "test", rig.appender.ends)
    rig.follow()
    assert_nothing_leaves(rig)
    assert not rig.lane("api").in_flight
    rig.store.resume("api", None, "test", rig.appender.ends)
    rig.follow()
    rig.come_to_rest()
    assert {rig.status_at(id, "api") for id in waiting} == {"delivered"}


def test_attempts_that_wait_are_not_sent_once_their_destination_is_deleted(rig: Rig, waiting: list[str]) -> None:
    """Nothing goes to a receiver that was taken away."""
    rig.change(Delete("destination", "api"))
    rig.follow()
    assert_nothing_leaves(rig)
    assert {rig.status_at(id, "api") for id in waiting} == {"delivered", "discarded"}


def test_attempts_that_wait_outlast_settings_that_cannot_be_used(rig: Rig, waiting: list[str]) -> None:
    """A secret that is missing is nothing against the events; nor is another kind."""
    unusable = {"headers": {"A": {"@path": "$.settings.secrets.key"}}, **ONE}
    rig.change(api(unusable, settings={"secrets": {"key": "env:HOOKLINE_SECRET_NOT_THERE"}}))
    rig.follow()
    assert_nothing_leaves(rig)
    assert {rig.status_at(id, "api") for id in waiting} == {"delivered", "queued"}
    rig.change(destination("api"))
    rig.follow()
    rig.come_to_rest()
    assert {rig.status_at(id, "api") for id in waiting} == {"delivered"}
