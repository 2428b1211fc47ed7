"""Dead letters as deliver wrote them down."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hookline.api.services import deliver_reader
from hookline.cli.commands import execute
from hookline.database.location import location_of
from hookline.database.open import open_deliver
from hookline.features.dead_letters import api, cli
from hookline.outcomes.rows import DeadLetterRows
from hookline.replays.store import ReplayFeed
from tests.unit.control.running import TOKEN, Running, destination, record, source, wait_until
from tests.unit.features.accounts.test_access import sign_in


@pytest.fixture
def control(control_on_both: Running) -> Running:
    """Each test once in files and once in PostgreSQL."""
    return control_on_both


def fill(control: Running, count: int) -> None:
    """Write dead letters as deliver does, alternating between two destinations, at offsets from 0."""
    connection = open_deliver(location_of(control.settings, "deliver"))
    for number in range(count):
        connection.execute(
            'INSERT INTO dead_letters (lane, destination, partition, "offset", message_id, source, type, status,'
            " attempts, at, outcome, http_status, error) VALUES (1, ?, 0, ?, ?, 'site', 'track', 'failed', 1, ?,"
            " 'refused', 400, '<b>no</b>')",
            ("crm" if number % 2 else "erp", number, f"m{number}", 1_700_000_000_123 + number),
        )
    connection.close()


def test_before_deliver_ever_started_there_are_none(control: Running) -> None:
    """Without a database the list is empty."""
    assert control.api("GET", "/dead-letters").json == {"items": [], "after": None}


def test_newest_first_in_pages(control: Running) -> None:
    """Following `after` visits each once, newest first; one can be read by its id."""
    fill(control, 5)
    first = control.api("GET", "/dead-letters?limit=3").json
    rest = control.api("GET", f"/dead-letters?limit=3&after={first['after']}").json
    assert [each["messageId"] for each in first["items"] + rest["items"]] == ["m4", "m3", "m2", "m1", "m0"]
    assert rest["after"] is None
    one = control.api("GET", f"/dead-letters/{first['items'][0]['id']}").json
    assert one == {**first["items"][0], "payload": None, "history": []}
    assert (one["at"], one["outcome"], one["httpStatus"]) == ("2023-11-14T22:13:20.127Z", "refused", 400)


def test_of_one_destination(control: Running) -> None:
    """The filter leaves the other destination's out."""
    fill(control, 5)
    items = control.api("GET", "/dead-letters?destination=crm").json["items"]
    assert [each["messageId"] for each in items] == ["m3", "m1"]


def test_filters(control: Running) -> None:
    """Source, type, outcome and time restrict; what is not known matches nothing; bad times are refused."""
    fill(control, 5)

    def found(query: str) -> list[str]:
        return [each["messageId"] for each in control.api("GET", f"/dead-letters?{query}").json["items"]]

    assert found("source=site&type=track&outcome=refused&destination=erp") == ["m4", "m2", "m0"]
    assert found("outcome=timed_out") == found("event=Order") == []
    assert found("from=2023-11-14T22:13:20.126Z&to=2023-11-14T22:13:20.127Z") == ["m3"]
    assert control.api("GET", "/dead-letters?from=yesterday").json["code"] == "invalid_parameter"


