"""A request to delete and suppress, while collect goes on taking events until it has heard of it."""

from __future__ import annotations

import asyncio
import html
import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Any

import pytest

from hookline.cli import admin_api
from hookline.cli.commands import execute
from hookline.database.open import open_deliver, open_profiles
from hookline.database.sqlite import DatabaseAway
from hookline.features.privacy import service as module
from hookline.features.privacy.service import (
    DeletionWatch,
    delete_messages,
    deletion_requests,
    deletion_watch,
    privacy_store,
    suppressions,
)
from hookline.journal.damaged import DAMAGED_NAME
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.local.segment import segment_name
from hookline.journal.record import Record
from hookline.journal.remote import serve_append
from hookline.privacy.model import DeletionRequest, Erased, Message
from hookline.privacy.search import SearchResult
from tests.unit.control.running import TOKEN, Running, destination, record, source
from tests.unit.features.accounts.test_access import sign_in
from tests.unit.people.memory_journal import record as profile_record
from tests.unit.people.test_sync_model import Profiles


class Collect:
    """Takes what it has not heard of yet just before it looks whom it is to suppress: at its looks, one after another.

    Who deletes looks for the first time before the look-up, and for the second time after what was found is planned.
    """

    def __init__(self, control: Running) -> None:
        self.path = control.settings.socket_path("collect.sock")
        self.journal = LocalAppender(control.data_path / "journal", retention_seconds=86_400, retention_bytes=2**30)
        self.late: dict[int, list[Record]] = {}
        """By the number of the look, counted from 1."""
        self.looks = 0

    async def refresh(self) -> None:
        """Look once."""
        self.looks += 1
        await self.journal.append(self.late.get(self.looks, []))


def carry_out(control: Running, collect: Collect, profiles: Profiles | None = None) -> DeletionRequest:
    """Take the one request as far as it goes; deliver has nothing to take away, nor have profiles, and are done at
    once."""
    requests, watch = deletion_requests(control.services), deletion_watch(control.services)
    deliver = open_deliver(control.data_path / "deliver.db")

    async def run() -> None:
        server = await serve_append(collect.path, collect.journal, collect.refresh)
        while (request := requests.get(1)) is not None and request.state not in ("waiting", "done"):
            await watch.look()
            request = requests.get(1) or request
            deliver.execute(
                "INSERT INTO erasures VALUES (?, ?, ?, 0, 0, 0, 1) ON CONFLICT DO NOTHING",
                (request.number, request.at_ms, request.round),
            )
            if profiles is not None:
                profiles.store.connection.execute(
                    "INSERT INTO erasures VALUES (?, ?, ?, 0, 0, 1) ON CONFLICT DO NOTHING",
                    (request.number, request.at_ms, request.round),
                )
        server.close()
        await collect.journal.close()

    asyncio.run(asyncio.wait_for(run(), 30))
    deliver.close()
    done = requests.get(1)
    assert done is not None
    return done


def left_of(control: Running) -> list[str]:
    """The messageIds of events that are stored and not erased, but for delete messages."""
    reader = LocalReader(control.data_path / "journal")
    records = [each for group in reader.read(0, 0) for each in group.records]
    reader.close()
    return [each.message_id for each in records if not each.erased and each.origin != "deletion"]


def evidence(control: Running) -> tuple[dict[str, int], dict[str, list[str]]]:
    """How many events each source had, and which destinations are told for it."""
    (person,) = control.api("GET", "/deletion-requests/dr1/evidence").json["people"]
    told = {each["source"]: [to["destination"] for to in each["destinations"]] for each in person["sources"]}
    return {each["source"]: each["events"] for each in person["sources"]}, told


def test_events_of_further_ids_that_arrive_meanwhile_are_erased(control: Running) -> None:
    """And of ids that these events are the first to name; others' stay, also of a user who has an id that is an
    anonymous one of the person. Destinations are told, each once."""
    for path, body in (
        *(("/sources", source(id)) for id in ("site", "app")),
        *(("/destinations", destination(id, sources=[of])) for id, of in (("crm", "site"), ("mail", "app"))),
    ):
        assert control.api("POST", path, body).status == 201
    control.append(record("m1", anonymousId="a1"), record("m2", userId="other"))
    collect = Collect(control)
    collect.late[2] = [record("late", anonymousId="a2"), record("later", userId="", anonymousId="a2", source="app")]
    collect.late[3] = [record("last", userId="", anonymousId="a2"), record("m3", userId="a2", anonymousId="a1")]
    deletion_requests(control.services).create(["u1"], "both", "me")
    request = carry_out(control, collect)
    assert left_of(control) == ["m2", "m3"]
    assert evidence(control) == ({"app": 1, "site": 3}, {"app": ["mail"], "site": ["crm"]})
    assert deletion_requests(control.services).erased(request.number).events == 4
    find = suppressions(control.services).find
    assert [find(id, is_user=False) is not None for id in ("u1", "a1", "a2")] == [True] * 3
    assert [find(id, is_user=True) is not None for id in ("u1", "a1", "a2")] == [True, False, False]


