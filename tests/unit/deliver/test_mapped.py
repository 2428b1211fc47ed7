"""Destinations with a mapping: what an event becomes, batches, and what answers to them mean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.connections.model import Destination, Pause
from hookline.deliver import dispatcher
from hookline.deliver.cluster.fence import Fence
from hookline.deliver.lanes import mapped
from hookline.deliver.lanes.mapped import ANSWER_BYTES_MAX, ANSWER_BYTES_PER_EVENT, ECHOED
from hookline.kinds.answers import PARTS_MAX
from hookline.outcomes.cause import cause_of
from hookline.outcomes.outcome import Outcome
from tests.unit.deliver.rig import Request, Rig, destination, source


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A role that is not started."""
    made = Rig(tmp_path)
    yield made
    made.close()


def api(*requests: dict[str, Any], **given: Any) -> Destination:
    """A destination of kind http with these requests."""
    made = [{"name": f"r{index}", "url": "https://api.example.com/in", **each} for index, each in enumerate(requests)]
    fields = {"id": "api", "name": "API", "kind": "http", "sources": ["website"], "settings": {}, **given}
    return msgspec.convert({**fields, "mapping": made}, Destination)


def start(rig: Rig, *requests: dict[str, Any], **given: Any) -> None:
    rig.change(source(), api(*requests, **given))
    rig.start()
    rig.turn()


def body_of(request: Request) -> Any:
    return msgspec.json.decode(request.data.partition(b"\r\n\r\n")[2])


def track(rig: Rig, id: str, **fields: Any) -> None:
    """Store a track call with these fields."""
    body = msgspec.json.encode({"type": "track", "event": "Order", "userId": "u1", **fields})
    rig.append(rig.record(id, body=body, user_key=fields.get("userId", "u1")))
    rig.turn()


ONE = {"body": {"id": {"@path": "$.messageId"}}}
BATCHED = {**ONE, "batch": {"size": 10, "wait": 1.0}}


def test_an_event_becomes_the_request_that_is_written(rig: Rig) -> None:
    """Method, path with encoded values, query, headers and body come from the event; the token from the settings."""
    request = {
        "method": "PUT",
        "url": {"@template": "https://api.example.com/u/{{userId}}"},
        "query": {"e": {"@path": "$.event"}},
        "headers": {"X-Source": {"@path": "$.source"}},
        "body": {"total": {"@path": "$.properties.total"}},
    }
    auth = {"auth": {"type": "basic", "username": "me", "password": "{{settings.secrets.key}}"}}
    start(rig, request, settings={"secrets": {"key": "pass-word"}, **auth})
    track(rig, "m1", userId="a/b?c", properties={"total": 7.5})
    (sent,) = rig.network.waiting
    head = sent.data.partition(b"\r\n\r\n")[0].decode()
    assert head.startswith("PUT /u/a%2Fb%3Fc?e=Order HTTP/1.1\r\nHost: api.example.com\r\n")
    assert "\r\nX-Source: website\r\n" in head
    assert "\r\nAuthorization: Basic bWU6cGFzcy13b3Jk\r\n" in head
    assert body_of(sent) == {"total": 7.5}
    rig.come_to_rest()
    (found,) = rig.event("m1").destinations
    assert (found.status, found.attempts[0].url) == ("delivered", "https://api.example.com/u/{userId}")


def test_what_no_request_takes_is_filtered(rig: Rig) -> None:
    """Its status names the mapping, and nothing is sent."""
    start(rig, {**ONE, "if": 'event = "Other"'})
    track(rig, "m1")
    rig.come_to_rest()
    (found,) = rig.event("m1").destinations
    assert (found.status, found.rule) == (
        "filtered",
        "No request of the mapping matches this event (version 1 of the connections)",
    )
    assert rig.network.sent == []


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("length(settings.secrets.key) > 0 and length(settings.secrets.other) > 0", "filtered"),
        ("length(settings.secrets.key) > 0", "delivered"),
        ('match(settings.secrets.key, "p*")', "filtered"),
        ('settings.secrets.key < "q" and settings.secrets.key > "p"', "filtered"),
        ('match(settings.variables.region, "e*")', "delivered"),
    ],
)
def test_a_condition_sees_of_a_secret_that_there_is_one(rig: Rig, condition: str, status: str) -> None:
    """Whoever may write conditions does not find out by what becomes of events what a secret is."""
    settings = {"secrets": {"key": "pass-word"}, "variables": {"region": "eu"}}
    body = {"body": {"key": {"@path": "$.settings.secrets.key"}}}
    start(rig, {**body, "if": condition}, settings=settings)
    track(rig, "m1")
    assert [body_of(each) for each in rig.network.waiting] == ([{"key": "pass-word"}] if status == "delivered" else [])
    rig.come_to_rest()
    assert rig.status_at("m1", "api") == status


