"""Which events ``hookline tail`` shows, and how."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from hookline.features.events.cli.tail import StreamMessage, TailFilter, clock, columns, left_out, shower


def event(**fields: Any) -> dict[str, Any]:
    """An event as the API tells it: delivered to one destination, retried at another, not meant for a third."""
    destinations = [("crm", "delivered"), ("erp", "retrying"), ("far", "not_routed")]
    return {
        "messageId": "m1",
        "source": "site",
        "type": "track",
        "userId": "u1",
        "receivedAt": "2026-01-05T09:30:00.123Z",
        "status": None,
        "rejection": None,
        "event": {"event": "Signed Up", "anonymousId": "a1"},
        "destinations": [{"id": id, "status": status} for id, status in destinations],
        **fields,
    }


@pytest.mark.parametrize(
    ("wanted", "takes"),
    [
        ({}, True),
        ({"source": "site", "type": "track", "event": "Signed Up", "user": "u1"}, True),
        ({"source": "app"}, False),
        ({"type": "page"}, False),
        ({"event": "Signed"}, False),
        ({"user": "a1"}, False),
        ({"destination": "crm"}, True),
        ({"destination": "far"}, False),
        ({"status": "retrying"}, True),
        ({"status": "not_routed"}, False),
        ({"status": "retrying", "destination": "crm"}, False),
        ({"status": "delivered", "destination": "crm"}, True),
    ],
)
def test_filters(wanted: dict[str, str], takes: bool) -> None:
    """Each must hold; a status is that at the destination when one is named."""
    assert TailFilter(**wanted).takes(event()) is takes


def test_the_server_leaves_out_what_is_not_wanted() -> None:
    """Of a destination that gets few events the last ones are far apart."""
    wanted = TailFilter(source="site", destination="crm", status="failed").query()
    assert {name for name, value in wanted.items() if value} == {"source", "destination", "status"}


def test_a_user_without_an_id_has_the_anonymous_one() -> None:
    """As the events list of the API takes it."""
    assert TailFilter(user="a1").takes(event(userId=None))


def test_the_most_urgent_status_stands_for_all() -> None:
    """Unless a destination is asked for; an event of no destination has its own."""
    assert TailFilter().status_of(event()) == "retrying"
    assert TailFilter(destination="crm").status_of(event()) == "delivered"
    assert TailFilter().status_of(event(destinations=[], status="rejected")) == "rejected"
    assert TailFilter().status_of(event(destinations=[])) == "not_routed"


def test_a_line_says_what_who_and_where_from() -> None:
    """A shape beside the word; what came from outside cannot steer the terminal; a rejection has its reason."""
    hostile = event(userId="\x1b[31mred", status="rejected", rejection={"message": "A track call needs event."})
    at, shape, status, kind, rest = columns(TailFilter(), StreamMessage("event", hostile))
    assert (at, shape, status, kind) == ("2026-01-05T09:30:00.123Z", "■", "rejected", "track")
    assert rest == "Signed Up  \\u001b[31mred  site  A track call needs event."


def test_a_terminal_shows_the_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local, or in UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        at = datetime(2026, 1, 5, 9, 30, 0, 123_000, UTC)
        assert [clock(at, utc) for utc in (False, True)] == ["18:30:00.123", "09:30:00.123"]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_without_a_name_the_id_is_shown() -> None:
    """What is not JSON, or an identify call, has none."""
    assert columns(TailFilter(), StreamMessage("event", event(event="not JSON", type="page")))[4].startswith("m1 ")


def test_what_is_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """In both forms, with the number."""
    message = StreamMessage("skipped", {"count": 80})
    shower(TailFilter(), as_json=False, utc=False)(message)
    shower(TailFilter(), as_json=True, utc=False)(message)
    assert capsys.readouterr().out == left_out(message) + '\n{"kind": "skipped", "data": {"count": 80}}\n'
    assert "1 event not" in left_out(StreamMessage("skipped", {"count": 1}))
