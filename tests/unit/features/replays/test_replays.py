"""Replays through the API, with what deliver would save written by the test."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from hookline.database.connect import connect
from hookline.database.connection import replacing
from hookline.database.location import location_of
from hookline.database.open import open_deliver
from hookline.features.replays import planning
from hookline.features.replays.planning import Planning
from hookline.features.replays.service import replay_planner, replay_progress, replay_store, replay_watch
from hookline.journal.record import Record
from hookline.outcomes.reader import SavedReplay
from hookline.replays.offset_set import OffsetSet
from tests.unit.control.running import Running, destination, record, source, wait_until
from tests.unit.features.accounts.test_access import sign_in


@pytest.fixture
def control(control_on_both: Running) -> Running:
    """Each test once in files and once in PostgreSQL."""
    return control_on_both


def begin(control: Running, *records: Record) -> None:
    """A connected destination, another source, and events."""
    control.api("PUT", "/sources/site", source())
    control.api("PUT", "/sources/app", source("app"))
    control.api("PUT", "/destinations/crm", destination())
    if records:
        control.append(*records)


def saved(control: Running, id: str, state: str, delivered: int, failed: int = 0) -> None:
    """Write a replay's counts as deliver does."""
    connection = open_deliver(location_of(control.settings, "deliver"))
    now = int(time.time() * 1000)
    connection.execute(
        replacing("replays", ("lane",), ("state", "delivered", "failed", "started_at", "updated_at", "ended_at")),
        (int(id[1:]), state, delivered, failed, now, now, None if state == "running" else now),
    )
    connection.close()


def counted(control: Running, **request: object) -> dict[str, object]:
    """The answer of a dry run, waited for."""
    run = control.api("POST", "/replays", {"destination": "crm", "dryRun": True, **request}).json
    wait_until(lambda: control.api("GET", f"/replays/{run['id']}").json["state"] != "counting")
    return dict(control.api("GET", f"/replays/{run['id']}").json)


def test_the_page_says_how_long_it_takes_in_a_unit_that_reads_well(control: Running) -> None:
    """An hour or more is hours; no reader divides seconds."""
    begin(control, *(record(f"m{number}") for number in range(40)))
    headers = sign_in(control)
    for rate, left in ((0.01, "about 1.1 h left"), (1, "about 40 s left")):
        id = control.api("POST", "/replays", {"destination": "crm", "rate": rate}).json["id"]
        wait_until(lambda id=id: control.api("GET", f"/replays/{id}").json["etaSeconds"])
        assert left in control.call("GET", f"/replays/{id}", headers=headers, token=False).text


def test_a_dry_run_counts_and_shows_and_changes_nothing(control: Running) -> None:
    """How many, a sample, and how long it would take; no replay is made."""
    begin(control, *(record(f"m{number}") for number in range(7)), record("other", source="elsewhere"))
    found = counted(control, rate=2)
    assert (found["state"], found["total"], found["etaSeconds"]) == ("counted", 7, 3.5)
    assert [each["messageId"] for each in found["sample"]] == ["m0", "m1", "m2", "m3", "m4"]  # type: ignore[attr-defined]
    assert control.api("GET", "/replays").json["items"] == []


RESTRICTIONS: tuple[tuple[dict[str, object], int], ...] = (
    ({"type": "page"}, 1),
    ({"event": "Order"}, 2),
    ({"userId": "u9"}, 1),
    ({"source": "app"}, 1),
    ({"messageIds": ["m0", "m3", "never"]}, 2),
    ({"event": "Order", "userId": "u9"}, 1),
    ({"from": "2020-01-01T00:00:00Z", "to": "2030-01-01T00:00:00+01:00"}, 4),
    ({"to": "2020-01-01T00:00:00Z"}, 0),
    ({"deadLetteredSince": "2020-01-01T00:00:00Z"}, 0),
)
"""What a request says, and how many events it comes to."""