@pytest.mark.parametrize("url", ["in/{{settings.secrets.key}}", "in?key={{settings.secrets.key}}"])
def test_a_secret_in_a_url_is_masked_in_every_form_that_it_is_sent_in(rig: Rig, url: str) -> None:
    """Base64 has characters that are encoded in one place of a URL and not in another; a receiver may repeat them."""
    url = f"https://api.example.com/{url}"
    start(rig, {**ONE, "url": url, "success": {"if": "status = 200"}}, settings={"secrets": {"key": "q7/Zk2+Xw9=="}})
    track(rig, "m1")
    (sent,) = rig.network.waiting
    target = sent.data.split(b" ")[1].decode()
    rig.answer(sent, 400, text=f"no such path: {target}")
    rig.checkpoint()
    (attempt,) = rig.event("m1").destinations[0].attempts
    assert attempt.url == "https://api.example.com/…"
    assert target[-12:] not in str(attempt.error)
    assert "no such path" in str(attempt.error)


def test_what_a_breaker_calls_back_is_not_sent_again_where_it_was_accepted(rig: Rig) -> None:
    """A request that begins to be refused burns nothing, and what the other one is for comes there once."""
    start(rig, {**ONE, "url": "https://a.example.com/"}, {**ONE, "url": "https://b.example.com/"})
    for number in range(60):
        track(rig, f"m{number}")
    for status in [503] * 20 + [401] * 40:
        for request in list(rig.network.waiting):
            rig.answer(request, status if request.target.index else 200)
            rig.turn()
        rig.checkpoint()
        rig.pass_time(1.0)
    assert rig.role.engine.counters.breaker_opened > 0
    rig.come_to_rest()
    taken = [request.offset for request in rig.network.sent if request.target.index == 0]
    assert sorted(taken) == list(range(60))
    assert {rig.status_at(f"m{number}", "api") for number in range(60)} == {"delivered"}


def test_all_requests_of_an_event_must_succeed_and_only_the_failed_one_is_repeated(rig: Rig) -> None:
    """One delivery, one status: while one of two requests fails the event is retrying, and that one alone comes."""
    start(rig, {**ONE, "url": "https://a.example.com/"}, {**ONE, "url": "https://b.example.com/"})
    track(rig, "m1")
    first, second = rig.network.waiting
    rig.answer(first, 200)
    rig.answer(second, 503)
    rig.checkpoint()
    assert rig.status_at("m1", "api") == "retrying"
    rig.pass_time(30)
    (again,) = rig.network.waiting
    assert again.target.url == "https://b.example.com/"
    rig.come_to_rest()
    assert rig.status_at("m1", "api") == "delivered"
    assert len(rig.network.sent) == 3


A, B, C = ({**ONE, "name": name, "url": f"https://{name}.example.com/"} for name in "abc")
OTHERS = {**C, "if": 'event = "Other"'}


@pytest.mark.parametrize("is_under_way", [False, True])
@pytest.mark.parametrize(
    ("before", "now", "asked"),
    [
        ((A, B), (B, A), "b"),
        ((A, B), (B,), "b"),
        ((A, B), (A,), ""),
        ((A, B), (C, A, B), "bc"),
        ((OTHERS, A, B), ({**OTHERS, "if": 'event = "Order"'}, A, B), "abc"),
    ],
    ids=["others come first", "the accepted one goes", "the failed one goes", "one is new", "conditions changed"],
)
def test_what_is_left_of_an_event_follows_a_mapping_that_changes(
    rig: Rig, before: tuple[Any, ...], now: tuple[Any, ...], asked: str, is_under_way: bool
) -> None:
    """A request that failed is repeated wherever it stands, and so are all where it is not sure which one it was."""
    start(rig, *before)
    track(rig, "m1")
    to_a, to_b = rig.network.waiting
    rig.answer(to_a, 200)
    if not is_under_way:
        rig.answer(to_b, 503)
        rig.checkpoint()
    rig.change(api(*now))
    rig.follow()
    if is_under_way:
        rig.answer(to_b, 503)
    rig.checkpoint()
    rig.pass_time(30)
    assert sorted(each.target.url for each in rig.network.waiting) == [f"https://{name}.example.com/" for name in asked]
    rig.come_to_rest()
    assert rig.status_at("m1", "api") == "delivered"