def test_what_hookline_writes_itself_is_searched_whatever_its_sources(control: Running) -> None:
    """It may have rows of somebody whose events are gone, of a source that is no longer connected; of a disabled one
    the evidence says that it was not searched. Other receivers hear nothing."""
    files = {"kind": "files", "settings": {"where": "folder"}}
    for path, body in (
        ("/sources", source("site")),
        ("/sources", source("app")),
        ("/destinations", destination("crm", sources=["app"])),
        ("/destinations", destination("kept", sources=["app"]) | files),
        ("/destinations", destination("off", enabled=False) | files),
    ):
        assert control.api("POST", path, body).status == 201
    deletion_requests(control.services).create(["u1"], "delete", "me")
    request = carry_out(control, Collect(control))
    assert request.state == "waiting"
    (person,) = control.api("GET", "/deletion-requests/dr1/evidence").json["people"]
    (affected,) = person["sources"]
    assert (affected["source"], affected["events"]) == ("profiles", 0)
    told = {each["destination"]: each["status"] for each in affected["destinations"]}
    assert told == {"kept": "open", "off": "filtered"}
    assert "disabled" in next(each["reason"] for each in affected["destinations"] if each["destination"] == "off")


def test_destinations_that_syncs_were_sent_to_before_are_notified(control: Running) -> None:
    """Of an audience that goes elsewhere since, and of one that is deleted, although the journal holds no event of the
    person any more; not those of an audience that has sent nothing about the person."""
    profiles = Profiles(control.data_path / "profiles.db")
    profiles.journal.append(profile_record("identify", "m1", userId="u1", traits={"plan": "x"}))
    profiles.sync_all()
    for id in ("ads", "mail", "push", "other"):
        assert control.api("POST", "/destinations", destination(id, sources=[])).status == 201
    for id, to in (("pros", "ads"), ("idle", "mail"), ("never", "other")):
        audience = {"id": id, "name": id, "destinations": [to], "condition": {"event": "Order"}}
        assert control.api("POST", "/audiences", audience).status == 201
    assert control.api("PATCH", "/audiences/pros", {"destinations": ["push"]}).status == 200
    for id in ("idle", "never"):
        assert control.api("DELETE", f"/audiences/{id}").status == 204
    gone = [each for each in profiles.made if each != ("audience", "idle")]
    profiles.sync.follow([each for each in profiles.ready if each.key in gone], dict.fromkeys(gone, 1))
    deletion_requests(control.services).create(["u1"], "delete", "me")
    assert carry_out(control, Collect(control), profiles).state == "waiting"
    assert evidence(control)[1] == {"website": [], "profiles": ["ads", "mail", "push"]}
    profiles.store.close()


@pytest.mark.parametrize(("user", "left"), [("", ["r2"]), ("1", ["r3"])])
def test_what_is_refused_again_and_again_holds_no_request_up(control: Running, user: str, left: list[str]) -> None:
    """It has no user and may name a short id by chance, or cannot be read, for as long as anybody sends it."""
    control.append(record("m1", userId="1"))
    collect = Collect(control)
    collect.late = {look: [record(f"r{look}", rejected="no event", userId=user, count=1)] for look in range(1, 30)}
    deletion_requests(control.services).create(["1"], "both", "me")
    carry_out(control, collect)
    assert left_of(control)[:1] == left


