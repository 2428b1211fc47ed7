"""``hookline migrate-to``: the whole service moves from a data folder to Kafka and PostgreSQL while a client sends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.cluster import Cluster
from tests.postgres import PostgresServer
from tests.service.harness import Hookline, Receiver, Reply, new_id, wait_until, webhook
from tests.service.profiles.test_audience import audience, traits_sent

PARTITIONS = 2
POINTS = ("transfer.journal_copied", "transfer.databases_copied", "transfer.rest_copied", "transfer.marked")
TWICE = {"event": "Order", "count": {"gte": 2}}
SPEND = {
    "id": "spend",
    "name": "spend",
    "event": "Order",
    "aggregate": "sum",
    "property": "properties.total",
    "destinations": ["crm"],
    "syncEvery": 1,
}
KILLED = -signal.SIGKILL
RUN_SECONDS = 480
PAUSE_SECONDS = 0.01
"""Between two events: a move needs a client that sends, not one that takes the machine."""


class Client:
    """Sends one event after another until it is told to end; one that is not acknowledged is sent again."""

    def __init__(self, port_of: Hookline) -> None:
        self.acknowledged: list[dict[str, Any]] = []
        self._hookline = port_of
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Client:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for_more(self, count: int = 50) -> None:
        """Wait until so many more were acknowledged."""
        enough = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= enough, 60, "events are acknowledged")

    def _run(self) -> None:
        while not self._stop.is_set():
            body = {"userId": f"user-{len(self.acknowledged) % 20}", "event": "Test", "messageId": new_id()}
            while not self._posted(body) and not self._stop.wait(PAUSE_SECONDS):
                pass
            self._stop.wait(PAUSE_SECONDS)

    def _posted(self, body: dict[str, Any]) -> bool:
        try:
            if self._hookline.post("/v1/track", body).status != 200:
                return False
        except OSError:
            return False
        self.acknowledged.append(body)
        return True


def moved_to(
    old: Hookline, folder: Path, cluster: Cluster, topic: str, server: PostgresServer, database: str = "postgres"
) -> Hookline:
    """The installation that ``old`` is to become, at the same addresses."""
    on = {
        "journal.url": cluster.url(topic),
        "journal.partitions": PARTITIONS,
        "database.url": server.url(database),
        "collect.listen": old.settings["collect.listen"],
        "control.listen": old.settings["control.listen"],
    }
    new = Hookline(folder, old.destinations, settings=on, definitions=old.definitions)
    new.collect_port, new.control_port = old.collect_port, old.control_port
    new.write_files()
    return new


def letters_of(hookline: Hookline, destination: str) -> set[str]:
    """The messageIds of all dead letters of a destination."""
    found: set[str] = set()
    more: str | None = ""
    while more is not None:
        page = hookline.api("GET", f"dead-letters?destination={destination}&limit=100{more}").json
        found |= {letter["messageId"] for letter in page["items"]}
        more = f"&after={page['after']}" if page["after"] is not None else None
    return found


def migrate(old: Hookline, new: Hookline, *options: str, point: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command of docs/how-to/move-to-kafka-and-postgresql.md, killed at the crash point if one is named."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")}
    files = (str(new.folder / "hookline.yaml"), "--config", str(old.folder / "hookline.yaml"))
    return subprocess.run(
        [sys.executable, "-m", "hookline.cli.main", "migrate-to", *files, *options],
        cwd=old.folder,
        env={**inherited, "HOOKLINE_CRASH_POINT": point},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


@pytest.mark.slow
def test_a_service_moves_while_a_client_sends_and_the_move_is_killed_everywhere(
    tmp_path: Path, cluster: Cluster, topic: str, server: PostgresServer
) -> None:
    """Every acknowledged event reaches the live receiver once; retries, dead letters, duplicates, statuses, erasures,
    connections and accounts are as they were; people go on being members, and their traits being counted."""
    with Receiver() as live, Receiver() as dead, Receiver() as refusing:
        dead.respond = lambda _: Reply(status=503)
        refusing.respond = lambda _: Reply(status=400)
        destinations = [
            webhook("crm", live.url()),
            webhook("dead", dead.url()),
            webhook("refusing", refusing.url(), filters=[{"if": 'event != "Wrong"', "do": "drop"}]),
        ]
        slowly = {"journal.partitions": PARTITIONS, "deliver.retry_first": "2s"}
        definitions = {"audiences": [audience("buyers", TWICE)], "computedTraits": [SPEND]}
        old = Hookline(tmp_path / "old", destinations, settings=slowly, definitions=definitions).start()
        new = moved_to(old, tmp_path / "new", cluster, topic, server)
        erased = old.track(userId="gone")
        first = old.track("Wrong", userId="user-1")
        old.wait_status(first, "refusing", "failed")
        old.wait_status(first, "dead", "retrying")
        made = old.api("POST", "deletion-requests", {"userId": "gone", "action": "delete"}).json["id"]
        asked = f"deletion-requests/{made}"
        wait_until(lambda: old.api("GET", asked).json["state"] == "waiting", what="erased, receivers are told")
        assert old.api("POST", "tokens", {"name": "reports", "scope": "read"}).status == 201
        for user, total in (("member", 5), ("member", 7), ("half", 3)):
            old.track("Order", userId=user, properties={"total": total})
        wait_until(lambda: {"buyers": True} in traits_sent(live).get("member", []), 60, "the first one is a member")
        wait_until(lambda: {"spend": 12} in traits_sent(live)["member"], 60, "and its trait is sent")
        wait_until(lambda: {"spend": 3} in traits_sent(live).get("half", []), 60, "and that of the other one")
        before = {name: old.api("GET", name).json["items"] for name in ("sources", "destinations", "tokens")}

        with Client(old) as client:
            client.wait_for_more()
            for point in POINTS:
                killed = migrate(old, new, point=point)
                assert killed.returncode == KILLED, (point, killed.stdout, killed.stderr)
                if point == "transfer.rest_copied":  # the service is stopped and has not moved: it goes on as it was
                    old.start()
                if point != "transfer.marked":
                    client.wait_for_more()
            old.launch()
            assert old.process is not None
            assert old.process.wait(60) == 2
            assert f"was moved to {new.data}" in old.log
            ended = migrate(old, new)
            assert ended.returncode == 0, ended.stderr
            new.start()
            client.wait_for_more()
        sent = [body["messageId"] for body in client.acknowledged]
        wait_until(lambda: {first, *sent} <= live.message_ids, 60, "everything is delivered")
        assert len(live.requests) == len({request.message_id for request in live.requests})

        assert {name: new.api("GET", name).json["items"] for name in before} == before
        assert new.event(erased) is None
        status = new.status_at(first, "dead")
        assert status["status"] == "retrying"
        assert [attempt["number"] for attempt in status["attempts"]] == list(range(1, len(status["attempts"]) + 1))
        assert first in letters_of(new, "refusing")
        for user, total in (("member", 1), ("half", 4)):
            new.track("Order", userId=user, properties={"total": total})
        wait_until(lambda: {"buyers": True} in traits_sent(live)["half"], 60, "who was half a member is one now")
        wait_until(lambda: {"spend": 13} in traits_sent(live)["member"], 60, "traits go on from where they were")
        wait_until(lambda: {"spend": 7} in traits_sent(live)["half"], 60, "for everybody")
        assert [each for each in traits_sent(live)["member"] if "buyers" in each] == [{"buyers": True}]
        members = new.api("GET", "audiences/buyers/members").json["items"]
        assert {each["userId"] for each in members} == {"member", "half"}
        duplicates = new.metric("hookline_deliver_duplicates_total")
        for body in client.acknowledged[:20]:
            assert new.post("/v1/track", body).status == 200
        wait_until(
            lambda: new.metric("hookline_deliver_duplicates_total") == duplicates + 20, what="repeats are recognised"
        )
        refused = len(dead.requests)
        dead.respond = lambda _: Reply()
        assert new.api("POST", "destinations/dead/try").status == 202  # after so many tries the next is minutes away
        new.wait_status(first, "dead", "delivered", 60)
        wait_until(
            lambda: any(request.json["type"] == "delete" for request in dead.requests[refused:]),
            60,
            "the delete message that was waiting arrives",
        )
        assert new.api("GET", asked).json["state"] == "waiting"
        new.stop()
    assert "Traceback (most recent call last)" not in old.log + new.log


@pytest.mark.slow
def test_the_way_back(tmp_path: Path, cluster: Cluster, topic: str, server: PostgresServer) -> None:
    """One command while nothing was stored since; afterwards only with the word that those events stay behind, also in
    partitions that the move did not know."""
    with Receiver() as live:
        old = Hookline(
            tmp_path / "old", [webhook("crm", live.url())], settings={"journal.partitions": PARTITIONS}
        ).start()
        new = moved_to(old, tmp_path / "new", cluster, topic, server)
        first = old.track()
        live.wait_for(first)
        prepared = migrate(old, new, "--prepare")
        assert (prepared.returncode, "prepared: run it again" in prepared.stdout) == (0, True), prepared.stderr
        live.wait_for(old.track())  # by the old service, which went on meanwhile
        moved = migrate(old, new)
        assert moved.returncode == 0, moved.stderr
        assert "the service was stopped" in moved.stdout
        assert "warning: journal.partitions is 2" in moved.stdout
        back = migrate(old, new, "--back")
        assert back.returncode == 0, back.stderr
        new.launch()
        assert new.process is not None
        assert new.process.wait(60) == 2
        assert "moved back" in new.log
        old.start()
        second = old.track()
        live.wait_for(second)

        server.admin("CREATE DATABASE second")
        again = moved_to(old, tmp_path / "again", cluster, f"{topic}-again", server, "second")
        report = json.loads(migrate(old, again, "--json").stdout)
        assert (report["state"], report["to"], report["partitions"]) == ("moved", str(again.data), PARTITIONS)
        assert report["stoppedSeconds"] > 0
        assert "12 are advised" in report["warnings"][0]
        again.settings["journal.partitions"] = 2 * PARTITIONS
        again.start()
        since = [again.track(userId=f"user-{number}") for number in range(12)]
        for message_id in since:
            live.wait_for(message_id)
        again.stop()
        refused = migrate(old, again, "--back")
        assert refused.returncode == 1
        assert "12 events were stored since the move" in refused.stderr
        assert migrate(old, again, "--back", "--leave-events").returncode == 0
        old.start()
        old.wait_status(second, "crm", "delivered")
        assert old.event(since[0]) is None
        old.stop()
        assert len(live.requests) == 3 + len(since)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Hookline:
    """A service that was stopped, and its data folder."""
    with Hookline(tmp_path_factory.mktemp("ended"), settings={"journal.partitions": PARTITIONS}) as ran:
        pass
    return ran


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"journal.url": "local"}, "set journal.url"),
        ({"database.url": "local"}, "set database.url"),
        ({"journal.partitions": 1}, "set journal.partitions of the new settings file to 2 or more"),
    ],
)
def test_settings_that_cannot_be_moved_to_are_told(
    tmp_path: Path, ended: Hookline, change: dict[str, Any], says: str
) -> None:
    """With what to set instead, before anything is touched."""
    on = {
        "journal.url": "kafka://127.0.0.1:1/t",
        "database.url": "postgresql://x@127.0.0.1:1/x",
        "journal.partitions": 2,
    }
    new = Hookline(tmp_path / "new", settings={**on, **change})
    new.write_files()
    refused = migrate(ended, new)
    assert refused.returncode == 1
    assert says in refused.stderr
    assert not new.data.exists()