def test_what_comes_back_from_an_outage_asks_only_the_requests_that_failed(rig: Rig) -> None:
    """One of two had succeeded; the other's receiver is down, and then refuses whatever probes it."""
    start(rig, A, B)
    rig.append(*(f"m{number}" for number in range(30)))
    rig.turn()
    for second in range(240):
        while rig.network.waiting:
            request = rig.network.waiting[0]
            status = 503 if second < 60 else 401
            rig.answer(request, 200 if request.target.url == "https://a.example.com/" else status)
            rig.turn()
        rig.checkpoint()
        rig.pass_time(1)
    assert rig.lane("api").breaker.state == "open"
    assert rig.dead_letters() == []
    rig.come_to_rest()
    asked = [each.offset for each in rig.network.sent if each.target.url == "https://a.example.com/"]
    assert sorted(asked) == list(range(30))
    assert {rig.status_at(f"m{number}", "api") for number in range(30)} == {"delivered"}


def test_a_secret_goes_missing_while_only_one_request_has_succeeded(rig: Rig) -> None:
    """The event still needs the other one, and gets it when the secret is there again."""
    start(rig, A, B)
    track(rig, "m1")
    to_a, to_b = rig.network.waiting
    rig.change(api(A, B, settings={"secrets": {"key": "env:HOOKLINE_SECRET_NOT_THERE"}}))
    rig.follow()
    rig.answer(to_a, 200)
    rig.answer(to_b, 503)
    rig.checkpoint()
    rig.change(api(A, B))
    rig.follow()
    rig.pass_time(30)
    assert [each.target.url for each in rig.network.waiting] == ["https://b.example.com/"]


def test_an_event_that_becomes_no_request_is_a_dead_letter(rig: Rig) -> None:
    """The sentence says where in the mapping it failed; the receiver is not blamed, and others go on."""
    start(rig, {**ONE, "url": {"@template": "https://api.example.com/u/{{properties.id}}"}})
    track(rig, "m1")
    track(rig, "m2", properties={"id": 5})
    rig.come_to_rest()
    assert (rig.status_at("m1", "api"), rig.status_at("m2", "api")) == ("failed", "delivered")
    assert rig.lane("api").breaker.state == "closed"
    assert len(rig.network.sent) == 1


def test_a_batch_waits_for_others_but_not_for_long(rig: Rig) -> None:
    """Ten go at once, three after the wait; until then they are queued."""
    start(rig, BATCHED)
    rig.append(*[f"m{number}" for number in range(13)])
    rig.turn()
    (full,) = rig.network.waiting
    assert len(body_of(full)) == 10
    rig.answer(full, 200)
    rig.pass_time(0.5)
    assert rig.network.waiting == []
    rig.pass_time(0.6)
    (rest,) = rig.network.waiting
    assert [each["id"] for each in body_of(rest)] == ["m10", "m11", "m12"]
    rig.come_to_rest()
    assert {rig.status_at(f"m{number}", "api") for number in range(13)} == {"delivered"}


@pytest.mark.parametrize("format", ["array", "lines"])
def test_a_batch_without_a_mapping_has_what_a_webhook_gets(rig: Rig, format: str) -> None:
    """Every event is there, in order and without what a filter takes out, as the receiver of a webhook would see it."""
    card = {"if": "properties.total > 1", "do": "dropProperties", "properties": ["properties.card"]}
    start(rig, {"batch": {"size": 3, "wait": 1.0, "format": format}}, filters=[card])
    for number in range(3):
        track(rig, f"m{number}", properties={"total": number, "card": "4242"})
    (sent,) = rig.network.waiting
    body = sent.data.partition(b"\r\n\r\n")[2]
    events = [msgspec.json.decode(line) for line in body.splitlines()] if format == "lines" else body_of(sent)
    assert [each["properties"] for each in events] == [
        {"total": 0, "card": "4242"},
        {"total": 1, "card": "4242"},
        {"total": 2},
    ]
    assert {(each["version"], each["type"], each["userId"]) for each in events} == {(1, "track", "u1")}
    rig.come_to_rest()
    assert {rig.status_at(f"m{number}", "api") for number in range(3)} == {"delivered"}


