"""``/api/v1/deletion-requests`` and ``/api/v1/suppressions``."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from typing import Any

import msgspec
import pytest

from hookline.features.privacy.service import (
    delete_messages,
    deletion_requests,
    deletion_watch,
    id_digests,
    privacy_store,
)
from hookline.people.ingest.ingest import Ingest
from hookline.people.store.store import ProfileStore
from hookline.privacy import suppressions as suppression_list
from hookline.privacy.model import DeletionRequest, NextTry, Receipt
from hookline.privacy.search import SearchResult
from tests.unit.control.running import Running, destination, record, source
from tests.unit.features.accounts.test_access import sign_in
from tests.unit.people.memory_journal import MemoryJournal
from tests.unit.people.memory_journal import record as profile_record


def carry_out(control: Running) -> None:
    """One look of the watch, which the tests' control does not run by itself."""
    asyncio.run(deletion_watch(control.services).look())


def test_a_request_is_taken_carried_out_and_names_nobody(control: Running) -> None:
    """201 with its address; done after a look; the further ids of the person are suppressed too."""
    control.append(record("m1", userId="u1", anonymousId="a1"))
    made = control.api("POST", "/deletion-requests", {"userId": "u1", "action": "suppress"})
    assert (made.status, made.headers["location"]) == (201, "/api/v1/deletion-requests/dr1")
    assert (made.json["state"], made.json["people"], made.json["doneAt"]) == ("looking", 1, None)
    assert made.json["messages"] == {"total": 0, "open": 0}
    carry_out(control)
    done = control.api("GET", "/deletion-requests/dr1").json
    assert done["state"] == "done"
    assert done["doneAt"] is not None
    assert '"u1"' not in json.dumps(done)
    listed = {item["digest"] for item in control.api("GET", "/suppressions").json["items"]}
    of = id_digests(control.services)
    assert listed == {of.of("u1").hex(), of.of_anonymous("a1").hex()}
    assert control.api("POST", "/suppressions/lift", {"userIds": ["u1", "a1", "a2"]}).json == {"lifted": 2}
    assert control.api("GET", "/suppressions").json["items"] == []


BAD: list[dict[str, Any]] = [
    {"action": "suppress"},
    {"action": "suppress", "userId": "u1", "userIds": ["u2"]},
    {"action": "suppress", "userIds": []},
    {"action": "suppress", "userId": ""},
    {"action": "forget", "userId": "u1"},
    {"userId": "u1"},
    {"action": "suppress", "userIds": [f"u{n}" for n in range(1_001)]},
]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_what_is_no_request_is_refused(asked: Running, body: dict[str, Any]) -> None:
    """422, and nothing is made."""
    assert asked.api("POST", "/deletion-requests", body).status == 422
    assert asked.api("GET", "/deletion-requests").json["items"] == []


def test_requests_are_listed_newest_first_in_pages_and_by_user(control: Running) -> None:
    """A list about a user finds requests by the hash."""
    for ids in (["u1"], ["u2", "u3"], ["u4"]):
        control.api("POST", "/deletion-requests", {"userIds": ids, "action": "suppress"})
    first = control.api("GET", "/deletion-requests?limit=2").json
    assert [item["id"] for item in first["items"]] == ["dr3", "dr2"]
    rest = control.api("GET", f"/deletion-requests?limit=2&after={first['after']}").json
    assert ([item["id"] for item in rest["items"]], rest["after"]) == (["dr1"], None)
    assert [item["id"] for item in control.api("GET", "/deletion-requests?userId=u3").json["items"]] == ["dr2"]
    assert control.api("GET", "/deletion-requests/dr9").status == 404


def test_suppression_is_lifted_by_id_and_by_hash(control: Running) -> None:
    """What is not on the list is said so."""
    control.api("POST", "/deletion-requests", {"userIds": ["u1", "u2", "u3"], "action": "suppress"})
    assert control.api("POST", "/suppressions/lift", {"userIds": ["u1", "nobody"]}).json == {"lifted": 1}
    digest = id_digests(control.services).of("u2").hex()
    assert control.api("DELETE", f"/suppressions/{digest}").status == 204
    assert control.api("DELETE", f"/suppressions/{digest}").status == 404
    assert control.api("DELETE", "/suppressions/none").status == 404
    (left,) = control.api("GET", "/suppressions?limit=1").json["items"]
    assert (left["digest"], left["request"]) == (id_digests(control.services).of("u3").hex(), "dr1")


