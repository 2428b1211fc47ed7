"""Answers that are read whole, as those to mapped batches are: what is cut is no success, and the head is all there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast

import msgspec
import pytest

from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.lanes import mapped
from hookline.deliver.lanes.lane import Target
from hookline.deliver.lanes.mapped import failure_of, failures_of
from hookline.deliver.send.answers import HEAD_KEPT_BYTES, PlainAnswers
from hookline.deliver.send.connection import Connection
from hookline.deliver.send.connector import Connector
from hookline.deliver.send.pool import Pool
from hookline.deliver.send.port import Answer, Failure, Sink
from hookline.kinds import answers
from hookline.kinds.answers import Judge, asked_wait_seconds
from hookline.kinds.catalog import kind_of
from hookline.kinds.model import Success
from hookline.outcomes.outcome import Outcome
from tests.fuzz.bare_sender import ADDRESS, NO_TARGET, REQUEST, ByHand, Socket

BODY_BYTES_MAX = 4 * 1024 * 1024
SECONDS_MAX = 8.0
"""Of CPU, for what takes a third of a second, on a slow and busy machine too."""
REFUSED = b'{"errors":true,"items":[' + b",".join([b'{"create":{"status":400}}'] * 50) + b"]}"
LENGTH = b"HTTP/1.1 %b\r\nContent-Length: " + b"%d" % len(REFUSED) + b"\r\n\r\n"
CHUNKED = b"HTTP/1.1 %b\r\nTransfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % len(REFUSED)
UNTIL_CLOSE = b"HTTP/1.1 %b\r\n\r\n"
ENDS = [None, ConnectionResetError()]


class Exchanged(Sink):
    """One request whose answer is read whole, and what the sink was told of it."""

    def __init__(self, pieces: Sequence[bytes], request: bytes = REQUEST) -> None:
        self.answers: list[Answer] = []
        self.failures: list[Failure | None] = []
        by_hand = ByHand()
        answers = PlainAnswers[Connection](self, lambda tell: None)
        self.pool = Pool(parse_receiver_url("http://h/"), self, cast(Connector, by_hand), answers=answers)
        self.pool.ask(NO_TARGET, [(0, request)], BODY_BYTES_MAX)
        (self.connection,) = by_hand.asked
        self.connection.checked_address = self.connection.peer_address = ADDRESS
        self.connection.connection_made(Socket())
        for piece in pieces:
            self.connection.data_received(piece)

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        self.failures.append(failure)

    def answered_whole(self, token: object, target: Target, answer: Answer, milliseconds: int) -> None:
        self.answers.append(answer)

    def accepted(self) -> list[bool]:
        """Whether each of fifty documents counts as stored."""
        (answer,) = self.answers
        verdicts = bulk().each(answer.status, answer.head, answer.body, 50)
        assert all(verdict.accepted or verdict.retry or verdict.of_event for verdict in verdicts)
        return [verdict.accepted for verdict in verdicts]


def bulk() -> Judge:
    """What reads the answers of a search engine to a batch: each item has a status of its own, and nothing else is
    asked of the answer."""
    kind = kind_of("opensearch")
    assert kind is not None
    assert kind.manifest.requests
    success = kind.manifest.requests[0].success
    assert success is not None
    return Judge(Success(items=success.items))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("head", [LENGTH, CHUNKED])
def test_a_success_that_is_cut_in_its_body_is_none(head: bytes, end: Exception | None) -> None:
    """The rest of the body would have said which events were refused: the attempt failed, and is made again."""
    exchanged = Exchanged([head % b"200 OK", REFUSED[:300]])
    exchanged.connection.connection_lost(end)
    (failure,) = exchanged.failures
    assert failure is not None
    assert failure.outcome is Outcome.CONNECTION_FAILED
    assert "closed in the middle of an answer" in failure.error
    assert exchanged.answers == []


def test_a_success_whose_body_cannot_be_read_on_is_none() -> None:
    """A chunk that is none ends the answer before its body does."""
    exchanged = Exchanged([CHUNKED % b"200 OK" + REFUSED + b"\r\n", b"no size\r\n"])
    assert [failure and failure.outcome for failure in exchanged.failures] == [Outcome.BAD_RESPONSE]
    assert exchanged.answers == []


@pytest.mark.parametrize("end", ENDS)
def test_a_refusal_that_is_cut_in_its_body_stands(end: Exception | None) -> None:
    """Its status says enough, and its head how long to wait."""
    exchanged = Exchanged([(LENGTH % b"429 Slow").replace(b"\r\n", b"\r\nRetry-After: 7\r\n", 1), b"{"])
    exchanged.connection.connection_lost(end)
    (answer,) = exchanged.answers
    assert (answer.status, "Retry-After: 7" in answer.head, exchanged.failures) == (429, True, [])


def test_what_comes_behind_a_whole_answer_does_not_undo_it() -> None:
    """The connection is out of step; the first answer has all of its body."""
    answer = LENGTH % b"200 OK" + REFUSED
    exchanged = Exchanged([answer + answer])
    assert [each.body for each in exchanged.answers] == [REFUSED]
    assert exchanged.failures == []


def test_an_answer_that_ends_with_its_connection_is_judged_by_what_it_says() -> None:
    """Nothing says where it ends. Half of a list tells of no event, so none of them counts as stored."""
    for body, accepted in ((REFUSED, False), (REFUSED[:300], False), (REFUSED.replace(b"400", b"201"), True)):
        exchanged = Exchanged([UNTIL_CLOSE % b"200 OK", body])
        exchanged.connection.connection_lost(None)
        assert exchanged.accepted() == [accepted] * 50


def test_an_answer_beyond_its_bound_is_no_success() -> None:
    """Of one that is too long to be read whole nobody knows whom it refuses."""
    entries = b",".join([b'{"create":{"status":400,"error":{"reason":"%b"}}}' % (b"m" * 100_000)] * 50)
    body = b'{"errors":true,"items":[' + entries + b"]}"
    assert len(body) > BODY_BYTES_MAX
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    pieces = [body[at : at + 65_536] for at in range(0, len(body), 65_536)]
    exchanged = Exchanged([head, *pieces])
    assert exchanged.accepted() == [False] * 50


def test_tiny_chunks_hold_up_nobody() -> None:
    """An answer in chunks of one byte is read in the time of its bytes: all receivers share the loop that reads it."""
    head, chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 40_000
    begun = time.process_time()
    (answer,) = Exchanged([head, *[chunks] * 16, b"0\r\n\r\n"]).answers
    assert time.process_time() - begun < SECONDS_MAX
    assert answer.body == b"x" * 640_000


@pytest.mark.parametrize(
    ("rule", "body"),
    [
        ({"entries": "each", "status": "status"}, b"[" + b"0," * 200_000 + b"0]"),
        ({"entries": "named"}, b"[" + b"1," * 200_000 + b"1]"),
        ({"entries": "named", "index": "at"}, b'{"why": [' + b"0," * 200_000 + b"0]}"),
    ],
)
def test_an_answer_that_lists_more_than_was_sent_holds_up_nobody(
    rule: dict[str, str], body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Millions of entries fit into an answer that is read; no more is looked at than ten events give reason for."""
    looked: list[object] = []
    at, failed = answers._at, answers._failed
    monkeypatch.setattr(answers, "NAMED_MAX", 100)
    monkeypatch.setattr(answers, "PARTS_MAX", 10_000_000)
    monkeypatch.setattr(answers, "_at", lambda value, path: looked.append(path) or at(value, path))
    monkeypatch.setattr(answers, "_failed", lambda *given: looked.append(given) or failed(*given))
    judge = Judge(msgspec.convert({"items": [{"path": "body.items", **rule}]}, Success))
    verdicts = judge.each(200, "HTTP/1.1 200 OK", b'{"items":' + body + b"}", 10)
    assert [each.accepted for each in verdicts].count(False) == (1 if rule == {"entries": "named"} else 0)
    assert len(looked) < 1_000


