"""Reading events: the list with its filters and pages, and one event by its message id."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from hookline.api.problem import Problem
from hookline.cli.admin_api import AdminApi, CommandFailed
from hookline.features.events.cli.tail import find
from hookline.features.events.log import parse_cursor, title_in
from hookline.journal.record import Rejection
from hookline.web.lists import event_href
from tests.unit.control.running import TOKEN, Running, destination, record, source
from tests.unit.features.accounts.test_sign_in import cookie_of, login


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
    page = control.api("GET", "/events?limit=2").json
    shown = [each["messageId"] for each in page["items"]]
    control.append(record("new"))
    shown += ids(control, f"?limit=2&after={page['after']}")
    assert shown == ["m3", "m2", "m1", "m0"][: len(shown)]  # a page is shorter where the machine has no time for it
    assert len(shown) > 1


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("?source=app", ["other-source"]),
        ("?type=page", ["page"]),
        ("?event=Signed%20Up", ["named"]),
        ("?event=Home", ["page"]),
        ("?event=Paid", ["beyond"]),
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
        replace(record("beyond"), body=b'{"event": "Paid", "properties": {"total": 1e400}}'),
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


@pytest.mark.parametrize("message_id", ["export", "stream"])
def test_why_finds_an_event_called_as_an_address_of_the_api(control: Running, message_id: str) -> None:
    """In the list, where there is none as for any other id."""
    admin = AdminApi(f"http://127.0.0.1:{control.port}", TOKEN)
    with pytest.raises(CommandFailed, match=f"no event '{message_id}' is kept here"):
        find(admin, message_id, None)
    control.api("POST", "/sources", source())
    control.append(record(message_id), record("newer"))
    assert [find(admin, message_id, each)["messageId"] for each in (None, "site")] == [message_id] * 2


@pytest.mark.parametrize("message_id", [".", "..", "m1"])
def test_every_event_has_a_page(control: Running, message_id: str) -> None:
    """Browsers take dots for steps in an address, so these stand behind it."""
    control.api("POST", "/sources", source())
    control.append(record(message_id, "Signed Up"))
    href = event_href(message_id, "site")
    assert not href.startswith("/events/.")
    page = control.call("GET", href, headers={"Cookie": cookie_of(login(control, TOKEN))}, token=False)
    assert f'<code id="message-id">{message_id}</code>' in page.text


def test_a_rejected_item_says_why(control: Running) -> None:
    """What was refused at the edge is listed with the reason it was given."""
    control.append(record("bad", rejected="event: give the name of the event"))
    (item,) = control.api("GET", "/events?status=rejected").json["items"]
    assert (item["status"], item["rejection"]["message"]) == ("rejected", "event: give the name of the event")


def test_of_an_erased_item_nothing_is_shown_but_that_it_was_erased(control: Running) -> None:
    """A refused one too: its reason was overwritten, and it has no page to lead to."""
    control.api("PUT", "/sources/site", source("site"))
    zeros = Rejection("\0" * 13, "\0" * 20)
    control.append(*(replace(record("\0\0"), erased=True, rejection=each) for each in (None, zeros)))
    shown = control.api("GET", "/events").json["items"]
    assert [(each["messageId"], each["status"], each["rejection"]) for each in shown] == [("", "erased", None)] * 2
    assert control.api("GET", "/events?status=rejected").json["items"] == []
    assert len(ids(control, "?status=erased")) == 2
    signed_in = {"Cookie": cookie_of(login(control, TOKEN))}
    paths = ("/", "/sources/site/rejected")
    answers = [control.call("GET", path, headers=signed_in, token=False) for path in paths]
    assert [answer.status for answer in answers] == [200, 200]
    assert "content erased" in answers[0].text
    pages = [answer.text for answer in answers]
    assert not [page for page in pages if "\0" in page or 'href="/events/?' in page or "No destination is" in page]


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


@pytest.mark.parametrize("text", ["Özil", "özil", "ИВАН", "straße", "A/b?c&d"])
def test_text_beyond_ascii_is_found_too(control: Running, text: str) -> None:
    """Capital or small, as writers of JSON leave or escape it."""
    properties = {"name": "Özil Иван", "street": "STRASSE", "at": "a/b?c&d"}
    plain, escaped = record("plain", properties=properties), record("escaped", properties=properties)
    plain.body = json.dumps(json.loads(plain.body), ensure_ascii=False).encode()
    escaped.body = json.dumps(json.loads(escaped.body)).replace("/", "\\/").replace("&", "\\u0026").encode()
    control.append(record("other"), plain, escaped)
    assert ids(control, f"?text={quote(text)}") == ["escaped", "plain"]


def test_within_a_time(control: Running) -> None:
    """From a time on, before one, or both; the halving finds the place also where many share a millisecond."""
    began = 1_700_000_000_000
    for number in range(50):
        control.append(replace(record(f"m{number}"), received_at=began + number // 3 * 1000))
    first, last = "2023-11-14T22:13:25Z", "2023-11-14T22:13:27Z"  # 5 s and 7 s after
    assert ids(control, f"?from={first}&to={last}&limit=200") == [f"m{number}" for number in range(20, 14, -1)]
    assert ids(control, f"?to={first}&limit=200") == [f"m{number}" for number in range(14, -1, -1)]
    page = control.api("GET", f"/events?to={last}&limit=4").json
    assert [each["messageId"] for each in page["items"]] == ["m20", "m19", "m18", "m17"]
    assert ids(control, f"?to={last}&limit=1&after={page['after']}") == ["m16"]
    assert ids(control, "?from=2030-01-01T00:00:00Z") == ids(control, "?to=2020-01-01T00:00:00Z") == []
    assert control.api("GET", "/events?from=yesterday").status == 400


def test_damage_hides_no_others_from_a_search_before_a_time(control: Running) -> None:
    """What cannot be read says nothing about when the events around it were accepted."""
    began = 1_700_000_000_000
    for number in range(9):
        control.append(replace(record(f"m{number}"), received_at=began + number * 1000))
    (segment,) = (control.data_path / "journal" / "0").glob("*.seg")
    data = segment.read_bytes()
    segment.write_bytes(data.replace(b'"m4"', b'"mX"').replace(b'"m5"', b'"mX"'))
    assert ids(control, "?to=2023-11-14T22:13:28Z") == ["m7", "m6", "m3", "m2", "m1", "m0"]


def test_at_one_destination(control: Running) -> None:
    """Only what it gets, and the status is the one there."""
    control.api("PUT", "/sources/site", source())
    control.api("PUT", "/sources/app", source("app", writeKeys=["wk_app"]))
    control.api("PUT", "/destinations/crm", destination("crm"))
    control.api("PUT", "/destinations/erp", destination("erp", sources=["app"]))
    control.append(record("m1"), record("other", source="app"))
    assert (ids(control, "?destination=crm"), ids(control, "?destination=erp")) == (["m1"], ["other"])
    assert ids(control, "?destination=crm&status=queued") == ["m1"]
    assert ids(control, "?destination=crm&status=delivered") == ids(control, "?destination=none") == []
    assert ids(control, "?destination=erp&status=not_routed") == ["m1"]


def test_as_a_file(control: Running) -> None:
    """What the list shows: whose traits an identify call sets, and the status at each destination."""
    control.api("PUT", "/sources/site", source())
    control.api("PUT", "/destinations/crm", destination("crm"))
    control.append(record("m1", "=1+1"), record("m2", type="identify", traits={"email": "a@b.c", "n": 1}))
    lines = control.api("GET", "/events/export").body.decode().splitlines()
    assert lines[0] == "receivedAt,source,type,event,messageId,userId,status,destinations"
    assert lines[1].endswith(',site,identify,"email: a@b.c, n: 1",m2,u1,queued,crm: queued')
    assert ",track,'=1+1,m1," in lines[2]
    assert [each["messageId"] for each in control.api("GET", "/events/export?format=json&type=track").json] == ["m1"]


@pytest.mark.parametrize(
    ("type", "body", "title"),
    [
        ("track", b'{"event": "Signed Up"}', "Signed Up"),
        ("page", b'{"name": "Home", "properties": {"path": "/"}}', "Home"),
        ("page", b'{"properties": {"path": "/plans", "url": "https://a.example/plans"}}', "/plans"),
        (
            "page",
            b'{"name": "", "properties": {"path": 1, "url": "https://a.example/", "title": "A"}}',
            "https://a.example/",
        ),
        ("page", b'{"properties": {"title": "Plans"}}', "Plans"),
        ("page", b'{"properties": ["path"]}', ""),
        ("screen", b'{"properties": {"path": "/plans"}}', ""),
        ("identify", b'{"traits": {"a": 1, "b": "x", "c": [1], "d": 2}}', "a: 1, b: x, c: [1] …"),
        ("group", b'{"traits": {"name": "' + b"x" * 50 + b'"}}', f"name: {'x' * 40}…"),
        ("alias", b'{"previousId": "old", "userId": "new"}', "old → new"),
        ("identify", b'{"traits": "none"}', ""),
        ("track", b"not JSON", ""),
        ("track", b'{"event": {"a": 1}}', ""),
        ("track", b'{"event": "Signed Up", "properties": {"n": 1e400}}', "Signed Up"),
        ("identify", b'{"traits": {"n": 1e400}}', ""),
        ("identify", b"{}", ""),
    ],
)
def test_what_a_list_shows_of_an_event(type: str, body: bytes, title: str) -> None:
    """Names, places, traits, ids; nothing of what is none of these."""
    assert title_in(type, body) == title
