"""The way of an event with the databases in PostgreSQL: as on one machine without it."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from hookline_client import Client
from tests.postgres import PostgresServer
from tests.service.cli.conftest import Run
from tests.service.cli.conftest import run as run
from tests.service.deliver.per_case import Cases
from tests.service.harness import Hookline, Receiver, free_port, new_id, wait_until, webhook

SECRET = "s3cret"
SCHEMAS = ["hookline", *(f"hookline_{which}" for which in ("control", "deliver", "insights", "privacy"))]
PAUSE_SECONDS = 0.01
"""Between two events while roles are killed."""


@pytest.fixture(scope="module")
def shared_url(running_server: PostgresServer) -> Iterator[str]:
    """An empty database for the tests that share a service."""
    with running_server.database() as url:
        yield url


@pytest.fixture(scope="module")
def cases(shared_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cases]:
    """One service for all that do not stop it, with a source for each, to which it adds its destinations."""
    sources = [
        {"id": case, "name": case, "type": "server", "writeKeys": [f"wk_{case}"]}
        for case in ("client", "commands", "erased", "waiting")
    ]
    settings = {"database.url": shared_url}
    with Hookline(tmp_path_factory.mktemp("story"), sources=sources, settings=settings) as running:
        yield Cases(running)
    assert "Traceback (most recent call last)" not in running.log, running.log[-4000:]


def connect(cases: Cases, case: str, receiver: Receiver, secret: str | None = None) -> Hookline:
    """Have the events of a case sent to a receiver, by a destination of the same name; return the service."""
    destination = webhook(case, receiver.url(), sources=[case], secret=secret)
    assert cases.hookline.api("POST", "destinations", destination).status == 201
    return cases.hookline


def test_a_client_is_delivered_signed_and_found_again(
    cases: Cases, receiver: Receiver, server: PostgresServer, shared_url: str
) -> None:
    """Each event reaches its receiver, signed; ``why`` tells it; everything but the journal is in PostgreSQL."""
    hookline = connect(cases, "client", receiver, SECRET)
    with Client("wk_client", endpoint=f"http://127.0.0.1:{hookline.collect_port}") as client:
        sent = {client.identify("u1", {"plan": "pro"}), client.track("u1", "Signed Up"), client.page("u1", "Home")}
    for message in sent:
        (request,) = receiver.wait_for(message)
        signature = hmac.new(SECRET.encode(), request.body, hashlib.sha1).hexdigest()
        assert request.headers["x-signature"] == signature
        hookline.wait_status(message, "client", "delivered")
    assert list(hookline.data.glob("*.db*")) == []
    found = server.run(shared_url, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'hookline%' ORDER BY 1")
    assert [name for (name,) in found] == SCHEMAS


def test_a_dead_receiver_is_retried_up_to_a_dead_letter(
    on_postgres: Callable[..., Hookline], receiver: Receiver
) -> None:
    """Its event is tried again until its window ends; the one beside it is delivered; a retry by hand brings it."""
    port = free_port()
    destinations = [webhook("crm", receiver.url()), webhook("dead", f"http://127.0.0.1:{port}/hook")]
    with on_postgres(*destinations, **{"deliver.retry_window": "2s", "deliver.retry_max": "200ms"}) as hookline:
        message = hookline.track()
        hookline.wait_status(message, "crm", "delivered")
        attempts = hookline.wait_status(message, "dead", "expired")["attempts"]
        assert len(attempts) > 1
        (letter,) = hookline.api("GET", "dead-letters").json["items"]
        assert (letter["messageId"], letter["destination"]) == (message, "dead")
        with Receiver(port) as back:
            assert hookline.api("POST", f"dead-letters/{letter['id']}/retry").status in (200, 201, 202)
            back.wait_for(message)
        wait_until(lambda: hookline.api("GET", "dead-letters").json["items"] == [], what="the dead letter is gone")


def test_commands_work_on_it(cases: Cases, receiver: Receiver, run: Run) -> None:
    """A file is applied and exported, an event sent and asked for, and the doctor finds nothing wrong."""
    hookline = connect(cases, "commands", receiver)
    file = hookline.folder / "more.json"
    second = webhook("second", receiver.url("/second"), sources=["commands"])
    file.write_text(json.dumps({"sources": [], "destinations": [second]}))
    assert run(hookline, "apply", str(file)).returncode == 0
    assert "second" in run(hookline, "export").stdout
    message, words = new_id(), ("--event", "Bought", "--user-id", "u1", "--write-key", "wk_commands")
    sent = run(hookline, "send", "track", *words, "--message-id", message)
    assert sent.returncode == 0, sent.stderr
    receiver.wait_for(message, 2)
    wait_until(lambda: "delivered" in run(hookline, "why", message).stdout, what="why tells it")
    found = json.loads(run(hookline, "doctor", "--json").stdout)
    database = [each for each in found["findings"] if each["check"] == "database"]
    assert [each["status"] for each in database] == ["ok"]
    assert [each for each in found["findings"] if each["status"] == "fail"] == []
    shown = {each["key"]: each["value"] for each in found["settings"]}
    assert shown["database.url"].startswith("postgresql://")
    parts = {each["name"]: each["bytes"] for each in hookline.api("GET", "usage/storage").json["parts"]}
    assert parts["hookline_deliver"] > 0


def test_a_person_is_erased(cases: Cases, receiver: Receiver) -> None:
    """A deletion request is done, its evidence says what PostgreSQL keeps for a while, and nothing of it is found."""
    hookline = connect(cases, "erased", receiver)
    gone, kept = cases.send("erased", userId="gone"), cases.send("erased", userId="kept")
    for message in (gone, kept):
        hookline.wait_status(message, "erased", "delivered")
    made = hookline.api("POST", "deletion-requests", {"userId": "gone", "action": "both"}).json
    wait_until(
        lambda: hookline.api("GET", f"deletion-requests/{made['id']}").json["state"] == "done", what="it is done"
    )
    evidence = hookline.api("GET", f"deletion-requests/{made['id']}/evidence").json
    assert evidence["journal"] == "overwritten in place"
    assert "until its vacuum" in evidence["databases"]
    assert hookline.event(gone) is None
    assert hookline.event(kept) is not None
    before = len(receiver.requests)
    cases.send("erased", userId="gone")
    receiver.wait_for(cases.send("erased", userId="kept"))
    assert len(receiver.requests) == before + 1, "suppressed people's events are not stored"


def test_nothing_is_lost_over_kills(on_postgres: Callable[..., Hookline], receiver: Receiver) -> None:
    """Roles and the whole group are ended by kill -9 while events come in: each acknowledged one is delivered."""
    hookline = on_postgres(webhook("crm", receiver.url())).start()
    acknowledged: list[str] = []
    done = threading.Event()

    def send() -> None:
        while not done.wait(PAUSE_SECONDS):
            message = new_id()
            try:
                if hookline.post("/v1/track", {"userId": "u", "event": "E", "messageId": message}).status == 200:
                    acknowledged.append(message)
            except OSError:
                continue

    sending = threading.Thread(target=send)
    sending.start()
    try:
        for kill in ("deliver", "control", "collect", None):
            count = len(acknowledged)
            wait_until(lambda count=count: len(acknowledged) > count + 50, 60, what="events are acknowledged")  # type: ignore[misc]
            if kill is None:
                hookline.kill9()
                hookline.start()
            else:
                wait_until(lambda kill=kill: hookline.role(kill, required=False), what=f"{kill} runs")  # type: ignore[misc]
                os.kill(hookline.role(kill), signal.SIGKILL)
        count = len(acknowledged)
        wait_until(lambda: len(acknowledged) > count + 50, 60, what="events are acknowledged again")
    finally:
        done.set()
        sending.join()
    wait_until(lambda: not missing(acknowledged, receiver), 60, what="everything acknowledged is delivered")
    hookline.wait_ready()
    hookline.wait_status(acknowledged[0], "crm", "delivered")
    hookline.restart()
    after = hookline.track()
    receiver.wait_for(after)
    hookline.stop()
    assert len(receiver.of(after)) == 1


def missing(acknowledged: list[str], receiver: Receiver) -> set[str]:
    """What was acknowledged and has not arrived."""
    return set(acknowledged) - {request.message_id for request in receiver.requests}


def test_what_waits_is_tried_at_once(cases: Cases, receiver: Receiver) -> None:
    """A receiver that had asked to be left alone for ten minutes gets everything when somebody says so."""
    receiver.reply_with(503, headers={"Retry-After": "600"})
    hookline = connect(cases, "waiting", receiver)
    sent = [cases.send("waiting") for _ in range(40)]
    wait_until(lambda: len(receiver.requests) >= 20, what="enough failures for single attempts")
    receiver.reply_with(200)
    assert hookline.api("POST", "destinations/waiting/try").status == 202
    for message_id in sent:
        hookline.wait_status(message_id, "waiting", "delivered")