@pytest.mark.parametrize("body", [b"", b"{}", b"OK", b'{"took": 3}'])
def test_an_answer_that_is_whole_and_names_nobody_accepts(body: bytes) -> None:
    """As before: many receivers say nothing where all is well."""
    assert all(verdict.accepted for verdict in bulk().each(200, "HTTP/1.1 200 OK", body, 3))


@pytest.mark.parametrize("entries", [[], [{"create": {"status": 201}}]])
def test_an_event_that_an_answer_says_nothing_of_is_not_accepted(entries: list[object]) -> None:
    """There is an entry for each event where the rule is ``each``: those without one are sent again."""
    body = msgspec.json.encode({"items": entries})
    verdicts = bulk().each(200, "HTTP/1.1 200 OK", body, 3)
    assert [(each.accepted, each.retry) for each in verdicts] == [
        *([(True, False)] * len(entries)),
        *([(False, True)] * (3 - len(entries))),
    ]


@pytest.mark.parametrize(("status", "retry"), [(400, False), (429, True), (500, True)])
def test_what_fails_as_a_whole_accepts_nobody(status: int, retry: bool) -> None:
    """Also where the others of a refused batch count as accepted: a 500 may name an event and have stored none."""
    judge = Judge(msgspec.convert({"items": [{"path": "body.failed"}], "others": "accepted"}, Success))
    named, *others = judge.each(status, f"HTTP/1.1 {status} No", b'{"failed":[0]}', 3)
    assert not named.accepted
    assert {(each.accepted, each.retry) for each in others} == {(not retry, retry)}