def test_nobody_waits_for_a_look_through_all_of_them(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a million it takes seconds: in a thread that nothing else shares, by a connection that nothing on the event
    loop waits for."""
    monkeypatch.setattr(api, "DISCARD_SECONDS", 0.0)
    connect_two(control)
    fill(control, 5)
    looks: list[tuple[str, bool]] = []

    def noting(look: Callable[..., Any]) -> Callable[..., Any]:
        def noted(rows: DeadLetterRows, *asked: object) -> Any:
            thread = threading.current_thread().name.partition("_")[0]
            looks.append((thread, rows is deliver_reader(control.services).dead_letters))
            return look(rows, *asked)

        return noted

    for name in ("newest", "count"):
        monkeypatch.setattr(DeadLetterRows, name, noting(getattr(DeadLetterRows, name)))
    assert control.api("GET", "/dead-letters?event=Rare").status == 200
    assert control.api("GET", "/dead-letters/export?event=Rare").status == 200
    assert control.api("POST", "/dead-letters/retry", {"outcome": "refused"}).status == 200
    assert control.api("POST", "/dead-letters/discard", {"outcome": "refused"}).status == 200
    assert control.call("GET", "/destinations/crm/dead-letters", headers=sign_in(control), token=False).status == 200
    assert looks == [("lists", False)] * 6


@pytest.mark.parametrize("action", ["retry", "discard"])
def test_an_id_beyond_64_bits_is_refused(control: Running, action: str) -> None:
    """No database takes it; the answer names its place."""
    fill(control, 1)
    problem = control.api("POST", f"/dead-letters/{action}", {"ids": [1, 2**63]}).json
    assert (problem["code"], problem["errors"][0]["pointer"]) == ("invalid_object", "/ids/1")


def test_a_retry_that_would_never_end_is_refused(control: Running) -> None:
    """A rate is at least that of a destination that is resumed."""
    problem = control.api("POST", "/dead-letters/retry", {"rate": 1e-300}).json
    assert (problem["code"], problem["errors"][0]["pointer"]) == ("invalid_object", "/rate")


def test_one_with_its_event(control: Running) -> None:
    """The event as it was received stands beside the letter."""
    control.append(record("m0", "Order Completed"))
    fill(control, 1)
    assert control.api("GET", "/dead-letters/1").json["payload"]["event"] == "Order Completed"
    assert control.api("GET", "/dead-letters/7").status == 404


def test_a_retry_is_a_replay_of_just_these_events(control: Running) -> None:
    """One by its id, and many by a filter: one replay for each destination, of the letters there were then."""
    connect_two(control)
    control.append(*(record(f"m{number}") for number in range(6)))
    fill(control, 5)
    one = control.api("POST", "/dead-letters/2/retry").json
    many = control.api("POST", "/dead-letters/retry", {"outcome": "refused", "rate": 5}).json["items"]
    assert [each["destination"] for each in many] == ["crm", "erp"]
    assert many[0]["rate"] == 5
    for made, total in zip([one, *many], [1, 2, 3], strict=True):
        wait_until(lambda made=made: control.api("GET", f"/replays/{made['id']}").json["total"] is not None)
        assert control.api("GET", f"/replays/{made['id']}").json["total"] == total


def test_what_a_replay_sends_already_is_not_sent_twice(control: Running) -> None:
    """A second press of Retry, by anybody, is answered with the replay: of all, of one of them, and of a narrower
    choice. Destinations of which more has failed since begin anew."""
    connect_two(control)
    control.append(*(record(f"m{number}") for number in range(6)))
    fill(control, 4)
    (crm,) = control.api("POST", "/dead-letters/retry", {"destination": "crm", "outcome": "refused"}).json["items"]
    for path, body in (
        ("/dead-letters/retry", {"destination": "crm"}),
        ("/dead-letters/retry", {"destination": "crm", "type": "track", "from": "2020-01-01T00:00:00Z"}),
        ("/dead-letters/retry", {"ids": [2, 4]}),
        ("/dead-letters/4/retry", None),
    ):
        again = control.api("POST", path, body)
        assert (again.status, again.json["code"], crm["id"] in again.json["detail"]) == (409, "already_retried", True)
    every = control.api("POST", "/dead-letters/retry", {}).json["items"]
    assert [each["destination"] for each in every] == ["erp"], "those of crm are on their way"
    fill(control, 2)
    every = control.api("POST", "/dead-letters/retry", {}).json["items"]
    assert [each["destination"] for each in every] == ["crm", "erp"]
    for each in control.api("GET", "/replays").json["items"]:
        control.api("POST", f"/replays/{each['id']}/cancel")
    assert control.api("POST", "/dead-letters/4/retry").status == 201, "nobody sends it now"


def test_two_who_retry_all_at_once_send_once(control: Running) -> None:
    """The second waits until the replay of the first is made, and hears of it."""
    connect_two(control)
    control.append(*(record(f"m{number}") for number in range(6)))
    fill(control, 4)
    with ThreadPoolExecutor(2) as people:
        answers = list(people.map(lambda _: control.api("POST", "/dead-letters/retry", {}), range(2)))
    assert sorted(answer.status for answer in answers) == [200, 409]
    assert len(control.api("GET", "/replays").json["items"]) == 2


def test_a_retry_to_a_disabled_destination_is_refused(control: Running) -> None:
    """It says what to do first."""
    fill(control, 2)
    assert control.api("POST", "/dead-letters/1/retry").json["code"] == "unknown_destination"
    connect_two(control, enabled=False)
    assert control.api("POST", "/dead-letters/1/retry").json["code"] == "destination_disabled"


def test_a_discard_is_asked_of_deliver(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """While deliver does not run the answer says that it is yet to be done; nothing matched is nothing to do."""
    monkeypatch.setattr(api, "DISCARD_SECONDS", 0.1)
    fill(control, 5)
    assert control.api("POST", "/dead-letters/discard", {"destination": "crm"}).json == {
        "matched": 2,
        "discarded": None,
    }
    assert control.api("POST", "/dead-letters/discard", {"source": "none"}).json == {"matched": 0, "discarded": 0}
    feed = ReplayFeed(location_of(control.settings, "control"))
    (action,) = feed.actions(0)
    feed.close()
    assert (action.dead_letters.destination, action.dead_letters.last_id) == ("crm", 5)


def test_no_discard_makes_room_for_later_ones(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """While deliver does not run so many wait, and further ones are refused: nothing that was answered is forgotten.
    Once deliver has carried one out there is room again."""
    monkeypatch.setattr(api, "DISCARD_SECONDS", 0.0)
    monkeypatch.setattr("hookline.replays.store.ACTIONS_KEPT", 2)
    connect_two(control)
    fill(control, 5)
    for id in (1, 2):
        assert control.api("POST", f"/dead-letters/{id}/discard").json == {"matched": 1, "discarded": None}
    refused = control.api("POST", "/dead-letters/3/discard")
    assert (refused.status, refused.json["code"]) == (409, "too_many_actions")
    assert "start it" in refused.json["detail"]
    feed = ReplayFeed(location_of(control.settings, "control"))
    assert [action.dead_letters.ids for action in feed.actions(0)] == [(1,), (2,)]

    connection = open_deliver(location_of(control.settings, "deliver"))
    connection.execute("INSERT INTO dead_letter_actions (id, last, discarded) VALUES (1, 1, 1)")
    connection.close()
    assert control.api("POST", "/dead-letters/3/discard").status == 200
    assert [action.dead_letters.ids for action in feed.actions(1)] == [(2,), (3,)]
    assert control.api("POST", "/dead-letters/4/discard").status == 409
    feed.close()


def test_what_fails_after_the_look_is_left_alone(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page and the commands say how many they mean, and mean no more when a person has thought about it."""
    monkeypatch.setattr(api, "DISCARD_SECONDS", 0.0)
    connect_two(control)
    fill(control, 2)
    page = control.call("GET", "/destinations/crm/dead-letters", headers=sign_in(control), token=False).text
    assert page.count('name="lastId" data-type="number" value="2"') == 2, "for Retry all and Discard all"

    def answered_later(*_: object) -> None:
        fill(control, 2)

    monkeypatch.setattr(cli, "confirm", answered_later)
    server = ("--api", f"http://127.0.0.1:{control.port}", "--token", TOKEN)
    assert execute(["dead-letters", "retry", "--destination", "crm", *server]) == 0
    assert execute(["dead-letters", "discard", "--destination", "crm", *server]) == 0
    assert control.api("GET", "/replays").json["items"][0]["request"]["deadLetters"]["lastId"] == 2
    feed = ReplayFeed(location_of(control.settings, "control"))
    (action,) = feed.actions(0)
    feed.close()
    assert (action.dead_letters.destination, action.dead_letters.last_id) == ("crm", 4)
    assert control.api("POST", "/dead-letters/discard", {"lastId": 0}).json["matched"] == 0


def test_the_status_belongs_to_the_selection(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a list with a status or an answer shows is what is retried or discarded, and nothing beside it."""
    monkeypatch.setattr(api, "DISCARD_SECONDS", 0.1)
    connect_two(control)
    control.append(*(record(f"m{number}") for number in range(6)))
    fill(control, 5)
    connection = open_deliver(location_of(control.settings, "deliver"))
    connection.execute("UPDATE dead_letters SET status = 'expired' WHERE id IN (1, 2)")
    connection.execute("UPDATE dead_letters SET http_status = 422 WHERE id = 3")
    connection.close()
    listed = control.api("GET", "/dead-letters?status=expired").json["items"]
    assert [each["messageId"] for each in listed] == ["m1", "m0"]
    listed = control.api("GET", "/dead-letters?httpStatus=422").json["items"]
    assert [each["messageId"] for each in listed] == ["m2"]
    assert control.api("POST", "/dead-letters/discard", {"status": "expired"}).json["matched"] == 2
    assert control.api("POST", "/dead-letters/discard", {"httpStatus": 422}).json["matched"] == 1
    assert control.api("POST", "/dead-letters/discard", {"status": "discarded"}).json["matched"] == 0
    assert control.api("POST", "/dead-letters/retry", {"status": "lost"}).status == 422
    retried = control.api("POST", "/dead-letters/retry", {"status": "expired"}).json["items"]
    for made in retried:
        wait_until(lambda made=made: control.api("GET", f"/replays/{made['id']}").json["total"] is not None)
        assert control.api("GET", f"/replays/{made['id']}").json["total"] == 1


def connect_two(control: Running, **more: object) -> None:
    """The source and the two destinations of the letters."""
    control.api("PUT", "/sources/site", source())
    for name in ("crm", "erp"):
        control.api("PUT", f"/destinations/{name}", destination(name, **more))


def test_a_retry_of_all_begins_nothing_where_one_destination_is_disabled(control: Running) -> None:
    """The answer says which; whoever tries again sends nobody the same events twice."""
    connect_two(control)
    control.append(*(record(f"m{number}") for number in range(6)))
    fill(control, 5)
    assert control.api("POST", "/destinations/erp/disable", {"waiting": "discard"}).status == 200
    answer = control.api("POST", "/dead-letters/retry", {"outcome": "refused"})
    assert (answer.status, answer.json["code"]) == (409, "destination_disabled")
    assert control.api("GET", "/replays").json["items"] == []


def test_a_retry_of_all_begins_nothing_where_there_is_no_room_for_each(
    control: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many replays may be open; those of the first destinations do not begin alone."""
    monkeypatch.setattr("hookline.replays.store.OPEN_MAX", 1)
    connect_two(control)
    control.append(*(record(f"m{number}") for number in range(6)))
    fill(control, 5)
    answer = control.api("POST", "/dead-letters/retry", {"outcome": "refused"})
    assert (answer.status, answer.json["code"]) == (409, "too_many_replays")
    assert control.api("GET", "/replays").json["items"] == []


def test_a_retry_of_all_leaves_out_deleted_destinations(control: Running) -> None:
    """Their dead letters stay, and are refused where they are named."""
    connect_two(control)
    control.append(*(record(f"m{number}") for number in range(6)))
    fill(control, 5)
    assert control.api("DELETE", "/destinations/erp").status == 204
    answer = control.api("POST", "/dead-letters/retry", {})
    assert [each["destination"] for each in answer.json["items"]] == ["crm"]
    named = control.api("POST", "/dead-letters/retry", {"destination": "erp"})
    assert (named.status, named.json["code"]) == (422, "unknown_destination")