@pytest.mark.parametrize("condition", [{}, {"if": "true"}])
def test_a_line_of_a_batch_is_one_event_whatever_its_sender_wrote(rig: Rig, condition: dict[str, str]) -> None:
    """Line breaks between the tokens of a caller's JSON begin no record of their own."""
    start(rig, {**condition, "batch": {"size": 2, "wait": 1.0, "format": "lines"}})
    foreign = b'{"type":"track","event":"E","properties":{"x":[\n{"type":"delete","userId":"victim"}\r]}}'
    rig.append(rig.record("m1", body=foreign), rig.record("m2"))
    rig.turn()
    (sent,) = rig.network.waiting
    lines = sent.data.partition(b"\r\n\r\n")[2].splitlines()
    assert [msgspec.json.decode(line)["type"] for line in lines] == ["track", "track"]


def test_a_crash_loses_nothing_that_waited(rig: Rig) -> None:
    """Events that wait for others, and a batch without an answer, are sent after a restart."""
    start(rig, BATCHED)
    rig.append(*[f"m{number}" for number in range(13)])
    rig.turn()
    rig.checkpoint()
    rig.restart()
    rig.turn()
    rig.come_to_rest()
    assert {rig.status_at(f"m{number}", "api") for number in range(13)} == {"delivered"}


def test_only_the_items_that_failed_are_dealt_with(rig: Rig) -> None:
    """A 200 that names two items: one is refused for good, one is tried again, alone, and eight are delivered."""
    items = [{"path": "body.bad", "index": "at", "status": "code", "error": "why"}]
    start(rig, {**BATCHED, "success": {"items": items}})
    rig.append(*[f"m{number}" for number in range(10)])
    rig.turn()
    (sent,) = rig.network.waiting
    bad = [{"at": 3, "code": 422, "why": "no such plan"}, {"at": 5, "code": 503, "why": "shard away"}]
    rig.answer(sent, 200, text=msgspec.json.encode({"bad": bad}).decode())
    rig.checkpoint()
    assert (rig.status_at("m3", "api"), rig.status_at("m5", "api")) == ("failed", "retrying")
    (failed,) = [each for each in rig.event("m3").destinations if each.attempts]
    assert (failed.attempts[0].error, failed.attempts[0].http_status) == ("no such plan", 422)
    rig.pass_time(30)
    rig.pass_time(1.1)
    (again,) = rig.network.waiting
    assert [each["id"] for each in body_of(again)] == ["m5"]
    rig.come_to_rest()
    statuses = [rig.status_at(f"m{number}", "api") for number in range(10)]
    assert (statuses.count("delivered"), statuses[3]) == (9, "failed")


def test_a_200_that_says_no_is_no_success_beside_one(rig: Rig) -> None:
    """Its mapping is taken away in flight, so one accepted request is enough: the other one does not count as well."""
    start(rig, ONE, {**ONE, "success": {"if": "body.ok = true"}})
    track(rig, "m1")
    accepts, refuses = rig.network.waiting
    rig.change(destination("api"))
    rig.follow()
    rig.answer(accepts, 200)
    rig.answer(refuses, 200, text='{"ok": false}')
    rig.come_to_rest()
    (found,) = rig.event("m1").destinations
    assert found.status == "delivered"
    outcomes = {(each.outcome, each.http_status) for each in found.attempts}
    assert outcomes == {(Outcome.SUCCESS, 200), (Outcome.REFUSED, 200)}
    assert rig.role.store.reader.totals()["api"].delivered == 1


@pytest.mark.parametrize("code", ["99999999999999999999999", "9223372036854775808", "-5", "true"])
def test_a_status_of_an_item_that_is_none_is_not_kept(rig: Rig, code: str) -> None:
    """Whatever number an answer has for an item's status, the results of all destinations are saved."""
    items = [{"path": "body.all", "entries": "each", "status": "code", "error": "why"}]
    start(rig, {**BATCHED, "success": {"items": items}})
    rig.append("m0", "m1")
    rig.turn()
    rig.pass_time(1.1)
    (sent,) = rig.network.waiting
    rig.answer(sent, 200, text=f'{{"all": [{{"code": {code}, "why": "no"}}, {{"code": 201}}]}}')
    rig.checkpoint()
    (refused,), (accepted,) = (rig.event(id).destinations for id in ("m0", "m1"))
    assert (refused.attempts[0].http_status, refused.attempts[0].error, accepted.status) == (200, "no", "delivered")


def test_a_batch_that_is_refused_as_a_whole_is_halved_until_the_guilty_one_is_found(rig: Rig) -> None:
    """One of ten events is refused with a 400 that names nobody: it alone becomes a dead letter."""
    start(rig, BATCHED)
    rig.append(*[f"m{number}" for number in range(10)])
    rig.turn()
    while rig.network.waiting:
        sent = rig.network.waiting[0]
        rig.answer(sent, 400 if any(each["id"] == "m7" for each in body_of(sent)) else 200)
        rig.turn()
    rig.come_to_rest()
    statuses = [rig.status_at(f"m{number}", "api") for number in range(10)]
    assert (statuses.count("delivered"), statuses[7]) == (9, "failed")
    assert len(rig.network.sent) <= 9


