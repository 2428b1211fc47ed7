"""The database goes back in time: a standby that was behind takes over, or the server crashes before it wrote what it
had confirmed. Every acknowledged event reaches its receiver, and people are told."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.postgres import PostgresServer
from tests.service.harness import Hookline, Receiver, Reply, wait_until, webhook

SECONDS_MAX = 60.0
AUDIENCE = {
    "id": "buyers",
    "name": "Buyers",
    "destinations": [],
    "condition": {"event": "Bought", "count": {"gte": 1}},
}
CONFIRMED = {"synchronous_commit": "off", "wal_writer_delay": "10s"}
"""The default of the database, as some operators set it: what it confirms may be lost by a crash."""


@pytest.fixture
def standby(server: PostgresServer, database_url: str) -> Iterator[PostgresServer]:
    """A standby of the server; the test's database is in it."""
    standby = server.replica()
    try:
        yield standby
    finally:
        standby.remove()


def of_both(url: str, standby: PostgresServer) -> str:
    """The URL of the primary, whichever of the two that is."""
    first, database = url.partition("?host=")[::2], url.partition("?")[0].rpartition("/")[2]
    host, _, port = first[1].partition("&port=")
    return (
        f"postgresql://hookline@/{database}?host={host},{standby.folder}&port={port},{standby.port}"
        "&target_session_attrs=primary"
    )


@pytest.fixture
def on_both(
    database_url: str, standby: PostgresServer, new_hookline: Callable[..., Hookline]
) -> Callable[..., Hookline]:
    """Make a service that goes on with the standby once that is the primary."""

    def make(*destinations: dict[str, Any], **definitions: Any) -> Hookline:
        settings = {"database.url": of_both(database_url, standby)}
        return new_hookline(*destinations, settings=settings, definitions=definitions)

    return make


def fail_over(server: PostgresServer, standby: PostgresServer) -> None:
    """The primary is gone, and what it confirmed since the standby stood still with it."""
    server.stop(signal.SIGQUIT)
    standby.promote()


def noticed(hookline: Hookline) -> set[str]:
    """The databases of which a notice says that they went back."""
    try:
        notices = hookline.api("GET", "notices?kind=database_went_back")
    except OSError:  # control starts again
        return set()
    return {each["subject"] for each in notices.json["items"]} if notices.status == 200 else set()


def status(hookline: Hookline, message: str) -> str:
    """What is told of an event; nothing while control starts again."""
    with suppress(OSError, AssertionError):
        return str(hookline.status_at(message, "crm").get("status"))
    return ""


def members(hookline: Hookline) -> set[str]:
    """Who is in the audience now, synced at once; nobody while control starts again."""
    with suppress(OSError):
        hookline.api("POST", "audiences/buyers/sync")
        answer = hookline.api("GET", "audiences/buyers/members")
        return {each["userId"] for each in answer.json["items"]} if answer.status == 200 else set()
    return set()


def ended(hookline: Hookline, replay: str) -> tuple[str, int]:
    """How a replay ended and how many events it delivered; nothing before."""
    with suppress(OSError):
        answer = hookline.api("GET", f"replays/{replay}")
        if answer.status == 200 and answer.json["state"] == "done":
            return answer.json["state"], answer.json["delivered"]
    return "", 0


def caught_up(standby: PostgresServer, url: str, query: str) -> bool:
    """Whether a query finds something on the standby."""
    return bool(standby.run(standby.url(url.partition("?")[0].rpartition("/")[2]), query))


def test_events_are_sent_although_their_retries_are_gone(
    on_both: Callable[..., Hookline],
    server: PostgresServer,
    standby: PostgresServer,
    database_url: str,
    receiver: Receiver,
) -> None:
    """What was accepted after the standby stood still is delivered: once where that was done before, and what was to
    be tried again is tried; its status is told, people agree with the journal, and a notice names each database."""
    failing = [f"failing-{number}" for number in range(20)]
    receiver.respond = lambda request: Reply(503 if request.message_id in failing else 200)
    with on_both(webhook("crm", receiver.url()), audiences=[AUDIENCE]) as hookline:
        hookline.wait_status(hookline.track("Bought", userId="early"), "crm", "delivered")
        wait_until(lambda: members(hookline) == {"early"}, SECONDS_MAX, "the first is a member")
        wait_until(lambda: caught_up(standby, database_url, "SELECT 1 FROM hookline_deliver.outcome_blocks"))
        standby.stand_still()
        sent = [hookline.track("Bought", userId="later") for _ in range(20)]
        wait_until(lambda: members(hookline) == {"early", "later"}, SECONDS_MAX, "the next is a member")
        for message in failing:
            hookline.track(message_id=message)
        for message in failing:
            hookline.wait_status(message, "crm", "retrying")
        receiver.reply_with(200)
        tried = {message: len(receiver.of(message)) for message in failing}
        fail_over(server, standby)
        for message in failing:
            receiver.wait_for(message, tried[message] + 1, SECONDS_MAX)
        for message in [*failing, *sent]:
            wait_until(lambda message=message: status(hookline, message) == "delivered", SECONDS_MAX, message)
        assert [len(receiver.of(message)) for message in sent] == [1] * len(sent)
        wait_until(lambda: members(hookline) == {"early", "later"}, SECONDS_MAX, "people agree with the journal")
        wait_until(lambda: noticed(hookline) >= {"deliver", "profiles"}, SECONDS_MAX, "a notice tells of it")
        said = [line for line in hookline.log.splitlines() if '"event": "database_went_back"' in line]
        assert len(said) == len({json.loads(line)["database"] for line in said})


