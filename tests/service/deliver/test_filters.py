"""Filters end to end: what a receiver gets, what why and usage say, after restarts too, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.service.harness import Hookline, Receiver, wait_until, webhook

DROP = {"if": 'type = "track" and event = "Heartbeat"', "do": "drop"}
NO_CARD = {"if": "true", "do": "dropProperties", "properties": ["properties.card", "context.ip"]}
HALF = {"if": 'event = "Tick"', "do": "sample", "percent": 50}


def usage(hookline: Hookline) -> dict[str, Any]:
    """The usage of all sources since the month began; yesterday's too, should midnight pass meanwhile."""
    answer = hookline.api("GET", f"usage?from={datetime.now(UTC).year - 1}-01-01")
    assert answer.status == 200, answer
    return {key: answer.json[key] for key in ("events", "filtered", "counted")}


def test_a_filtered_destination_and_its_neighbour(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """One gets less and signed, the other everything; why names the filter; the change of a filter holds at once."""
    with (
        Receiver() as everything,
        new_hookline(
            webhook("crm", receiver.url(), secret="s3cret", filters=[DROP, NO_CARD]), webhook("all", everything.url())
        ) as hookline,
    ):
        beat = hookline.track("Heartbeat")
        order = hookline.track("Order", properties={"card": "4242", "total": 5}, context={"ip": "10.0.0.1"})
        part = hookline.wait_status(beat, "crm", "filtered")
        assert part["rule"] == f"Filter 1 drops events where {DROP['if']} (version 1 of the connections)"
        (seen,) = receiver.wait_for(order)
        assert (seen.json["properties"], seen.json["context"]) == ({"total": 5}, {})
        assert everything.wait_for(beat)
        assert everything.wait_for(order)[0].json["properties"] == {"card": "4242", "total": 5}
        sent = hookline.wait_status(order, "crm", "delivered")
        assert sent["rule"].startswith("Filter 2 removes properties.card, context.ip from all events")
        assert receiver.of(beat) == []
        assert hookline.api("PATCH", "destinations/crm", {"filters": []}).status == 200
        beats: list[str] = []

        def one_more_arrived() -> bool:
            beats.append(hookline.track("Heartbeat"))
            return any(receiver.of(each) for each in beats)

        wait_until(one_more_arrived, what="heartbeats at the receiver")
        assert hookline.status_at(beat, "crm")["status"] == "filtered"


def test_a_sample_survives_kills(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """Every event is sent or filtered, and after kill -9 and a backlog the very same ones are."""
    hookline = new_hookline(webhook("crm", receiver.url(), filters=[HALF]), settings={"deliver.retry_max": "1s"})
    hookline.start()
    receiver.reply_with(503)
    ids = [hookline.track("Tick") for _ in range(40)]
    hookline.kill9()
    receiver.reply_with(200)
    hookline.start()
    last = hookline.track("Last")
    receiver.wait_for(last)
    wait_until(lambda: all(hookline.status_at(id, "crm").get("status") in ("delivered", "filtered") for id in ids), 60)
    statuses = {id: hookline.status_at(id, "crm")["status"] for id in ids}
    assert {id for id in ids if receiver.of(id)} == {id for id, status in statuses.items() if status == "delivered"}
    assert 5 < list(statuses.values()).count("filtered") < 35
    hookline.stop()


def test_usage_on_a_grandfathered_plan(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """Filtered events of a server count there, and do not otherwise; the counts survive a restart."""
    with new_hookline(webhook("crm", receiver.url(), filters=[DROP])) as hookline:
        receiver.wait_for(hookline.track("Order"))  # deliver has the filter
        for name in ("Heartbeat", "Heartbeat", "Order"):
            last = hookline.track(name)
        receiver.wait_for(last)
        wait_until(lambda: usage(hookline) == {"events": 4, "filtered": 2, "counted": 2})
        wait_until(lambda: hookline.metric("hookline_usage_filtered_total") == 2)
        wait_until(lambda: hookline.metric("hookline_deliver_filtered_total") == 2)
        hookline.settings["plan.grandfathered"] = True
        hookline.restart()
        assert usage(hookline) == {"events": 4, "filtered": 2, "counted": 4}


def test_below_the_plan_level_the_file_is_refused(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """The service does not start with filters it may not use, and says what to do."""
    hookline = new_hookline(webhook("crm", receiver.url(), filters=[DROP]), settings={"plan.level": "team"})
    process = hookline.launch()
    assert process.wait(60) == 2
    assert "set plan.level to business" in hookline.log
