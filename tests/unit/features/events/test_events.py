"""Reading events: the list with its filters and pages, and one event by its message id."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from hookline.api.problem import Problem
from hookline.features.events.log import parse_cursor
from tests.unit.control.running import Running, destination, record, source


def ids(control: Running, query: str = "") -> list[str]:
    """The message ids of one page."""
    return [each["messageId"] for each in control.api("GET", f"/events{query}").json["items"]]


def test_an_empty_journal_is_an_empty_list(control: Running) -> None:
    """Before collect has stored anything the list is empty, not an error."""
    assert control.api("GET", "/events").json == {"items": [], "after": None}


def test_newest_first_in_pages(control: Running) -> None:
    """Following `after` visits every event once, newest first."""
    control.append(*(record(f"m{number}") for number in range(7)))
    seen: list[str] = []
    query = "?limit=3"
    while query:
        page = control.api("GET", f"/events{query}").json
        seen += [each["messageId"] for each in page["items"]]
        query = f"?limit=3&after={page['after']}" if page["after"] else ""
    assert seen == [f"m{number}" for number in range(6, -1, -1)]


def test_events_that_arrive_do_not_move_the_pages(control: Running) -> None:
    """A cursor names a place in the journal: new events do not make the next page repeat anything."""
    control.append(*(record(f"m{number}") for number in range(4)))
    after = control.api("GET", "/events?limit=2").json["after"]
    control.append(record("new"))
    assert ids(control, f"?limit=2&after={after}") == ["m1", "m0"]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("?source=app", ["other-source"]),
        ("?type=page", ["page"]),
        ("?event=Signed%20Up", ["named"]),
        ("?event=Home", ["page"]),
        ("?userId=u9", ["user"]),
        ("?messageId=named", ["named"]),
        ("?status=rejected", ["bad"]),
        ("?status=delivered", []),
        ("?source=app&type=page", []),
    ],
)
def test_filters(control: Running, query: str, wanted: list[str]) -> None:
    """Each filter alone, and two together, find exactly what matches."""
    control.append(
        record("plain"),
        record("other-source", source="app"),
        record("page", type="page", name="Home"),
        record("named", "Signed Up"),
        record("user", userId="u9"),
        record("bad", rejected="event: give the name of the event"),
    )
    assert ids(control, query) == wanted


def test_one_event_by_its_id(control: Running) -> None:
    """The status of a message is found by id, also with the source, and not under another source."""
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination())
    control.append(record("m1", "Signed Up"))
    status = control.api("GET", "/events/m1").json
    assert (status["messageId"], status["source"], status["userId"]) == ("m1", "site", "u1")
    assert [(each["id"], each["status"]) for each in status["destinations"]] == [("crm", "queued")]
    assert control.api("GET", "/events/m1?source=site").status == 200
    assert control.api("GET", "/events/m1?source=app").status == 404


@pytest.mark.parametrize("message_id", ["a/b", "/lead", "trail/", "a//b", "100%", "ü ñ", "a?b#c", "stream2", "a%2Fb"])
def test_any_id_can_be_asked_for(control: Running, message_id: str) -> None:
    """Slashes, percent signs and the like in a message id, encoded once, lead to that very message."""
    control.api("POST", "/sources", source())
    control.append(record(message_id))
    answer = control.api("GET", f"/events/{quote(message_id, safe='')}")
    assert (answer.status, answer.json.get("messageId")) == (200, message_id)


def test_a_rejected_item_says_why(control: Running) -> None:
    """What was refused at the edge is listed with the reason it was given."""
    control.append(record("bad", rejected="event: give the name of the event"))
    (item,) = control.api("GET", "/events?status=rejected").json["items"]
    assert (item["status"], item["rejection"]["message"]) == ("rejected", "event: give the name of the event")


@pytest.mark.parametrize("cursor", ["x", "0", "0:", ":1", "0:-1", "0:1,", "1:1;2:2", "0:" + "9" * 30, "²:1"])
def test_a_made_up_cursor_is_refused(cursor: str) -> None:
    """Only what an answer gave may be sent back as `after`."""
    with pytest.raises(Problem, match="exactly as the last answer"):
        parse_cursor(cursor)


@pytest.mark.parametrize("text", ['Say "Hi"', "KÄSE", "käse", "in-the-id", "U-77", "nested value"])
def test_text_is_found_wherever_it_stands(control: Running, text: str) -> None:
    """In names, values, keys and ids, capital or small, however its writer escaped it; elsewhere not."""
    control.append(
        record("other"),
        record("m1", 'say "hi"', deep={"Käse": ["Nested Value"]}, userId="u-77"),
        record("in-the-ID", properties={"käse": 'SAY "HI"'}, userId="U-77", note="nested value"),
    )
    assert ids(control, f"?text={quote(text)}")[-1] in ("m1", "in-the-ID")
    assert "other" not in ids(control, f"?text={quote(text)}")
