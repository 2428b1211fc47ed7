"""A warehouse in PostgreSQL as a destination of the real service."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from hookline.telemetry.crashpoints import ENVIRONMENT_NAME
from tests.postgres import OWNER, PostgresServer
from tests.service.harness import Hookline, new_id, wait_until

EVENTS = 300


def warehouse(server: PostgresServer, url: str, **settings: Any) -> dict[str, Any]:
    """A destination of the kind, as connections.yaml has it."""
    name = url.partition("?")[0].rpartition("/")[2]
    own = {"host": "127.0.0.1", "port": server.port, "database": name, "user": OWNER, "sslMode": "disable"}
    return {"id": "wh", "name": "W", "kind": "postgres", "sources": ["site"], "settings": {**own, **settings}}


@pytest.fixture
def service(server: PostgresServer, database_url: str, new_hookline: Callable[..., Hookline]) -> tuple[Hookline, str]:
    """A service with a warehouse and a data folder of its own (not started), and the URL of the warehouse."""
    return new_hookline(warehouse(server, database_url)), database_url


def ids(url: str, table: str = "site.tracks") -> list[str]:
    """The ids in a table, none while there is no table."""
    with psycopg.connect(url, autocommit=True) as connection:
        try:
            return [id for (id,) in connection.execute(f"SELECT id FROM {table} ORDER BY received_at, id".encode())]
        except psycopg.errors.UndefinedTable:
            return []


def send(hookline: Hookline, count: int) -> list[str]:
    """Send track calls in batches; return their messageIds."""
    sent = [new_id() for _ in range(count)]
    for begin in range(0, count, 100):
        calls = [
            {"type": "track", "event": "Signed Up", "userId": "u1", "messageId": id, "properties": {"n": number}}
            for number, id in enumerate(sent[begin : begin + 100], begin)
        ]
        assert hookline.post("/v1/batch", {"batch": calls}).status == 200
    return sent


@pytest.mark.parametrize("point", ["warehouse.before_commit", "warehouse.after_commit"])
def test_a_kill_at_the_commit_leaves_each_row_once(service: tuple[Hookline, str], point: str) -> None:
    """Deliver dies again and again with a batch written and nothing of it known; nothing is lost or there twice."""
    hookline, url = service
    hookline.environment[ENVIRONMENT_NAME] = point
    with hookline:
        sent = send(hookline, EVENTS)
        hookline.post("/v1/identify", {"userId": "u1", "traits": {"plan": "pro"}})
        wait_until(lambda: "-9" in hookline.log or "SIGKILL" in hookline.log, 60, "deliver killed")
        hookline.kill9()
        del hookline.environment[ENVIRONMENT_NAME]
        hookline.start()
        wait_until(lambda: len(ids(url)) >= EVENTS and ids(url, "site.users"), 60, "rows in the warehouse")
        for id in (sent[0], sent[-1]):
            hookline.wait_status(id, "wh", "delivered")
    assert sorted(ids(url)) == sorted(sent) == sorted(ids(url, "site.signed_up"))
    assert ids(url, "site.users") == ["u1"]
    assert "sink_tables_created" in hookline.log


def test_a_deletion_request_erases_there_too(service: tuple[Hookline, str]) -> None:
    """The request is done once the person's rows are gone, and its evidence says how many; those of others stay."""
    hookline, url = service
    with hookline:
        for user in ("u1", "u2"):
            hookline.track("Signed Up", userId=user)
            hookline.post("/v1/identify", {"userId": user, "traits": {"email": f"{user}@example.com"}})
        wait_until(lambda: len(ids(url, "site.users")) == 2 and len(ids(url)) == 2, 60, "rows in the warehouse")
        answer = hookline.api("POST", "deletion-requests", {"userId": "u1", "action": "delete"})
        assert answer.status in (200, 201, 202), answer
        wait_until(lambda: len(ids(url, "site.users")) == 1, 60, "the person erased")
        request = f"deletion-requests/{answer.json['id']}"
        wait_until(lambda: hookline.api("GET", request).json["state"] == "done", 60, "the request done")
        report = hookline.api("GET", f"{request}/evidence").json
        (acknowledgement,) = report["people"][0]["sources"][0]["destinations"]
        assert acknowledgement["status"] == "delivered"
        assert acknowledgement["remark"] == "4 rows of 4 tables deleted"
    assert ids(url, "site.users") == ["u2"]
    assert len(ids(url)) == len(ids(url, "site.identifies")) == len(ids(url, "site.signed_up")) == 1


