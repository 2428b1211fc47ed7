"""Filters in the real role: what is sent and what is not, what ``why`` says, and that every read decides alike."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from hookline.connections.model import Filter
from hookline.journal.record import Record
from hookline.outcomes.delivery import TAKEN_OUT
from tests.unit.deliver.rig import Rig, destination, source
from tests.unit.deliver.test_signing import OLD, WHSEC_OLD, hex_by, parts, standard, standard_by

HEARTBEATS = Filter(condition='event = "Heartbeat"', do="drop")
NO_CARD = Filter(condition="true", do="dropProperties", properties=("properties.card",))


def event(rig: Rig, message_id: str, name: str = "Order", **given: Any) -> Record:
    """A track call of this name, with properties."""
    body = {"type": "track", "event": name, "userId": "u1", "properties": given.pop("properties", {})}
    return rig.record(message_id, body=json.dumps(body).encode(), **given)


def begin(rig: Rig, *filters: Filter, **given: object) -> None:
    """Start with one filtered destination."""
    rig.change(source(), destination("crm", filters=filters, **given))
    rig.start()


def sent(rig: Rig) -> list[str]:
    """The messageIds sent to the filtered destination so far."""
    return [each.delivery.event.record.message_id for each in rig.network.sent if each.destination == "crm"]


def bodies(rig: Rig) -> list[Any]:
    """The bodies sent so far."""
    return [json.loads(request.data.partition(b"\r\n\r\n")[2]) for request in rig.network.sent]


def test_what_a_filter_drops_is_not_sent_and_why_names_it(rig: Rig) -> None:
    """The status is filtered, with the filter's number, what it does and the version; others are delivered."""
    begin(rig, HEARTBEATS)
    rig.append(event(rig, "beat", "Heartbeat"), event(rig, "order"))
    rig.turn()
    rig.come_to_rest()
    assert sent(rig) == ["order"]
    (status,) = rig.event("beat").destinations
    assert (status.status, status.reason, status.attempts) == ("filtered", None, ())
    assert status.rule == 'Filter 1 drops events where event = "Heartbeat" (version 1 of the connections)'
    assert [each.rule for each in rig.event("order").destinations] == [None]
    assert rig.lane("crm").filtered == 1


def test_a_filter_waits_its_turn(rig: Rig) -> None:
    """Before the lane came to it an event waits, whatever filters there are."""
    rig.change(source(), destination("crm", filters=(HEARTBEATS,)))
    rig.append(event(rig, "beat", "Heartbeat"))
    assert rig.status_at("beat", "crm") == "queued"
    rig.start()
    rig.turn()
    rig.come_to_rest()
    assert rig.status_at("beat", "crm") == "filtered"


def test_an_unfiltered_neighbour_gets_everything(rig: Rig) -> None:
    """A destination's filters are its own."""
    begin(rig, HEARTBEATS)
    rig.change(destination("mail"))
    rig.follow()
    rig.append(event(rig, "beat", "Heartbeat"))
    rig.turn()
    rig.come_to_rest()
    assert {each.id: each.status for each in rig.event("beat").destinations} == {"crm": "filtered", "mail": "delivered"}


def test_the_first_filter_that_stops_an_event_is_named(rig: Rig) -> None:
    """Filters run in the order written, and each sees what the ones before it left."""
    begin(
        rig,
        NO_CARD,
        Filter(condition="properties.card != null", do="drop"),
        Filter(condition="properties.total > 5", do="drop"),
        Filter(condition="true", do="drop"),
    )
    rig.append(event(rig, "m", properties={"card": "4242", "total": 9}))
    rig.turn()
    rig.come_to_rest()
    rule = rig.event("m").destinations[0].rule
    assert rule is not None
    assert rule.startswith("Filter 3 drops events where properties.total > 5")


@pytest.mark.parametrize("secret", [None, "s3cret"])
def test_what_is_taken_out_is_not_sent(rig: Rig, secret: str | None) -> None:
    """Signed and unsigned bodies alike; the neighbour gets all of it, and why says what happened."""
    begin(rig, NO_CARD, secret=secret)
    rig.change(destination("mail"))
    rig.follow()
    rig.append(event(rig, "m", properties={"card": "4242", "total": 9.50}))
    rig.turn()
    by_destination = {
        request.destination: json.loads(request.data.partition(b"\r\n\r\n")[2]) for request in rig.network.sent
    }
    assert by_destination["crm"]["properties"] == {"total": 9.5}
    assert by_destination["mail"]["properties"] == {"card": "4242", "total": 9.5}
    rig.come_to_rest()
    statuses = {each.id: each for each in rig.event("m").destinations}
    assert (statuses["crm"].status, statuses["crm"].reason) == ("delivered", TAKEN_OUT)
    assert statuses["crm"].rule == "Filter 1 removes properties.card from all events (version 1 of the connections)"
    assert (statuses["mail"].reason, statuses["mail"].rule) == (None, None)


