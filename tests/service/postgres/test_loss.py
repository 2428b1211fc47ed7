"""PostgreSQL goes while events flow, as it is stopped and as it crashes, and comes back: all goes on by itself."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.service.client import bearer, send
from tests.service.harness import Hookline, Receiver, Reply, wait_until, webhook
from tests.service.profiles.test_audience import audience


def ready(hookline: Hookline) -> tuple[int, bytes]:
    """What control says of itself."""
    answer = send(hookline.control_port, "GET", "/readyz")
    return answer.status, answer.body


def away(hookline: Hookline) -> bool:
    """Whether deliver's report says that it cannot reach the database."""
    report = json.loads((hookline.data / "run" / "metrics-deliver.json").read_bytes())
    return bool(report["hookline_deliver_database_away"])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_events_go_on_while_the_server_is_away(
    how: signal.Signals, on_postgres: Callable[..., Hookline], server: PostgresServer, receiver: Receiver
) -> None:
    """Collect takes events and deliver sends them, control says that it cannot serve; then all are accounted for. No
    role ends for it, nor does profiles."""
    service = on_postgres(webhook("crm", receiver.url()))
    service.definitions = {"audiences": [audience("buyers", {"event": "Order", "count": {"gte": 2}})]}
    with service as hookline:
        wait_until((hookline.data / "run" / "metrics-profiles.json").exists, what="profiles reports")
        roles = {name: hookline.role(name) for name in ("collect", "deliver", "control", "profiles")}
        sent = [hookline.track() for _ in range(20)]
        token = hookline.api("POST", "tokens", {"name": "other", "scope": "read"}).json["text"]
        server.stop(how)
        sent += [hookline.track() for _ in range(20)]
        for message in sent:
            receiver.wait_for(message)
        wait_until(lambda: away(hookline), what="deliver reports that the database is away")
        refused = hookline.api("GET", "destinations/crm/attempts")
        assert (refused.status, refused.json["code"]) == (503, "database_away")
        assert int(refused.headers["retry-after"]) > 0
        assert hookline.api("GET", "events", headers=bearer(token)).json["code"] == "database_away"
        page = send(hookline.control_port, "GET", "/", headers={"Accept": "text/html", "Cookie": "hookline_session=x"})
        assert page.status == 503
        assert b"PostgreSQL cannot be reached" in page.body
        wait_until(lambda: ready(hookline) == (503, b'{"status":"database_away"}'), what="control is not ready")
        assert send(hookline.control_port, "GET", "/healthz").status == 200
        assert send(hookline.collect_port, "GET", "/readyz").status == 200
        server.start()
        wait_until(lambda: ready(hookline)[0] == 200, what="control is ready again")
        wait_until(lambda: not away(hookline), what="deliver reports that it is back")
        sent += [hookline.track() for _ in range(20)]
        for message in sent:
            hookline.wait_status(message, "crm", "delivered")
        assert {message: len(receiver.of(message)) for message in sent} == dict.fromkeys(sent, 1)
        # A crashed server may lack the last commits that it was allowed to lose: who wrote them begins again then.
        if not (how is signal.SIGQUIT and "database_went_back" in hookline.log):
            assert roles == {name: hookline.role(name) for name in roles}, hookline.log[-8000:]
            wait_until(lambda: _noticed(hookline), what="a notice says so")


def test_retries_and_dead_letters_wait_for_the_server(
    on_postgres: Callable[..., Hookline], server: PostgresServer, receiver: Receiver
) -> None:
    """What failed before and while it was away is tried again when it is back, and nothing twice for it."""
    with on_postgres(webhook("crm", receiver.url())) as hookline:
        receiver.reply_with(500)
        before = [hookline.track() for _ in range(5)]
        for message in before:
            hookline.wait_status(message, "crm", "retrying")
        server.stop(signal.SIGQUIT)
        during = [hookline.track() for _ in range(5)]
        for message in during:
            receiver.wait_for(message)
        refused = "refused"
        receiver.respond = lambda request: Reply(400 if request.message_id == refused else 200)
        hookline.track(message_id=refused)
        receiver.wait_for(refused)
        server.start()
        hookline.wait_ready()
        for message in before + during:
            hookline.wait_status(message, "crm", "delivered")
        assert len(hookline.wait_status(refused, "crm", "failed")["attempts"]) == 1
        letters = hookline.api("GET", "dead-letters").json["items"]
        assert [letter["messageId"] for letter in letters] == [refused]


def test_deliver_is_killed_while_the_server_is_away(
    on_postgres: Callable[..., Hookline], server: PostgresServer, receiver: Receiver
) -> None:
    """What it sent and could not save stands in the progress ring: it is not sent again, and told as delivered."""
    with on_postgres(webhook("crm", receiver.url())) as hookline:
        sent = [hookline.track() for _ in range(20)]
        hookline.wait_status(sent[-1], "crm", "delivered")
        server.stop(signal.SIGQUIT)
        sent += [hookline.track() for _ in range(20)]
        for message in sent:
            receiver.wait_for(message)
        deliver = hookline.role("deliver")
        wait_until(lambda: _flying(hookline) == 0, what="every answer has come in")
        os.kill(deliver, signal.SIGKILL)
        wait_until(lambda: hookline.role("deliver", required=False) not in (0, deliver), what="it is started again")
        sent.append(hookline.track())
        server.start()
        hookline.wait_ready()
        for message in sent:
            hookline.wait_status(message, "crm", "delivered")
        assert {message: len(receiver.of(message)) for message in sent} == dict.fromkeys(sent, 1)


def test_roles_wait_for_a_server_that_is_away_at_the_start(
    on_postgres: Callable[..., Hookline], server: PostgresServer, receiver: Receiver
) -> None:
    """Alive and not ready, and they say what they wait for; ready by themselves when it answers."""
    server.stop()
    hookline = on_postgres(webhook("crm", receiver.url()))
    hookline.launch()
    wait_until(lambda: hookline.log.count("waiting_for_database") >= 3, what="each role says what it waits for")
    assert send(hookline.collect_port, "GET", "/healthz").status == 200
    assert send(hookline.collect_port, "GET", "/readyz").status == 503
    server.start()
    hookline.wait_ready()
    receiver.wait_for(hookline.track())
    hookline.stop()


def test_a_folder_is_not_started_with_other_databases(
    on_postgres: Callable[..., Hookline], receiver: Receiver, tmp_path: Path
) -> None:
    """It would begin anew and deliver everything again; the sentence says what to set."""
    hookline = on_postgres(webhook("crm", receiver.url()))
    with hookline:
        receiver.wait_for(hookline.track())
    del hookline.settings["database.url"]
    hookline.launch()
    assert hookline.process is not None
    assert hookline.process.wait(60) == 2
    assert "set database.url" in hookline.log


def _flying(hookline: Hookline) -> int:
    report = json.loads((hookline.data / "run" / "metrics-deliver.json").read_bytes())
    return int(report["hookline_deliver_in_flight"]) + (report["hookline_deliver_delivered_total"] < 40)


def _noticed(hookline: Hookline) -> bool:
    return bool(hookline.api("GET", "notices?kind=database_was_away").json["items"])