def test_a_new_property_is_a_notice(service: tuple[Hookline, str]) -> None:
    """What a source changes in the warehouse stands among the notices, once, and what is new at a time together."""
    hookline, _ = service

    def said() -> list[str]:
        return [
            each["message"] for each in hookline.api("GET", "notices?kind=destination_schema_changed").json["items"]
        ]

    with hookline:
        hookline.track("Signed Up", properties={"plan": "pro"})
        wait_until(lambda: len(said()) == 1, 60, "a notice of the first tables")
        assert "The schema site was created. Tables were created: " in said()[0]
        assert "site.signed_up" in said()[0]
        hookline.track("Signed Up", properties={"plan": "pro", "seats": 3})
        wait_until(lambda: len(said()) == 2, 60, "a notice of the new column")
        assert "site.signed_up has new columns: seats (bigint)." in said()[0]
        hookline.kill9()
        hookline.start()
        hookline.track("Signed Up", properties={"trial": True})
        wait_until(lambda: len(said()) == 3, 60, "a notice after the kill, and none twice")
        assert "trial (boolean)" in said()[0]


def test_attempts_say_where_it_went(service: tuple[Hookline, str], server: PostgresServer) -> None:
    """The server and the database, in the event's status, the list of attempts and its details, without credentials;
    while the server is away also what is wrong. What came meanwhile is written once it is back."""
    hookline, url = service
    database = url.partition("?")[0].rpartition("/")[2]
    place = f"postgres://127.0.0.1:{server.port}/{database}"
    hookline.settings["deliver.retry_max"] = "1s"
    with hookline:
        id = hookline.track("Signed Up")
        part = hookline.wait_status(id, "wh", "delivered")
        assert [each["url"] for each in part["attempts"]] == [place]
        (listed,) = wait_until(
            lambda: hookline.api("GET", "destinations/wh/attempts").json["items"], what="its attempt"
        )
        assert listed["url"] == place
        detail = hookline.api("GET", f"destinations/wh/attempts/{listed['id']}").json
        assert (detail["request"], detail["note"]) == (None, "destinations of this kind make no HTTP requests")
        server.stop()
        late = hookline.track("Signed Up")
        wait_until(lambda: hookline.status_at(late, "wh").get("attempts"), 60, "a failed attempt")
        assert {each["url"] for each in hookline.status_at(late, "wh")["attempts"]} == {place}
        wait_until(lambda: "no connection to 127.0.0.1" in str(hookline.event(late)), 60, "the reason shown")
        server.start()
        hookline.wait_status(late, "wh", "delivered")
    assert ids(url) == [id, late]


def test_the_connection_is_tested_before_and_after_saving(
    service: tuple[Hookline, str], server: PostgresServer
) -> None:
    """By the API and the command; nothing is in the database afterwards."""
    hookline, url = service
    settings = warehouse(server, url)["settings"]
    with hookline:
        found = hookline.api("POST", "destinations/check-connection", {"kind": "postgres", "settings": settings}).json
        assert found["ok"], found
        wrong = {"kind": "postgres", "settings": {**settings, "database": "nowhere"}}
        said = hookline.api("POST", "destinations/check-connection", wrong).json
        assert (said["ok"], said["place"]) == (False, f"postgres://127.0.0.1:{server.port}/nowhere")
        assert said["message"].startswith(f"The database nowhere does not exist at 127.0.0.1:{server.port}; create it")
        line = [sys.executable, "-m", "hookline", "test", "wh", "--data-dir", str(hookline.data)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.strip()) == (0, f"● {found['place']}: {found['message']}")
    with psycopg.connect(url) as connection:
        assert not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'site'").fetchall()


def test_a_wrong_password_says_what_to_correct(
    server: PostgresServer, database_url: str, new_hookline: Callable[..., Hookline]
) -> None:
    """In the attempt's error, without the password."""
    rules = server.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"host all {OWNER} 127.0.0.1/32 scram-sha-256\n{before}")
    server.admin("SELECT pg_reload_conf()")
    try:
        with new_hookline(warehouse(server, database_url, password="not-this-one")) as hookline:
            id = hookline.track("Signed Up")
            said = "correct the settings user and password"
            wait_until(lambda: said in str(hookline.event(id)), 60, "the reason shown")
            assert "not-this-one" not in hookline.log
            assert "not-this-one" not in str(hookline.event(id))
    finally:
        rules.write_text(before)
        server.admin("SELECT pg_reload_conf()")