def test_nobody_waits_while_much_is_written_about_many_people(
    control: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message is noted on the disk by itself, thousands of them: in a thread, as are the look-up and its plan."""
    for path, body in (("/sources", source("site")), ("/destinations", destination("crm", sources=["site"]))):
        assert control.api("POST", path, body).status == 201
    people = [f"u{number}" for number in range(50)]
    control.append(*(record(f"m{id}", userId=id) for id in people))
    database, threads = privacy_store(control.services).database, Counter[str]()
    transaction = database.transaction

    def noting() -> AbstractContextManager[Callable[..., Any]]:
        threads[threading.current_thread().name] += 1
        return transaction()

    monkeypatch.setattr(database, "transaction", noting)
    assert control.api("POST", "/deletion-requests", {"userIds": people, "action": "delete"}).status == 201
    carry_out(control, Collect(control))
    here = threads.pop(threading.current_thread().name)
    assert threads.total() > 2 * len(people)
    assert here < 5


def wait_for_receiver(control: Running, count: int) -> list[Message]:
    """Make so many requests whose only delete message was sent; return the messages."""
    requests, messages = deletion_requests(control.services), delete_messages(control.services)
    for number in range(count):
        made = requests.create([f"u{number}"], "delete", "me")
        requests.plan(made, SearchResult([f"u{number}"]), [(0, "site", 1, ("crm",))])
        requests.wait(made, Erased())
        messages.sent(messages.of(made.number)[0].id)
    return [message for number in range(count) for message in messages.of(number + 1)]


def test_requests_that_wait_for_a_receiver_cost_one_look_together(
    control: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a thread: there may be thousands, for thirty days, and PostgreSQL far away. What is due is not left out."""
    requests, messages = deletion_requests(control.services), delete_messages(control.services)
    for message in wait_for_receiver(control, 5):
        messages.look_again(message.id, (), control.services.store.steady_ms() + 600_000)
    database, threads = privacy_store(control.services).database, Counter[str]()
    rows = database.rows

    def noting(query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        threads[threading.current_thread().name[:7]] += 1
        return rows(query, values)

    monkeypatch.setattr(database, "rows", noting)
    assert asyncio.run(deletion_watch(control.services).look())
    assert threads == {"asyncio": 3}
    messages.settle(message, (), None)
    asyncio.run(deletion_watch(control.services).look())
    states = [each.state for number in range(5) if (each := requests.get(number + 1)) is not None]
    assert states == [*["waiting"] * 4, "done"]


def test_requests_that_wait_for_a_receiver_hold_nobody_up(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands may wait, and each costs milliseconds: others come first, and of these the next ones go on later."""
    wait_for_receiver(control, 3)
    deletion_requests(control.services).create(["new"], "delete", "me")
    taken_on: list[int] = []

    async def advance(watch: DeletionWatch, request: DeletionRequest) -> None:
        taken_on.append(request.number)

    monkeypatch.setattr(DeletionWatch, "_advance", advance)
    monkeypatch.setattr(module, "FOLLOWED_SECONDS", 0.0)
    watch = deletion_watch(control.services)
    for _ in range(4):
        asyncio.run(watch.look())
    assert taken_on == [4, 1, 4, 2, 4, 3, 4, 1]


def test_profiles_that_cannot_be_read_hold_up_new_requests_alone(control: Running) -> None:
    """One that waits needs nothing of them; the other one says what it waits for."""
    (message,) = wait_for_receiver(control, 1)
    delete_messages(control.services).settle(message, (), None)
    requests, watch = deletion_requests(control.services), deletion_watch(control.services)
    requests.create(["new"], "delete", "me")
    with closing(open_profiles(control.data_path / "profiles.db")) as profiles:
        profiles.execute("UPDATE alembic_version SET version_num = 'profiles_0999'")
        profiles.execute("ALTER TABLE identities RENAME TO identities_of_another")
    with pytest.raises(DatabaseAway):
        asyncio.run(watch.look())
    states = [each.state for number in (1, 2) if (each := requests.get(number)) is not None]
    assert states == ["done", "looking"]
    assert "profiles" in (watch.delay(2) or "")


def page(control: Running) -> str:
    """Return the page of the one request."""
    return control.call("GET", "/deletion-requests/dr1", headers=sign_in(control), token=False).text


def said(control: Running, capsys: pytest.CaptureFixture[str], command: str) -> str:
    """Return what ``hookline deletion-requests`` prints of the one request."""
    execute(["deletion-requests", command, "dr1", "--api", f"http://127.0.0.1:{control.port}", "--token", TOKEN])
    return capsys.readouterr().out


def test_evidence_says_what_could_not_be_read(control: Running, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody can tell whose a damaged event is, and its bytes are still there; what others read is not touched."""
    control.append(record("m1"))
    control.append(record("m2"), record("m3", userId="other"))
    segment = control.data_path / "journal" / "0" / segment_name(0)
    with segment.open("r+b", buffering=0) as file:
        os.pwrite(file.fileno(), b"??", segment.read_bytes().find(b"m1"))
    deletion_requests(control.services).create(["u1"], "delete", "me")
    carry_out(control, Collect(control))
    report = control.api("GET", "/deletion-requests/dr1/evidence").json
    assert report["erased"]["events"] == 1
    (unreadable,) = report["unreadable"]
    assert (unreadable["partition"], unreadable["first"], unreadable["events"]) == (0, 0, 1)
    shown = page(control)
    assert "1 stored event is damaged" in shown
    assert "offset 0 of partition 0" in shown
    assert "▲ offset 0 of partition 0" in said(control, capsys, "evidence")
    deletion_requests(control.services).create(["u1"], "suppress", "me")
    assert control.api("GET", "/deletion-requests/dr2/evidence").json["unreadable"] == []


def test_evidence_says_that_the_damage_is_not_known(control: Running, capsys: pytest.CaptureFixture[str]) -> None:
    """A list of it that cannot be read is no reason to have no report."""
    control.append(record("m1"))
    deletion_requests(control.services).create(["u1"], "delete", "me")
    carry_out(control, Collect(control))
    (control.data_path / "journal" / DAMAGED_NAME).mkdir()
    report = control.api("GET", "/deletion-requests/dr1/evidence").json
    assert (report["erased"]["events"], report["unreadable"]) == (1, [])
    assert "journal/damaged of the data folder cannot be read (Is a directory)" in report["damageUnknown"]
    for shown in (page(control), said(control, capsys, "evidence")):
        assert "journal/damaged of the data folder cannot be read" in shown


def test_a_request_that_is_held_up_says_why(control: Running, capsys: pytest.CaptureFixture[str]) -> None:
    """Until a try takes it on; what was found is not erased yet, and its page does not say so."""
    control.append(record("m1"))
    deletion_requests(control.services).create(["u1"], "delete", "me")
    asyncio.run(deletion_watch(control.services).look())  # collect, which erases, does not run
    delay = control.api("GET", "/deletion-requests/dr1").json["delay"]
    assert "collect" in delay
    held_up = page(control)
    assert delay in html.unescape(held_up)
    assert "1 event found" in held_up
    assert "event erased" not in held_up
    assert delay in said(control, capsys, "show")
    carry_out(control, Collect(control))
    assert control.api("GET", "/deletion-requests/dr1").json["delay"] is None
    assert "Held up by" not in page(control)


def test_dry_runs_that_found_events_of_the_person_go(control: Running) -> None:
    """They show whose events they found, for as long as control runs; one that found only those of others stays."""
    control.api("PUT", "/sources/site", source("site"))
    control.api("PUT", "/destinations/crm", destination("crm"))
    control.append(record("m1"), record("m2", userId="other"))
    asked = ({}, {"userId": "u1"}, {"messageIds": ["m1"]}, {"userId": "other"}, {"event": "Order of u1"})
    made = [control.api("POST", "/replays", {"destination": "crm", "dryRun": True, **each}).json for each in asked]
    assert [each["total"] for each in made] == [2, 1, 1, 1, 0]
    deletion_requests(control.services).create(["u1"], "delete", "me")
    carry_out(control, Collect(control))
    assert [control.api("GET", f"/replays/{each['id']}").status for each in made] == [404, 404, 404, 200, 404]


def test_what_was_requested_is_said_when_the_rest_is_refused(
    control: Running, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long list is several requests, and those that were made are carried out."""
    monkeypatch.setattr("hookline.features.privacy.cli.PEOPLE_PER_REQUEST", 2)
    monkeypatch.setattr("hookline.privacy.requests.OPEN_MAX", 1)
    server = ["--api", f"http://127.0.0.1:{control.port}", "--token", TOKEN, "--json"]
    people = [f"u{number}" for number in range(5)]
    assert execute(["delete-user", *people, "--action", "delete", "--yes", *server]) == 1
    out, err = capsys.readouterr()
    assert [(each["id"], each["people"]) for each in json.loads(out)] == [("dr1", 2)]
    assert "1 deletion requests are under way" in err
    assert "The last 3 of 5 people were not requested: u2 and on" in err


def test_a_request_whose_answer_is_lost_may_have_been_made(
    control: Running, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server took it; nobody is said to have been left out who was not."""
    monkeypatch.setattr("hookline.features.privacy.cli.PEOPLE_PER_REQUEST", 2)
    asked = admin_api.exchange

    def exchange(url: str, *given: Any) -> tuple[int, str, bytes]:
        answer = asked(url, *given)
        if len(deletion_requests(control.services).newest(9)) > 1:
            raise admin_api.NoAnswer("no answer from Hookline (timed out).")
        return answer

    monkeypatch.setattr(admin_api, "exchange", exchange)
    server = ["--api", f"http://127.0.0.1:{control.port}", "--token", TOKEN]
    people = [f"u{number}" for number in range(5)]
    assert execute(["delete-user", *people, "--action", "delete", "--yes", *server]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("dr1  delete  2 people")
    assert "The last 3 of 5 people may not have been requested (see hookline deletion-requests list): u2 and on" in err