def test_a_replay_goes_on_from_where_the_database_is(
    on_both: Callable[..., Hookline],
    server: PostgresServer,
    standby: PostgresServer,
    database_url: str,
    receiver: Receiver,
) -> None:
    """A replay that had begun before the standby stood still, and was over after it, is on its way again and comes to
    its end: every event has arrived and counts once, and what the ring knows is not sent again."""
    with Receiver() as other, on_both(webhook("crm", receiver.url())) as hookline:
        sent = [hookline.track() for _ in range(20)]
        for message in sent:
            hookline.wait_status(message, "crm", "delivered")
        other.respond = lambda request: Reply(503 if request.message_id == sent[0] else 200)
        assert hookline.api("POST", "destinations", webhook("late", other.url())).status == 201
        replay = hookline.api("POST", "replays", {"destination": "late"}).json["id"]
        for message in sent:
            other.wait_for(message)
        begun = "SELECT 1 FROM hookline_deliver.replays WHERE delivered > 0"
        wait_until(lambda: caught_up(standby, database_url, begun), SECONDS_MAX, "the standby knows of the replay")
        standby.stand_still()
        other.reply_with(200)
        wait_until(lambda: ended(hookline, replay) == ("done", 20), SECONDS_MAX, "all is delivered")
        tried = len(other.requests)
        fail_over(server, standby)
        wait_until(lambda: "deliver" in noticed(hookline), SECONDS_MAX, "a notice tells of it")
        wait_until(lambda: ended(hookline, replay) == ("done", 20), SECONDS_MAX, "the replay is done again")
        assert len(other.requests) == tried


def test_a_version_that_is_gone_is_told_and_its_number_is_not_given_again(
    on_both: Callable[..., Hookline],
    server: PostgresServer,
    standby: PostgresServer,
    database_url: str,
    receiver: Receiver,
) -> None:
    """A source that the API confirmed and that is gone: collect refuses its key, people are told, and a version with a
    higher number says what is in force."""
    with on_both(webhook("crm", receiver.url())) as hookline:
        wait_until(lambda: caught_up(standby, database_url, "SELECT 1 FROM hookline_control.control_ready"))
        standby.stand_still()
        late = {"id": "late", "name": "Late", "type": "server", "writeKeys": ["wk_late"]}
        assert hookline.api("POST", "sources", late).status == 201
        event = {"userId": "u1", "event": "E"}
        wait_until(lambda: hookline.post("/v1/track", event, key="wk_late").status == 200, what="the key is in force")
        before = hookline.api("GET", "connections/versions").json["items"][0]["version"]
        fail_over(server, standby)
        wait_until(lambda: "control" in noticed(hookline), SECONDS_MAX, "a notice tells of it")
        wait_until(lambda: hookline.post("/v1/track", event, key="wk_late").status == 401, what="the key is not")
        newest = hookline.api("GET", "connections/versions").json["items"][0]
        assert newest["version"] > before
        hookline.wait_status(hookline.track(), "crm", "delivered")


def test_a_crash_takes_back_nothing_that_must_last(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """Where the database confirms by default what it has not written, retries and places outlive a crash all the
    same, and people, of whom the last moments may go, agree with the journal afterwards."""
    server = PostgresServer(CONFIRMED)
    failing = {f"failing-{number}" for number in range(40)}  # others succeed between them, or a breaker would open
    receiver.respond = lambda request: Reply(503 if request.message_id in failing else 200)
    try:
        with server.database() as url:
            hookline = new_hookline(
                webhook("crm", receiver.url()), settings={"database.url": url}, definitions={"audiences": [AUDIENCE]}
            )
            with hookline:
                for message in failing:
                    hookline.track("Bought", message_id=message, userId=message)
                    hookline.track()
                for message in failing:
                    receiver.wait_for(message)
                server.stop(signal.SIGQUIT)
                tried = {message: len(receiver.of(message)) for message in failing}
                receiver.reply_with(200)
                server.start()
                for message in failing:
                    wait_until(lambda message=message: receiver.of(message)[tried[message] :], SECONDS_MAX, message)  # type: ignore[misc]
                    wait_until(lambda message=message: status(hookline, message) == "delivered", SECONDS_MAX, message)  # type: ignore[misc]
                wait_until(lambda: members(hookline) == failing, SECONDS_MAX, "people agree with the journal")
    finally:
        server.remove()
