"""A POST with an Idempotency-Key is done once."""

from __future__ import annotations

import socket

import pytest

from hookline.api import idempotency as module
from hookline.api.idempotency import KEPT_MS, KeptAnswer, KeptAnswers, kept_answers
from hookline.api.services import control_database
from hookline.database.sqlite import DatabaseAway, DatabaseFull, OperationalError
from hookline.features.connections.api import objects
from tests.unit.control.running import WAIT_SECONDS, Answer, Running, source

ANSWER = KeptAnswer(201, ((b"location", b"/x"),), b'{"secret": "shown-once"}')


@pytest.fixture
def control(control_on_both: Running) -> Running:
    """Each test once in files and once in PostgreSQL."""
    return control_on_both


def post(control: Running, body: object, key: str = "k1", path: str = "/sources", **headers: str) -> Answer:
    """A POST with a key."""
    return control.call("POST", "/api/v1" + path, body, {"Idempotency-Key": key, **headers})


def test_a_repeat_gets_the_first_answer_and_does_nothing(control: Running) -> None:
    """Status, body and address are those of the first; the audit log has one entry."""
    first = post(control, {"id": "a", "name": "A"})
    again = post(control, {"id": "a", "name": "A"})
    assert (again.status, again.body) == (first.status, first.body)
    assert (again.headers["location"], again.headers["etag"]) == (first.headers["location"], first.headers["etag"])
    assert (again.headers["idempotency-replayed"], "idempotency-replayed" in first.headers) == ("true", False)
    assert len(control.api("GET", "/audit-log").json["items"]) == 1


def test_another_request_under_the_same_key_is_refused(control: Running) -> None:
    """Another body is 422; another address, caller or key is another request."""
    post(control, source("a"))
    answer = post(control, source("b"))
    assert (answer.status, answer.json["code"]) == (422, "idempotency_key_reused")
    assert post(control, {"name": "ci"}, path="/tokens").status == 201
    assert post(control, source("b"), key="k2").status == 201


def test_a_refused_request_may_be_mended(control: Running) -> None:
    """What changed nothing does not use the key up."""
    assert post(control, {"id": "a"}).status == 422
    assert post(control, source("a")).status == 201


def test_a_secret_shown_once_is_shown_to_who_repeats_and_not_stored(control: Running) -> None:
    """The lost answer of a token can be had again with the key; the database alone does not have it."""
    first = post(control, {"name": "ci"}, path="/tokens")
    assert post(control, {"name": "ci"}, path="/tokens").json["text"] == first.json["text"]
    ((kept,),) = control_database(control.services).rows("SELECT answer FROM idempotency_keys")
    assert first.json["text"].encode() not in kept


def test_a_key_that_cannot_be_one_is_refused(control: Running) -> None:
    """Too long or with blanks; without a token the key does not matter."""
    for key in ("a b", "x" * 256):
        assert post(control, source("a"), key=key).json["code"] == "invalid_idempotency_key"
    headers = {"Idempotency-Key": "k1"}
    assert control.call("POST", "/api/v1/sources", source(), headers, token=False).status == 401


def test_a_request_that_is_being_served_is_not_begun_again(control: Running) -> None:
    """It is told to wait; after a restart, that nobody knows what became of it."""
    answers = kept_answers(control.services)
    assert answers.take(b"key", b"body") == "new"
    assert answers.take(b"key", b"body") == "running"
    after_restart = KeptAnswers(control_database(control.services))
    assert after_restart.take(b"key", b"body") == "lost"
    assert after_restart.take(b"key", b"other") == "other_request"