@pytest.mark.parametrize(
    "success", [{"items": [{"path": "body.items", "entries": "each", "status": "status"}]}, {"if": "body.ok = true"}]
)
def test_a_batch_whose_answer_is_too_long_is_halved_until_it_can_be_read(rig: Rig, success: dict[str, Any]) -> None:
    """The receiver accepts ten events with more than is read of an answer; five it accepts with less."""
    start(rig, {**BATCHED, "success": success})
    rig.append(*[f"m{number}" for number in range(10)])
    rig.turn()
    while rig.network.waiting:
        sent = rig.network.waiting[0]
        accepted = [{"status": 201}] * len(body_of(sent))
        whole = msgspec.json.encode({"items": accepted, "ok": True, "more": "x" * ANSWER_BYTES_MAX}).decode()
        short = msgspec.json.encode({"items": accepted, "ok": True}).decode()
        rig.answer(sent, 200, text=whole[:ANSWER_BYTES_MAX] if len(accepted) > 5 else short)
        rig.turn()
    assert [len(body_of(each)) for each in rig.network.sent] == [10, 5, 5]
    assert [rig.status_at(f"m{number}", "api") for number in range(10)] == ["delivered"] * 10


NAMED = {"items": [{"path": "body.failed", "entries": "named"}]}


@pytest.mark.parametrize(
    ("count", "success", "per_event"),
    [(1, NAMED, 0), (100, NAMED, ANSWER_BYTES_PER_EVENT), (100, {}, 0)],
)
def test_no_more_is_read_of_an_answer_than_it_may_have_to_say(
    rig: Rig, count: int, success: dict[str, Any], per_event: int
) -> None:
    """Of one event, or where no rule asks what became of each, it is little, whatever the receiver sends."""
    start(rig, {**ONE, "batch": {"size": 100, "wait": 0}, **({"success": success} if success else {})})
    rig.append(*[f"m{number}" for number in range(count)])
    rig.turn()
    (sent,) = rig.network.waiting
    assert len(body_of(sent)) == count
    asked = count * per_event + ECHOED * len(sent.data) if per_event else ANSWER_BYTES_MAX
    assert sent.answer_bytes_max == asked