def test_what_a_request_comes_to(control: Running) -> None:
    """Every field restricts, and fields restrict together; rejected events are never sent."""
    begin(
        control,
        record("m0", "Order"),
        record("m1", "Home", type="page", name="Home"),
        record("m2", rejected="bad"),
        record("m3", "Order", userId="u9"),
        record("m4", "Other"),
        record("m5", source="app"),
    )
    for request, total in RESTRICTIONS:
        assert counted(control, **request)["total"] == total, request


def test_many_message_ids_are_found_by_reading(control: Running) -> None:
    """More than are worth single look-ups come to the same."""
    begin(control, *(record(f"m{number}") for number in range(200)))
    assert counted(control, messageIds=[f"m{number}" for number in range(0, 400, 2)])["total"] == 100


def test_from_asking_to_the_end(control: Running) -> None:
    """Queued, running with progress and estimate, done; listed newest first; then it can be forgotten."""
    begin(control, *(record(f"m{number}") for number in range(10)))
    answer = control.api("POST", "/replays", {"destination": "crm"})
    made = answer.json
    assert (answer.status, answer.headers["location"]) == (201, f"/api/v1/replays/{made['id']}")
    assert made["state"] == "queued"
    wait_until(lambda: control.api("GET", f"/replays/{made['id']}").json["total"] == 10)
    saved(control, made["id"], "running", 4, 1)
    shown = control.api("GET", f"/replays/{made['id']}").json
    assert (shown["state"], shown["done"], shown["delivered"], shown["failed"]) == ("running", 5, 4, 1)
    assert shown["etaSeconds"] is not None
    assert control.api("DELETE", f"/replays/{made['id']}").json["code"] == "replay_not_ended"
    saved(control, made["id"], "done", 9, 1)
    assert control.api("GET", f"/replays/{made['id']}").json["state"] == "done"
    assert control.api("POST", f"/replays/{made['id']}/pause").json["code"] == "replay_ended"
    assert control.api("DELETE", f"/replays/{made['id']}").status == 204
    assert control.api("GET", f"/replays/{made['id']}").status == 404


def test_pause_resume_and_cancel(control: Running) -> None:
    """Each answers how it stands; a cancelled one cannot be resumed; PATCH changes the rate alone."""
    begin(control, record("m0"))
    id = control.api("POST", "/replays", {"destination": "crm", "rate": 10}).json["id"]
    assert control.api("POST", f"/replays/{id}/pause").json["state"] == "paused"
    assert control.api("PATCH", f"/replays/{id}", {"rate": None}).json["rate"] is None
    assert control.api("POST", f"/replays/{id}/resume").json["state"] == "queued"
    assert control.api("POST", f"/replays/{id}/cancel").json["state"] == "cancelling"
    assert control.api("POST", f"/replays/{id}/resume").json["code"] == "replay_ended"


def test_a_rate_with_which_it_would_never_end_is_refused(control: Running) -> None:
    """The least is that of a destination, at the beginning and later."""
    begin(control, record("m0"))
    id = control.api("POST", "/replays", {"destination": "crm", "rate": 0.01}).json["id"]
    for method, path in (("POST", "/replays"), ("PATCH", f"/replays/{id}")):
        body = {"rate": 0.0099} if method == "PATCH" else {"destination": "crm", "rate": 0.0099}
        problem = control.api(method, path, body).json
        (error,) = problem["errors"]
        assert (problem["code"], error["pointer"]) == ("invalid_object", "/rate")
        assert "0.01" in error["detail"]
    assert [each["rate"] for each in control.api("GET", "/replays").json["items"]] == [0.01]


def test_pages(control: Running) -> None:
    """Following `after` visits each replay once, newest first."""
    begin(control, record("m0"))
    ids = [control.api("POST", "/replays", {"destination": "crm"}).json["id"] for _ in range(5)]
    first = control.api("GET", "/replays?limit=3").json
    rest = control.api("GET", f"/replays?limit=3&after={first['after']}").json
    assert [each["id"] for each in first["items"] + rest["items"]] == ids[::-1]
    assert rest["after"] is None
    assert control.api("GET", "/replays?after=x").status == 400