def test_an_answer_that_cannot_be_kept_is_given_and_its_request_not_done_again(
    control: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is made, so the answer says so; who lost it and repeats is told that it may have been done."""

    def full(*_: object) -> None:
        raise OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(kept_answers(control.services), "keep", full)
        assert post(control, {"destination": "crm"}, path="/replays").status == 422
        assert post(control, source("a")).status == 201
    again = post(control, source("a"))
    assert (again.status, again.json["code"]) == (409, "idempotency_outcome_unknown")


def test_a_request_that_failed_after_its_change_is_not_done_again(
    control: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ask who repeats it to look; the change is on record."""

    def broken(*_: object) -> None:
        raise RuntimeError("what was made cannot be shown")

    with monkeypatch.context() as patch:
        patch.setattr(objects, "created", broken)
        assert post(control, source("a")).status == 500
    again = post(control, source("a"))
    assert (again.status, again.json["code"]) == (409, "idempotency_outcome_unknown")
    assert [each["target"] for each in control.api("GET", "/audit-log").json["items"]] == ["sources/a"]


@pytest.mark.parametrize(("failure", "status"), [(DatabaseFull("full"), 201), (DatabaseAway("gone"), 409)], ids=repr)
def test_a_failure_that_changed_nothing_gives_the_key_back(
    control: Running, failure: DatabaseAway, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless nobody knows whether it did: the answer to a commit may get lost."""

    def fail(*_: object) -> None:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(objects, "create_object", fail)
        assert post(control, source("a")).status == 503
    assert post(control, source("a")).status == status
    assert len(control.api("GET", "/audit-log").json["items"]) == (status == 201)


def test_a_change_that_was_taken_back_is_none(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up within the transaction: the key is good again, and nothing is on record."""

    def full(*_: object) -> None:
        raise DatabaseFull("full")

    with monkeypatch.context() as patch:
        patch.setattr(control.services.store, "_replace_rows", full)
        assert post(control, source("a")).status == 503
    assert not control.api("GET", "/audit-log").json["items"]
    assert post(control, source("a")).status == 201


def test_answers_are_kept_for_a_day_and_up_to_a_bound(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 24 hours a key is new again; at the bound the caller's oldest goes."""
    now = 1_000
    answers = KeptAnswers(control_database(control.services), now_ms=lambda: now)
    answers.take(b"key", b"body")
    answers.keep(b"key", ANSWER)
    now += KEPT_MS
    assert answers.take(b"key", b"body") == ANSWER
    now += 1
    assert answers.take(b"key", b"body") == "new"
    monkeypatch.setattr(module, "KEPT_ANSWERS_MAX", 2)
    for number in range(3):
        now += 1
        key = b"ci\n%d" % number
        answers.take(key, b"body")
        answers.keep(key, ANSWER)
    assert len(control_database(control.services).rows("SELECT 1 FROM idempotency_keys")) == 3
    assert [answers.take(b"ci\n%d" % number, b"body") for number in (2, 1)] == [ANSWER, ANSWER]
    assert answers.take(b"ci\n0", b"body") == "new"
    now += 1
    assert [answers.take(key, b"body") for key in (b"ci\n3", b"ci\n4")] == ["new", "new"]
    assert [answers.take(key, b"body") for key in (b"ci\n0", b"ci\n2", b"key")] == ["running", "new", "running"]


def test_a_request_with_a_huge_answer_is_not_done_again(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is given and not kept. Only what changed nothing is asked again under its key."""
    monkeypatch.setattr(module, "ANSWER_BYTES_MAX", 4)
    file = {"document": "sources: [{id: b, name: B}]", "dryRun": True}
    assert [post(control, file, "k2", "/connections/apply").status for _ in range(2)] == [200, 200]
    assert post(control, source("a")).status == 201
    again = post(control, source("a"))
    assert (again.status, again.json["code"]) == (409, "idempotency_outcome_unknown")


def test_who_may_not_post_is_refused_before_the_body(control: Running) -> None:
    """A viewer is answered at once with the key too; nothing is held of what would still arrive, and no key is used."""
    viewer = control.api("POST", "/tokens", {"name": "viewer", "scope": "read"}).json["text"]
    head = f"POST /api/v1/sources HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {viewer}\r\n"
    length = "Idempotency-Key: k1\r\nContent-Length: 18000000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", control.port), timeout=WAIT_SECONDS) as client:
        client.sendall((head + length).encode() + bytes(1024 * 1024))
        assert client.recv(4_096)[9:12] == b"403"
    assert not control_database(control.services).rows("SELECT 1 FROM idempotency_keys")


def test_a_body_with_a_key_is_as_long_as_without(control: Running) -> None:
    """Only a file of connections may be longer than 4 MB."""
    assert post(control, bytes(4 * 1024 * 1024 + 1)).status == 413