def test_answers_that_come_together_are_decoded_a_few_in_a_turn(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver may hold hundreds back and let them go at once; others wait for one part of that, and none is lost."""
    monkeypatch.setattr(dispatcher, "JUDGED_BYTES_PER_TURN", 30)
    start(rig, {**ONE, "success": {"if": "body.ok = true"}})
    rig.append(*(f"m{number}" for number in range(8)))
    rig.turn()
    for _ in range(8):
        rig.answer(rig.network.waiting[0], 200, text='{"ok":true}')
    assert rig.role.engine.in_flight == 6
    rig.turn()
    assert rig.role.engine.in_flight == 0
    rig.checkpoint()
    assert {rig.status_at(f"m{number}", "api") for number in range(8)} == {"delivered"}


def test_nobody_waits_for_all_answers_of_another_destination_to_be_decoded(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lanes take turns; the time that an answer waited counts, by which a token that has ended is known."""
    monkeypatch.setattr(dispatcher, "JUDGED_BYTES_PER_TURN", 30)
    monkeypatch.setattr(dispatcher, "JUDGED_BYTES_PER_LANE", 20)
    rule = {**ONE, "success": {"if": "body.ok = true"}}
    rig.change(source(), api(rule), api(rule, id="other", name="Other"))
    rig.start()
    rig.append(*(f"m{number}" for number in range(8)))
    rig.turn()
    many, other = rig.lane("api"), rig.lane("other")
    for request in sorted(rig.network.waiting, key=lambda each: each.destination):
        rig.answer(request, 200, text='{"ok":true}' if request.destination == "api" else "{}", milliseconds=10)
    assert len(other.in_flight) == 8
    rig.clock.seconds += 0.5
    while other.in_flight:
        rig.one_turn()
    assert many.in_flight
    rig.turn()
    rig.checkpoint()
    assert rig.status_at("m7", "api") == "delivered"
    times = rig.role.store._read.execute("SELECT milliseconds FROM attempts WHERE destination = 'other'").fetchall()
    assert set(times) == {(510,)}


LARGE = b'{"type":"track","event":"Order","properties":{"p":"%b"}}' % (b"x" * 10_000)


def start_large(rig: Rig, count: int) -> None:
    """Have a batch of so many large events leave to an API whose answer says whether it was accepted."""
    start(rig, {**ONE, "batch": {"size": count, "wait": 0}, "success": {"if": "body.ok = true"}})
    rig.append(*(rig.record(f"m{number}", body=LARGE) for number in range(count)))
    rig.turn()


def test_an_answer_of_too_many_parts_is_not_decoded(rig: Rig) -> None:
    """It is no longer than an answer to large events may be, and would hold up the event loop; of fewer it is less."""
    start_large(rig, 40)
    while rig.network.waiting:
        sent = rig.network.waiting[0]
        answer = '{"ok":true,"x":[' + ",".join(["[]"] * 2_000 * len(body_of(sent))) + "]}"
        assert len(answer) < sent.answer_bytes_max
        rig.answer(sent, 200, text=answer)
        rig.turn()
    assert [rig.status_at(f"m{number}", "api") for number in range(40)] == ["delivered"] * 40
    accepted = [len(body_of(each)) for each in rig.network.sent if len(body_of(each)) * 4_000 < PARTS_MAX]
    assert sum(accepted) == 40


def test_an_api_that_answers_with_what_it_was_sent_gets_each_event_once(rig: Rig) -> None:
    """However large the events are, as long as a batch of them is read at all."""
    start_large(rig, 100)
    while rig.network.waiting:
        sent = rig.network.waiting[0]
        answer = msgspec.json.encode({"created": body_of(sent), "ok": True}).decode()
        rig.answer(sent, 200, text=answer[: sent.answer_bytes_max])
        rig.turn()
    assert sum(len(body_of(each)) for each in rig.network.sent) == 100


@pytest.mark.parametrize("how", ["stop", "pause", "lease"])
def test_a_refused_batch_that_cannot_be_halved_comes_again(rig: Rig, how: str) -> None:
    """While the role stops, the destination is paused, or others may own the events, nothing is sent; nine of ten
    events are well."""
    start(rig, BATCHED)
    rig.append(*[f"m{number}" for number in range(10)])
    rig.turn()
    if how == "stop":
        rig.role.engine.stopping = True
    elif how == "lease":
        rig.role.engine.fence = fence = Fence(10.0)
        fence.epochs[0] = 1
    else:
        rig.store.pause("api", Pause(since=rig.clock.now_ms()), "test", rig.appender.ends)
        rig.follow()
    rig.answer(rig.network.waiting[0], 400)
    rig.turn()
    rig.checkpoint()
    assert len(rig.network.sent) == 1
    if how == "stop":
        rig.restart()
    elif how == "lease":
        rig.role.engine.fence = None
    else:
        rig.store.resume("api", None, "test", rig.appender.ends)
        rig.follow()
    for _ in range(10):
        while rig.network.waiting:
            sent = rig.network.waiting[0]
            rig.answer(sent, 400 if any(each["id"] == "m7" for each in body_of(sent)) else 200)
            rig.turn()
        rig.pass_time(1)
        rig.checkpoint()
    statuses = [rig.status_at(f"m{number}", "api") for number in range(10)]
    assert (statuses.count("delivered"), statuses[7]) == (9, "failed")


@pytest.mark.parametrize(
    "requests",
    [
        [{"if": 'type = "track"'}, {"url": "https://b.example.com/in", "if": 'type = "identify"'}],
        [{"url": {"@template": "https://api.example.com/u/{{userId}}"}}],
    ],
)
def test_a_410_of_one_url_is_not_that_of_all(rig: Rig, requests: list[dict[str, Any]]) -> None:
    """What the next event becomes may go elsewhere; where all goes to one URL, that is gone."""
    start(rig, *({**ONE, **each} for each in requests))
    track(rig, "m1")
    rig.answer(rig.network.waiting[0], 410)
    rig.turn()
    assert not rig.lane("api").gone
    rig.change(api(ONE))
    rig.follow()
    track(rig, "m2")
    rig.answer(rig.network.waiting[0], 410)
    rig.turn()
    assert rig.lane("api").gone


@pytest.mark.parametrize("milliseconds", [50, 1_000, 3_000])
def test_batches_keep_to_their_rate_and_up_with_it(rig: Rig, milliseconds: int) -> None:
    """However long answers take: half of what ``maxRate`` allows is sent in time, and what waits in whole batches."""
    start(rig, {**ONE, "batch": {"size": 100, "wait": 1}}, delivery={"maxRate": 100})
    begun: dict[int, tuple[float, Request]] = {}
    done: list[float] = []
    for step in range(1_200):
        now = step * 0.05
        if step % 20 == 0:
            rig.append(*[f"m{step}-{number}" for number in range(50)])
            rig.turn()
        for each in rig.network.waiting:
            begun.setdefault(id(each), (now, each))
        for at, each in list(begun.values()):
            if now - at >= milliseconds / 1000 and each in rig.network.waiting:
                done += [now] * len(body_of(each))
                rig.answer(each, 200, milliseconds=milliseconds)
                rig.turn()
        rig.pass_time(0.05)
        if step % 10 == 0:
            rig.checkpoint()
    assert len(done) > 2_600
    assert len(rig.network.sent) < 90
    assert all(done[at + 250] - done[at] >= 1 for at in range(len(done) - 250))


def test_a_rate_follows_when_batches_begin(rig: Rig) -> None:
    """With the same ``maxRate``, a second's worth is kept from then on."""
    start(rig, ONE, delivery={"maxRate": 100})
    lane = rig.lane("api")
    assert lane.rate is not None
    assert lane.rate.burst == 10
    rig.change(api(BATCHED, delivery={"maxRate": 100}))
    rig.follow()
    assert lane.rate.burst == 100


@pytest.mark.parametrize("how", [503, 429, Outcome.TIMED_OUT])
def test_a_batch_without_success_is_tried_again_as_a_batch(rig: Rig, how: int | Outcome) -> None:
    """A server's failure is one failure of the receiver, and its ten events come again together."""
    start(rig, BATCHED)
    rig.append(*[f"m{number}" for number in range(10)])
    rig.turn()
    rig.answer(rig.network.waiting[0], how)
    rig.checkpoint()
    assert rig.lane("api").breaker.failures == 1
    for _ in range(20):
        rig.pass_time(1)
    sizes = [len(body_of(each)) for each in rig.network.waiting]
    assert sum(sizes) == 10
    assert len(sizes) < 6
    rig.come_to_rest()
    assert {rig.status_at(f"m{number}", "api") for number in range(10)} == {"delivered"}


ECHO = "HTTP/1.1 503 Away\r\nX-Echo: no person-4711\r\nX-Request-Id: r7"


@pytest.mark.parametrize("count", [1, 3])
def test_an_answer_about_a_batch_is_kept_without_what_may_name_a_person(rig: Rig, count: int) -> None:
    """The row of each event has the words, which stay when another event goes with its person; of one event alone
    the whole answer is kept. The cause is the same."""
    start(rig, BATCHED)
    rig.append(*[f"m{number}" for number in range(count)])
    rig.turn()
    rig.pass_time(1.1)
    (sent,) = rig.network.waiting
    text = '{"error": "shard 7 is away", "received": "person-4711"}'
    rig.answer(sent, 503, text=text, head=ECHO)
    rig.checkpoint()
    query = "SELECT error, head, cause FROM attempts"
    ((error, head, cause),) = set(rig.role.store._read.execute(query))
    assert (error == text, "person-4711" in error, "person-4711" in head) == ((count == 1,) * 3)
    assert "shard" in error
    assert "X-Request-Id: r7" in head
    assert cause == cause_of("server_error", 503, text)


def test_a_name_that_stands_for_several_items_is_kept_in_the_same_way(rig: Rig) -> None:
    """Some APIs say by a text which items it is about."""
    items = [{"path": "body.invalid"}]
    start(rig, {**BATCHED, "success": {"items": items}})
    rig.append("m0", "m1", "m2")
    rig.turn()
    rig.pass_time(1.1)
    (sent,) = rig.network.waiting
    rig.answer(sent, 400, text='{"invalid": {"no user person-4711": [0, 1]}}')
    rig.checkpoint()
    errors = set(rig.role.store._read.execute('SELECT error FROM attempts WHERE "offset" < 2'))
    assert errors == {("invalid: no user …",)}


def test_the_bytes_of_a_batch_are_bounded(rig: Rig) -> None:
    """Ten events of 400 bytes go in requests of at most 1,024 bytes of items."""
    start(rig, {"body": {"p": {"@path": "$.properties"}}, "batch": {"size": 10, "bytes": 1_024, "wait": 0}})
    for number in range(10):
        track(rig, f"m{number}", properties={"text": "x" * 400})
    rig.come_to_rest()
    assert max(len(each.data.partition(b"\r\n\r\n")[2]) for each in rig.network.sent) <= 1_024


@pytest.mark.parametrize("batch", [{}, {"batch": {"size": 20, "wait": 0.5, "bytes": 8_000_000}}])
@pytest.mark.parametrize("order", ["none", "user"])
@pytest.mark.parametrize("failing", [0, 1, 20])
def test_what_a_mapping_makes_much_of_does_not_fill_the_memory(
    rig: Rig, batch: dict[str, Any], order: str, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers choose what events have, and so how much becomes of them; the rest waits until some are answered, also
    of those that failed and are due together."""
    monkeypatch.setattr(mapped, "HEAVY_BYTES_IN_FLIGHT_MAX", 500_000)
    flat = {"@flatten": {"value": {"@path": "$.properties"}, "separator": "."}}
    start(rig, {"body": flat, **batch}, delivery={"order": order})
    properties = {"k" * 2_500: {f"{number:x}": 1 for number in range(60)}}
    for number in range(20):
        user = f"u{number}"
        body = msgspec.json.encode({"type": "track", "event": "Order", "userId": user, "properties": properties})
        rig.append(rig.record(f"m{number}", body=body, user_key=user))
    rig.append("small")
    rig.turn()
    in_flight: list[int] = []
    for _ in range(30):
        while rig.network.waiting:
            in_flight.append(sum(len(each.data) for each in rig.network.waiting))
            rig.answer(rig.network.waiting[0], 500 if len(in_flight) <= failing else 200)
            rig.turn()
        rig.checkpoint()
        rig.pass_time(2.0)
    assert max(in_flight) < 500_000 + 200_000
    assert {rig.status_at(id, "api") for id in ("small", *(f"m{number}" for number in range(20)))} == {"delivered"}


def test_success_is_what_the_rule_says(rig: Rig) -> None:
    """A 200 whose body says no is a refusal of the event; a 404 that the rule calls the event's fault opens nothing."""
    success = {"if": "status = 200 and body.ok = true", "refused": "status = 404"}
    start(rig, {**ONE, "success": success})
    track(rig, "m1")
    rig.answer(rig.network.waiting[0], 200, text='{"ok": false, "error": "channel_not_found"}')
    track(rig, "m2")
    rig.answer(rig.network.waiting[0], 404, text="{}")
    track(rig, "m3")
    rig.answer(rig.network.waiting[0], 200, text='{"ok": true}')
    rig.checkpoint()
    assert [rig.status_at(f"m{number}", "api") for number in (1, 2, 3)] == ["failed", "failed", "delivered"]
    assert rig.lane("api").breaker.failures == 0


def test_order_is_kept_within_a_user(rig: Rig) -> None:
    """With order: user no batch holds two events of one user, and the second comes when the first is done."""
    start(rig, {**BATCHED, "batch": {"size": 10, "wait": 0}}, delivery={"order": "user"})
    for number in range(6):
        track(rig, f"m{number}", userId=f"u{number % 2}")
    seen: list[str] = []
    while rig.network.waiting:
        ids = [each["id"] for each in body_of(rig.network.waiting[0])]
        assert len({int(id[1:]) % 2 for id in ids}) == len(ids)
        seen += ids
        rig.answer(rig.network.waiting[0], 200)
        rig.pass_time(0.2)
    assert [id for id in seen if int(id[1:]) % 2] == ["m1", "m3", "m5"]
    assert sorted(seen) == [f"m{number}" for number in range(6)]


def test_the_next_event_of_a_user_does_not_wait_for_a_batch_again(rig: Rig) -> None:
    """With order: user, twenty events of one user do not take twenty times as long as a batch may wait."""
    start(rig, {**BATCHED, "batch": {"size": 10, "wait": 5}}, delivery={"order": "user"})
    for number in range(20):
        track(rig, f"m{number}")
    for _ in range(50):
        rig.answer_all()
        rig.pass_time(0.25)
    assert [rig.status_at(f"m{number}", "api") for number in range(20)] == ["delivered"] * 20


def test_a_delete_message_that_no_request_takes_says_what_to_do(rig: Rig) -> None:
    """It is filtered by the mapping, not lost: the reason says that nothing was sent, and to delete by hand."""
    start(rig, {**ONE, "if": 'type = "track"'})
    body = b'{"type":"delete","userId":"u1","timestamp":"2026-11-20T07:00:00.000Z"}'
    rig.append(rig.record("d1", type="delete", origin="deletion", to=("api",), body=body))
    rig.turn()
    rig.come_to_rest()
    (found,) = rig.event("d1").destinations
    assert (found.status, rig.network.sent) == ("filtered", [])
    assert found.reason is not None
    assert found.reason.startswith("this destination's mapping has no delete message, so nothing was sent. Delete the")