@pytest.mark.parametrize("shared", [None, OLD])
def test_what_is_signed_is_what_is_left(rig: Rig, shared: str | None) -> None:
    """With Standard Webhooks too nothing taken out is sent, and the signatures are over the bytes that are."""
    rig.change(source(), replace(standard(shared=shared), filters=(NO_CARD,)))
    rig.start()
    rig.append(event(rig, "m", properties={"card": "4242", "total": 1}))
    rig.turn()
    headers, body = parts(rig.network.sent[0])
    assert json.loads(body)["properties"] == {"total": 1}
    assert headers["webhook-signature"] == standard_by(WHSEC_OLD, headers, body)
    assert headers.get("x-signature") == (None if shared is None else hex_by(shared, body))


def test_a_retry_sends_the_same(rig: Rig) -> None:
    """What is taken out is taken out of every attempt, also after a restart."""
    begin(rig, NO_CARD)
    rig.append(event(rig, "m", properties={"card": "4242"}))
    rig.turn()
    rig.answer_all(500)
    rig.checkpoint()
    retrying = rig.event("m").destinations[0]
    rig.restart()
    rig.pass_time(2.0)
    rig.come_to_rest()
    assert [body["properties"] for body in bodies(rig)] == [{}, {}]
    assert (retrying.status, retrying.rule) == ("retrying", rig.event("m").destinations[0].rule)


def sampled(percent: float) -> Filter:
    """A filter that sends so many percent."""
    return Filter(condition="true", do="sample", percent=percent)


def test_a_sample_is_the_same_whenever_it_is_read(rig: Rig, small_queues: tuple[int, int]) -> None:
    """The shared reader, catching up after a detach, and a restart that reads again all choose the same events."""
    begin(rig, sampled(50))
    rig.change(destination("mail"))
    rig.follow()
    for n in range(64):
        rig.append(event(rig, f"m{n}"))
        rig.turn()
        rig.answer_all(200, "mail")
    assert not rig.lane("crm").cursors[0].attached  # the neighbour went on
    rig.restart()
    rig.turn()
    rig.come_to_rest()
    chosen = set(sent(rig))
    assert 16 < len(chosen) < 48
    statuses = {f"m{n}": rig.status_at(f"m{n}", "crm") for n in range(64)}
    assert {id for id, status in statuses.items() if status == "delivered"} == chosen
    assert {status for id, status in statuses.items() if id not in chosen} == {"filtered"}


@pytest.mark.parametrize(("percent", "count"), [(0, 0), (100, 20)])
def test_the_ends_of_a_sample(rig: Rig, percent: float, count: int) -> None:
    """None is none and all is all."""
    begin(rig, sampled(percent))
    rig.append(*(event(rig, f"m{n}") for n in range(20)))
    rig.turn()
    rig.come_to_rest()
    assert len(sent(rig)) == count


def test_a_repeat_is_a_duplicate_not_filtered(rig: Rig) -> None:
    """An event that came twice is told so, although a filter would have stopped it too."""
    begin(rig, HEARTBEATS)
    rig.append(event(rig, "beat", "Heartbeat"), event(rig, "beat", "Heartbeat"))
    rig.turn()
    rig.come_to_rest()
    assert (rig.event("beat").duplicates, rig.status_at("beat", "crm")) == (1, "filtered")
    assert rig.lane("crm").filtered == 1


def test_aimed_events_are_filtered_and_deletions_are_not(rig: Rig) -> None:
    """An audience's identify meets the filters as any event does; a delete message always arrives."""
    begin(rig, Filter(condition="true", do="drop"))
    member = b'{"type":"identify","userId":"u1","traits":{"vip":true}}'
    rig.append(
        rig.record("member", type="identify", origin="audience", to=("crm",), body=member),
        rig.record("gone", type="delete", origin="deletion", to=("crm",), body=b'{"type":"delete","userId":"u1"}'),
    )
    rig.turn()
    rig.come_to_rest()
    assert [rig.status_at(id, "crm") for id in ("member", "gone")] == ["filtered", "delivered"]


def test_looking_for_a_probe_does_not_hold_up_the_others(rig: Rig) -> None:
    """Behind an open breaker and a filter that stops nearly everything, each beat looks at a bounded part."""
    rig.limit(probe_records_max=10)
    begin(rig, HEARTBEATS)
    lane = rig.lane("crm")
    rig.role.feeder.detach(lane)
    lane.breaker.open("test")
    rig.role.engine.probing.add(lane)
    for n in range(20):
        rig.append(*(event(rig, f"beat{n}-{m}", "Heartbeat") for m in range(5)))
        rig.turn()  # one group each
    rig.append(event(rig, "order"))
    rig.turn()
    positions = [lane.cursors[0].next_offset]
    for _ in range(12):
        rig.pass_time(0.05)
        positions.append(lane.cursors[0].next_offset)
    assert max(after - before for before, after in pairwise(positions)) <= 15
    assert (sent(rig), lane.probes) == (["order"], 1)
    rig.come_to_rest()
    assert rig.status_at("beat0-0", "crm") == "filtered"