REFUSED: tuple[tuple[dict[str, object], int, str], ...] = (
    ({"destination": "nobody"}, 422, "unknown_destination"),
    ({"destination": "off"}, 409, "destination_disabled"),
    ({"destination": "crm", "source": "nobody"}, 422, "unknown_source"),
    ({"destination": "crm", "from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, 422, "invalid_object"),
    ({"destination": "crm", "from": "2026-01-02"}, 422, "invalid_object"),
    ({"destination": "crm", "rate": 0}, 422, "invalid_object"),
    ({"destination": "crm", "messageIds": []}, 422, "invalid_object"),
    ({"destination": "crm", "deadLetters": {}}, 422, "invalid_object"),
    ({"destination": "crm", "colour": "red"}, 422, "invalid_object"),
    ({}, 422, "invalid_object"),
)


def test_what_cannot_be_replayed(control: Running) -> None:
    """Each refusal has a code, and nothing is made."""
    begin(control, record("m0"))
    control.api("PUT", "/destinations/off", destination("off", enabled=False))
    for body, status, code in REFUSED:
        answer = control.api("POST", "/replays", body)
        assert (answer.status, answer.json["code"]) == (status, code), body
        assert control.api("GET", "/replays").json["items"] == [], body


def test_only_so_many_at_once(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit the answer says to wait; one that ended makes room."""
    monkeypatch.setattr("hookline.replays.store.OPEN_MAX", 1)
    begin(control, record("m0"))
    id = control.api("POST", "/replays", {"destination": "crm"}).json["id"]
    assert control.api("POST", "/replays", {"destination": "crm"}).json["code"] == "too_many_replays"
    saved(control, id, "done", 1)
    replay_watch(control.services).look()
    assert control.api("POST", "/replays", {"destination": "crm"}).status == 409  # a power cut could take that back
    replay_watch(control.services).look()
    assert control.api("POST", "/replays", {"destination": "crm"}).status == 201


def test_single_events_are_prepared_over_a_restart(control: Running) -> None:
    """A replay that was being prepared when control ended is prepared by the next one's first look."""
    begin(control, record("m0"), record("m1"))
    replay_planner(control.services).close()
    id = control.api("POST", "/replays", {"destination": "crm", "messageIds": ["m1"]}).json["id"]
    assert control.api("GET", f"/replays/{id}").json["state"] == "preparing"
    with Running(control.data_path, database_url=control.database_url) as after:
        replay_watch(after.services).look()
        wait_until(lambda: after.api("GET", f"/replays/{id}").json["state"] == "queued")
        assert after.api("GET", f"/replays/{id}").json["total"] == 1


def test_single_events_that_are_too_many_to_name_are_sent_all_the_same(
    control: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their stretch is read again instead, once they are counted."""
    monkeypatch.setattr(planning, "RUNS_MAX", 1)
    begin(control, *(record(f"m{number}", ("Order", "Other")[number % 2]) for number in range(6)))
    id = control.api("POST", "/replays", {"destination": "crm", "event": "Order"}).json["id"]
    wait_until(lambda: control.api("GET", f"/replays/{id}").json["total"] == 3)
    made = replay_store(control.services).get(int(id[1:]))
    assert made is not None
    assert (made.state, made.is_prepared) == ("running", True)


def test_one_that_an_earlier_version_counted_and_left_begins(control: Running) -> None:
    """Single events that were too many to name were counted, and stayed to be prepared."""
    begin(control, record("m0"))
    replay_planner(control.services).close()
    id = control.api("POST", "/replays", {"destination": "crm", "event": "Order"}).json["id"]
    connection = connect(location_of(control.settings, "control"))
    connection.execute("UPDATE replays SET total = 1")
    connection.close()
    replay_watch(control.services).look()
    assert control.api("GET", f"/replays/{id}").json["state"] == "queued"
    (begun,) = replay_store(control.services).open_ones()
    assert begun.state == "running"


def test_another_rate_does_not_take_back_that_a_replay_begins(
    control: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events may be found between the look at it and the change."""
    begin(control, record("m0"))
    replay_planner(control.services).close()
    id = control.api("POST", "/replays", {"destination": "crm", "messageIds": ["m0"]}).json["id"]
    store, progress = replay_store(control.services), replay_progress(control.services)

    def prepared_meanwhile(lane: int) -> SavedReplay | None:
        monkeypatch.undo()
        store.prepare(lane, {0: OffsetSet([0])})
        return progress.of(lane)

    monkeypatch.setattr(progress, "of", prepared_meanwhile)
    assert control.api("PATCH", f"/replays/{id}", {"rate": 5}).json["rate"] == 5
    assert control.api("GET", f"/replays/{id}").json["state"] == "queued"
    made = store.get(int(id[1:]))
    assert made is not None
    assert made.state == "running"


def test_a_count_that_fails_is_made_again(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that breaks is logged, does not spoil the others, and is tried again after a while."""
    begin(control, record("m0"))

    def broken(self: Planning) -> Iterator[None]:
        raise OSError("disk")
        yield

    monkeypatch.setattr(planning, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(Planning, "steps", broken)
    assert counted(control)["state"] == "failed"
    id = control.api("POST", "/replays", {"destination": "crm"}).json["id"]
    monkeypatch.undo()
    assert counted(control)["total"] == 1
    monkeypatch.setattr(planning, "RETRY_SECONDS", 0.0)
    replay_watch(control.services).look()
    wait_until(lambda: control.api("GET", f"/replays/{id}").json["total"] == 1)


def test_one_that_ends_before_it_is_counted(control: Running) -> None:
    """Done, it came to what was sent; cancelled, nobody says to how much."""
    begin(control, record("m0"))
    replay_planner(control.services).close()
    done, cancelled = (control.api("POST", "/replays", {"destination": "crm"}).json["id"] for _ in range(2))
    assert control.api("GET", f"/replays/{done}").json["total"] is None
    saved(control, done, "done", delivered=2, failed=1)
    saved(control, cancelled, "cancelled", delivered=2, failed=1)
    with Running(control.data_path, database_url=control.database_url) as after:
        for id, total, said in ((done, 3, False), (cancelled, None, True)):
            assert after.api("GET", f"/replays/{id}").json["total"] == total
            page = after.call("GET", f"/replays/{id}", headers=sign_in(after), token=False)
            assert ("not counted" in page.text) is said


def test_one_that_ended_before_deliver_went_back_is_done(control: Running) -> None:
    """Nothing of it is sent again, so it does not wait for ever."""
    begin(control, record("m0"))
    id = control.api("POST", "/replays", {"destination": "crm"}).json["id"]
    wait_until(lambda: control.api("GET", f"/replays/{id}").json["state"] == "queued")
    replay_store(control.services).end(int(id[1:]), int(time.time() * 1000))
    assert control.api("GET", f"/replays/{id}").json["state"] == "done"
    saved(control, id, "running", delivered=0)
    assert control.api("GET", f"/replays/{id}").json["state"] == "running"


def test_old_replays_are_forgotten(control: Running) -> None:
    """When the journal has forgotten their events, so are they."""
    begin(control, record("m0"))
    id = control.api("POST", "/replays", {"destination": "crm"}).json["id"]
    replay_store(control.services).end(int(id[1:]), 1_000)
    replay_watch(control.services).look()
    assert control.api("GET", f"/replays/{id}").status == 404


def test_the_list_is_of_one_destination_when_asked(control: Running) -> None:
    """Only its replays, newest first, and pages of them."""
    begin(control, record("m0"))
    control.api("PUT", "/destinations/erp", destination("erp"))
    made = [control.api("POST", "/replays", {"destination": each}).json["id"] for each in ("crm", "erp", "crm")]
    found = control.api("GET", "/replays?destination=crm&limit=1").json
    assert [each["id"] for each in found["items"]] == [made[2]]
    rest = control.api("GET", f"/replays?destination=crm&after={found['after']}").json
    assert [each["id"] for each in rest["items"]] == [made[0]]