def test_rules_see_all_of_a_long_head() -> None:
    """A wait, and a header that a rule asks for, count behind a kilobyte of others too; what is kept stays short."""
    policy = b"Content-Security-Policy: " + b"connect-src https://x.example.com; " * 40
    head = b"HTTP/1.1 429 Slow\r\n" + policy + b"\r\nRetry-After: 120\r\nX-Refused: yes\r\nContent-Length: 2\r\n\r\n"
    (answer,) = Exchanged([head + b"{}"]).answers
    failure = failure_of(bulk().each(answer.status, answer.head, answer.body, 2)[0], answer)
    assert failure is not None
    assert failure.retry_after == b"120"
    assert len(failure.head or "") == HEAD_KEPT_BYTES
    assert Judge(Success(refused="headers.x-refused = 'yes'")).whole(429, answer.head, b"").of_event


def test_a_head_is_read_once_for_all_events_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be long, and a batch has a thousand events: all of them wait as long as it asks."""
    read: list[str] = []
    asked = mapped.asked_wait_seconds
    monkeypatch.setattr(mapped, "asked_wait_seconds", lambda head, now: read.append(head) or asked(head, now))
    answer = Answer(503, "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\n" + "a:\r\n" * 10_000, b"")
    failures = list(failures_of(bulk().each(503, answer.head, b"", 1_000), answer))
    assert [each.retry_after for each in failures if each is not None] == [b"7"] * 1_000
    assert len(read) == 1


def test_what_is_said_of_an_event_again_and_again_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last word counts, as it does where an answer names an event twice."""
    failed: list[object] = []
    write = answers._failed
    monkeypatch.setattr(answers, "_failed", lambda *given: failed.append(given) or write(*given))
    judge = Judge(msgspec.convert({"items": [{"path": "body.e", "index": "at", "error": "why"}]}, Success))
    body = msgspec.json.encode({"e": [{"at": 1, "why": f"reason {number}"} for number in range(100)]})
    verdicts = judge.each(400, "HTTP/1.1 400 No", body, 2)
    assert verdicts[1].error == "reason 99"
    assert len(failed) == 1


def test_a_long_name_of_many_items_is_not_copied_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """One field of megabytes may be wrong of every event of a batch; of its name they keep the beginning."""
    words: list[str] = []
    write = answers._failed
    monkeypatch.setattr(answers, "_failed", lambda *given: words.append(given[3]) or write(*given))
    judge = Judge(msgspec.convert({"items": [{"path": "body.wrong", "entries": "named"}]}, Success))
    name = "a" * 100_000
    body = msgspec.json.encode({"wrong": {name: list(range(10))}})
    assert {each.error for each in judge.each(400, "HTTP/1.1 400 No", body, 10)} == {f"wrong: {name}"[:500]}
    assert sum(map(len, words)) < 10_000


def test_a_date_without_a_zone_is_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old form of an HTTP date means the same wherever the machine is."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        head = "HTTP/1.1 429 Slow\r\nRetry-After: Fri Nov 20 07:00:20 2026\r\n"
        assert asked_wait_seconds(head, lambda: 1_795_158_000.0) == 20
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_connection_at_rest_does_not_keep_a_batch() -> None:
    """Once it is answered nobody sends it again, and a batch may be large."""
    exchanged = Exchanged([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"], b"x" * 1_000_000)
    assert list(exchanged.pool.idle) == [exchanged.connection]
    assert exchanged.connection.request == b""