def test_a_list_that_is_lifted_from_meanwhile_goes_on(control: Running) -> None:
    """The next page begins behind the last one of the page, which need not be on the list any more."""
    control.api("POST", "/deletion-requests", {"userIds": ["u1", "u2", "u3"], "action": "suppress"})
    first = control.api("GET", "/suppressions?limit=2").json
    for item in first["items"]:
        assert control.api("DELETE", f"/suppressions/{item['digest']}").status == 204
    rest = control.api("GET", f"/suppressions?limit=2&after={first['after']}").json
    assert (len(rest["items"]), rest["after"]) == (1, None)
    for after in ("x", "1:", ":ab", "1:xy", "-1:ab"):
        assert control.api("GET", f"/suppressions?after={after}").json["code"] == "invalid_parameter", after


def test_a_full_list_holds_up_the_request_that_adds_to_it_alone(
    control: Running, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is done once there is room, and says so once; those behind it are not held up, and the watch goes on."""
    monkeypatch.setattr(suppression_list, "SUPPRESSED_MAX", 2)
    control.append(record("m1", userId="u1", anonymousId="a1"), record("m2", userId="u2", anonymousId="a2"))
    for user_id in ("u1", "u2"):
        control.api("POST", "/deletion-requests", {"userId": user_id, "action": "suppress"})
    control.api("POST", "/deletion-requests", {"userId": "u3", "action": "delete"})
    carry_out(control)
    states = {item["id"]: item["state"] for item in control.api("GET", "/deletion-requests").json["items"]}
    assert (states["dr1"], states["dr2"]) == ("looking", "looking")
    assert states["dr3"] != "looking"
    carry_out(control)
    said = "".join(capfd.readouterr())
    assert [said.count(f"request={each}") for each in ("dr1", "dr2")] == [1, 1]
    control.api("POST", "/suppressions/lift", {"userId": "u2"})
    carry_out(control)
    assert control.api("GET", "/deletion-requests/dr1").json["state"] == "done"


def test_a_fault_in_one_request_holds_up_that_one_alone(
    control: Running, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also one that nobody foresaw; the log says where it was, once."""
    watch = deletion_watch(control.services)
    look_up = watch._look_up

    async def faulty(request: DeletionRequest) -> None:
        if request.number == 1:
            raise ZeroDivisionError("by nobody")
        await look_up(request)

    for user_id in ("u1", "u2"):
        control.api("POST", "/deletion-requests", {"userId": user_id, "action": "suppress"})
    with monkeypatch.context() as patch:
        patch.setattr(watch, "_look_up", faulty)
        for _ in range(2):
            carry_out(control)
    states = {item["id"]: item["state"] for item in control.api("GET", "/deletion-requests").json["items"]}
    assert states == {"dr1": "looking", "dr2": "done"}
    said = "".join(capfd.readouterr())
    assert said.count("deletion_delayed") == 1
    assert "ZeroDivisionError: by nobody" in said
    carry_out(control)
    assert control.api("GET", "/deletion-requests/dr1").json["state"] == "done"


def test_the_audit_log_says_what_was_done_and_not_to_whom(control: Running) -> None:
    """It outlives the person's data."""
    control.api("POST", "/deletion-requests", {"userId": "u-secret", "action": "suppress"})
    control.api("POST", "/suppressions/lift", {"userId": "u-secret"})
    log = control.api("GET", "/audit-log")
    assert [entry["target"] for entry in log.json["items"]] == ["suppressions", "deletion-requests/dr1"]
    assert "u-secret" not in log.text


def test_a_source_that_only_profiles_know_of_is_affected(control: Running) -> None:
    """Retention has taken its events, and the person still has the traits that they gave: its destination is told."""
    for path, body in (("/sources", source("app")), ("/destinations", destination("crm", sources=["app"]))):
        assert control.api("POST", path, body).status == 201
    assert control.api("POST", "/sources", source("site")).status == 201
    control.append(record("m1", userId="u1"))
    store, journal = ProfileStore(control.data_path / "profiles.db"), MemoryJournal()
    old = profile_record("identify", "m0", userId="u1", traits={"plan": "pro"})
    journal.append(msgspec.structs.replace(old, source="app"), profile_record("identify", "m9", userId="u2"))
    while Ingest(journal, store).step():
        pass
    store.close()
    control.api("POST", "/deletion-requests", {"userIds": ["u1", "u2", "nobody"], "action": "delete"})
    carry_out(control)
    first, second, nobody = control.api("GET", "/deletion-requests/dr1/evidence").json["people"]
    assert {each["source"]: each["events"] for each in first["sources"]} == {"app": 0, "site": 1}
    told = {each["source"]: [to["destination"] for to in each["destinations"]] for each in first["sources"]}
    assert told == {"app": ["crm"], "site": []}
    assert (first["events"], second["sources"], nobody["sources"]) == (1, [], [])


def test_evidence_counts_the_tries_that_were_sent(control: Running) -> None:
    """The next one is planned as soon as one has failed, and sent an hour later."""
    requests, messages = deletion_requests(control.services), delete_messages(control.services)
    made = requests.create(["u1"], "delete", "me")
    requests.plan(made, SearchResult(["u1"]), [(0, "site", 1, ("crm",))])
    (planned,) = messages.of(made.number)
    tries = [_tries(control)]
    messages.sent(planned.id)
    tries.append(_tries(control))
    (sent,) = messages.of(made.number)
    messages.settle(sent, [], NextTry(("crm",), "another", 0))
    tries.append(_tries(control))
    messages.sent(sent.id)
    assert [*tries, _tries(control)] == [0, 1, 1, 2]


def _tries(control: Running) -> int:
    (person,) = control.api("GET", "/deletion-requests/dr1/evidence").json["people"]
    return int(person["sources"][0]["tries"])


def test_evidence_of_many_people_is_asked_for_in_few_queries(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a thread: a request may be about a thousand people, and PostgreSQL far away."""
    requests, messages = deletion_requests(control.services), delete_messages(control.services)
    people = [f"u{number}" for number in range(50)]
    made = requests.create(people, "delete", "me")
    requests.plan(made, SearchResult(people), [(number, "site", 1, ("crm",)) for number in range(50)])
    for message in messages.of(made.number):
        messages.settle(message, [Receipt("crm", "delivered", None, 1)], None)
    database, threads = privacy_store(control.services).database, []
    rows = database.rows

    def noting(*arguments: Any) -> list[Any]:
        threads.append(threading.current_thread().name[:7])
        return rows(*arguments)

    monkeypatch.setattr(database, "rows", noting)
    found = control.api("GET", "/deletion-requests/dr1/evidence").json["people"]
    assert [each["sources"][0]["destinations"][0]["status"] for each in found] == ["delivered"] * 50
    assert threads.count("asyncio") >= 3
    assert len(threads) < 10


def test_the_page_says_in_plain_words_what_is_kept_and_what_syncs_sent(control: Running) -> None:
    """How a fingerprint is computed is folded away; calls of syncs stand under audiences and traits."""
    requests = deletion_requests(control.services)
    made = requests.create(["u1"], "delete", "me")
    found = SearchResult(["u1"])
    found.events[0] = Counter(profiles=2)
    requests.plan(made, found, [(0, "profiles", 2, ())])
    page = control.call("GET", "/deletion-requests/dr1", headers=sign_in(control), token=False).text
    plain, _, folded = page.partition("How the fingerprint is computed")
    assert "only a fingerprint of it, made with this installation’s own key" in plain
    assert "BLAKE2b" not in plain
    assert "BLAKE2b-256 of the user id" in folded
    assert '<a class="over named" href="/audiences"><bdi>audiences and traits</bdi></a>' in page
    assert "their destinations get the message for the sources, or are disabled" in page
    assert ">profiles<" not in page


def test_what_a_destination_erased_is_in_the_evidence_and_on_the_page(control: Running) -> None:
    """Beside its acknowledgement; where nothing is said nothing stands."""
    requests, messages = deletion_requests(control.services), delete_messages(control.services)
    made = requests.create(["u1"], "delete", "me")
    found = SearchResult(["u1"])
    found.events[0] = Counter(site=5)
    requests.plan(made, found, [(0, "site", 5, ("crm", "lake"))])
    (message,) = messages.of(made.number)
    said = "5 rows erased, 1 file written anew"
    messages.settle(
        message, [Receipt("crm", "delivered", None, 1), Receipt("lake", "delivered", None, 1, remark=said)], None
    )
    (person,) = control.api("GET", "/deletion-requests/dr1/evidence").json["people"]
    told = {each["destination"]: each["remark"] for each in person["sources"][0]["destinations"]}
    assert told == {"crm": None, "lake": said}
    page = control.call("GET", "/deletion-requests/dr1", headers=sign_in(control), token=False).text
    assert page.count(said) == 1
