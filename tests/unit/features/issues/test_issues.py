"""Issues over the API, gathered from what deliver wrote down, in files and in PostgreSQL."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from hookline.database.connection import Connection
from hookline.database.location import location_of
from hookline.database.open import open_deliver
from hookline.features.fleet.metrics import OwnMetrics
from hookline.features.issues import store as store_module
from hookline.features.issues import watch as watch_module
from hookline.features.issues.pages import HOURS_SHOWN_MIN, IssuePage, issue_page
from hookline.features.issues.service import detail_of, issue_store
from hookline.features.issues.store import NAMED_MAX, IssueStore
from hookline.features.issues.watch import QUIET_SECONDS, IssueWatch
from hookline.features.replays import api as replays_api
from hookline.insights.series import SeriesLog, SeriesStore
from hookline.outcomes.cause import cause_of
from hookline.outcomes.reader import DeliverReader
from hookline.telemetry.time_buckets import DestinationCounts, TimeBucket
from tests.unit.control.running import Running, destination, record, source, wait_until

MINUTE_MS = 60_000


@pytest.fixture
def control(control_on_both: Running) -> Running:
    """Each test once in files and once in PostgreSQL."""
    return control_on_both


class World:
    """What deliver would have written, on a clock that the test sets, and the watch over it."""

    def __init__(self, control: Running) -> None:
        self.control = control
        self.now_ms = control.services.store.now_ms()
        self._skew_ms = 0
        self.deliver: Connection = open_deliver(location_of(control.settings, "deliver"))
        self._series = SeriesStore(location_of(control.settings, "insights"), 7)
        store = control.services.store
        real = store.steady_ms
        store.steady_ms = lambda: real() + self._skew_ms  # type: ignore[method-assign]
        store.now_ms = lambda: self.now_ms  # type: ignore[method-assign]
        self.watch = self.begin()

    def begin(self, **more: object) -> IssueWatch:
        """Make a watch as a control that starts does."""
        settings = self.control.settings
        self.watch = IssueWatch(
            IssueStore(location_of(settings, "control")),
            self.control.services.store,
            DeliverReader(location_of(settings, "deliver")),
            SeriesLog(location_of(settings, "insights")),
            OwnMetrics(),
            600.0,
            **more,  # type: ignore[arg-type]
        )
        return self.watch

    def pass_time(self, minutes: float) -> None:
        """Time goes on, for who judges and for what fails from now on."""
        self.now_ms += int(minutes * MINUTE_MS)
        self._skew_ms += int(minutes * MINUTE_MS)

    def fail(
        self,
        offset: int,
        error: str = '{"message": "Order 17 has no total"}',
        status: int | None = 422,
        outcome: str = "refused",
        number: int = 1,
        to: str = "crm",
        dead: bool | None = None,
    ) -> None:
        """Write one failed attempt and, for a refusal, its dead letter."""
        cause = cause_of(outcome, status, error)
        self.deliver.execute(
            'INSERT INTO attempts (partition, "offset", lane, destination, number, url, at, outcome, http_status,'
            " error, milliseconds, cause) VALUES (0, ?, 1, ?, ?, 'https://crm.example.com/hook', ?, ?, ?, ?, 5, ?)",
            (offset, to, number, self.now_ms, outcome, status, error, cause),
        )
        if outcome == "refused" if dead is None else dead:
            self.deliver.execute(
                'INSERT INTO dead_letters (lane, destination, partition, "offset", message_id, source, type, status,'
                " attempts, at, outcome, http_status, error, cause)"
                " VALUES (1, ?, 0, ?, ?, 'site', 'track', 'failed', ?, ?, ?, ?, ?, ?)",
                (to, offset, f"m{offset}", number, self.now_ms, outcome, status, error, cause),
            )

    def succeed(self, to: str = "crm") -> None:
        """Requests of a destination succeed in a minute that is behind the last failure."""
        at = (self.now_ms // MINUTE_MS * 60) // 10 * 10
        self._series.add_time_buckets([TimeBucket(at=at, destinations={to: DestinationCounts(delivered=5)})])

    def items(self, query: str = "") -> list[dict[str, object]]:
        """Return the list as the API has it, once everything was looked at."""
        self.watch.run_once()
        found: list[dict[str, object]] = self.control.api("GET", f"/issues{query}").json["items"]
        return found

    def one(self) -> dict[str, object]:
        """Return the only issue."""
        (issue,) = self.items()
        return issue

    def page(self, id: object) -> IssuePage:
        """Return the page of an issue."""
        services = self.control.services
        issue = issue_store(services).get(str(id))
        assert issue is not None
        return issue_page(services, issue, asyncio.run(detail_of(services, issue)))

    def close(self) -> None:
        self.watch.close()
        self._series.close()
        self.deliver.close()


@pytest.fixture
def world(control: Running) -> Iterator[World]:
    """A source, a destination, and deliver's database."""
    control.api("PUT", "/sources/site", source())
    control.api("PUT", "/destinations/crm", destination("crm"))
    made = World(control)
    yield made
    made.close()


def test_events_that_fail_alike_are_one_issue(world: World) -> None:
    """Whatever is repeated of each event; another status, text or destination is another issue."""
    for n in range(300):
        world.fail(n, json.dumps({"message": f"Order {n} of u{n}@x.example has no total", "request": f"r{n}"}))
    issue = world.one()
    assert (issue["attempts"], issue["events"], issue["deadLetters"], issue["state"]) == (300, 300, 300, "open")
    assert issue["title"] == "Refusing (422): Order … of … has no total"
    world.fail(300, "x", 503, "server_error")
    world.fail(301, "Order 1 of a@b.c has no total", 400)
    world.fail(302, "Order 1 of a@b.c has no total", to="erp")
    assert sorted(str(each["title"]) for each in world.items("?destination=crm&state=open")) == [
        "Erroring (503): x",
        "Refusing (400): Order … of … has no total",
        "Refusing (422): Order … of … has no total",
    ]


def test_an_event_counts_once_however_often_it_fails(world: World) -> None:
    """Attempts are all counted; an event that first failed otherwise is an event of both causes."""
    for number in range(1, 5):
        world.fail(7, "Connection refused", None, "connection_failed", number)
    world.watch.run_once()
    world.pass_time(1)
    world.fail(7, "no answer within 5 s", None, "timed_out", 5)
    world.fail(7, "Connection refused", None, "connection_failed", 6)
    found = {each["title"]: (each["attempts"], each["events"]) for each in world.items()}
    assert found == {"Unreachable: Connection refused": (5, 1), "Timing out: no answer within … s": (1, 1)}


def test_nothing_counts_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is saved with what it came to: by another control, after a commit whose answer was lost, and by
    steps of any size."""
    monkeypatch.setattr(watch_module, "ROWS_PER_STEP", 3)
    for n in range(10):
        world.fail(n)
    assert world.watch.read()
    world.watch.close()
    world.begin()
    store = issue_store(world.control.services)
    before, after = store.reader(), (9, 0)
    assert before is not None
    counts = DeliverReader(location_of(world.control.settings, "deliver")).attempts.cause_counts(before[0], 9)
    store.add(counts, lambda _: "x", before, after, 0)
    assert store.add(counts, lambda _: "x", before, after, 0) == ()
    assert world.one()["attempts"] == 10


def test_a_cause_that_is_gone_resolves_itself_and_one_that_returns_opens_again(world: World) -> None:
    """Not by time alone, nor by success alone: the destination delivered, and nothing failed so for a while."""
    world.fail(1, "Bad gateway", 502, "server_error")
    assert world.one()["state"] == "open"
    world.pass_time(QUIET_SECONDS / 60 + 1)
    assert world.one()["state"] == "open", "nothing succeeded since"
    world.succeed()
    issue = world.one()
    assert (issue["state"], issue["resolvedBecause"], issue["timesOpened"]) == ("resolved", "delivered", 1)
    assert world.control.api("GET", "/issues?state=open").json["items"] == []
    world.pass_time(5)
    world.fail(2, "Bad gateway", 502, "server_error")
    again = world.one()
    assert (again["id"], again["state"], again["timesOpened"], again["resolvedAt"]) == (issue["id"], "open", 2, None)
    assert (again["attempts"], again["attemptsSince"]) == (2, 1)
    assert again["firstSeenAt"] == issue["firstSeenAt"] != again["openedAt"]
    world.pass_time(1)
    world.succeed()
    assert world.one()["state"] == "open", "it failed a moment ago"


def test_what_is_refused_now_and_then_is_not_over_at_once(world: World) -> None:
    """Events that fail every two hours are no sign of being well in between: three such gaps are waited for."""
    for n in range(4):
        world.pass_time(120)
        world.fail(n)
        world.watch.run_once()
    world.pass_time(300)
    world.succeed()
    assert world.one()["state"] == "open"
    world.pass_time(61)
    world.succeed()
    assert world.one()["state"] == "resolved"


def test_an_ignored_one_stays_so_and_counts_on(world: World) -> None:
    """It says who ignored it and how many came since; it is opened again by a person only."""
    world.fail(1)
    id = world.one()["id"]
    ignored = world.control.api("POST", f"/issues/{id}/ignore").json
    assert (ignored["state"], bool(ignored["ignoredBy"])) == ("ignored", True)
    world.pass_time(10)
    world.fail(2)
    world.fail(3)
    world.pass_time(QUIET_SECONDS)
    world.succeed()
    issue = world.one()
    assert (issue["state"], issue["attemptsSince"], issue["attempts"]) == ("ignored", 2, 3)
    opened = world.control.api("POST", f"/issues/{id}/ignore", {"ignored": False}).json
    assert (opened["state"], opened["ignoredBy"]) == ("open", None)
    assert world.control.api("GET", "/issues?state=ignored").json["items"] == []


def test_a_note_is_kept_with_its_author(world: World) -> None:
    """An empty one takes it away; one that is too long is refused; all is on the record."""
    world.fail(1)
    id = world.one()["id"]
    noted = world.control.api("POST", f"/issues/{id}/note", {"note": " Ann asks the CRM team "}).json
    assert (noted["note"], bool(noted["noteBy"]), bool(noted["noteAt"])) == ("Ann asks the CRM team", True, True)
    assert world.control.api("POST", f"/issues/{id}/note", {"note": "x" * 1_001}).status == 422
    assert world.control.api("POST", f"/issues/{id}/note", {"note": ""}).json["noteBy"] is None
    assert world.control.api("GET", f"/audit-log?target=issues/{id}").json["items"]


def test_retry_sends_the_dead_letters_of_this_cause_only(world: World) -> None:
    """A dry run counts; the retry is one replay, and a second one is refused while it runs."""
    world.control.append(*(record(f"m{n}") for n in range(6)))
    for n in range(4):
        world.fail(n)
    world.fail(4, "something else", 400)
    ids = {each["title"]: each["id"] for each in world.items()}
    path = f"/issues/{ids['Refusing (422): Order … has no total']}/retry"
    dry = world.control.api("POST", path, {"dryRun": True}).json
    assert (dry["deadLetters"], dry["retrying"], dry["replay"]) == (4, 0, None)
    assert world.control.api("GET", "/replays").json["items"] == []
    assert world.control.api("POST", path, {"rate": 1e-300}).json["errors"][0]["pointer"] == "/rate"
    made = world.control.api("POST", path, {"rate": 50}).json["replay"]
    wait_until(lambda: world.control.api("GET", f"/replays/{made['id']}").json["total"] is not None)
    replay = world.control.api("GET", f"/replays/{made['id']}").json
    assert (replay["total"], replay["rate"]) == (4, 50)
    assert world.control.api("POST", path).json["code"] == "already_retried"
    world.control.api("POST", f"/replays/{made['id']}/cancel")
    world.deliver.execute("DELETE FROM dead_letters WHERE http_status = 422")
    problem = world.control.api("POST", path).json
    assert (problem["code"], "became a dead letter at" in problem["detail"]) == ("nothing_to_retry", True)


def test_two_who_retry_at_once_send_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one's replay is being made, the other waits, and hears of it."""
    world.control.append(record("m0"))
    world.fail(0)
    path, both = f"/issues/{world.one()['id']}/retry", Barrier(2)
    span = replays_api._span

    def met(*given: Any) -> Any:
        with suppress(BrokenBarrierError):
            both.wait(1.0)
        return span(*given)

    monkeypatch.setattr(replays_api, "_span", met)
    with ThreadPoolExecutor(2) as people:
        answers = list(people.map(lambda _: world.control.api("POST", path), range(2)))
    assert sorted(answer.status for answer in answers) == [200, 409]
    assert len(world.control.api("GET", "/replays").json["items"]) == 1


def test_what_a_refused_retry_has_tried_is_on_record(world: World) -> None:
    """Nothing is tried while a replay of the issue runs. Where another one turns out to send the same dead letters, the
    events that wait have been tried: the log says so beside the 409."""
    world.control.append(record("m0"), record("m1"))
    for n in range(2):
        world.fail(n, "down", 503, "server_error", dead=n == 0)
    world.deliver.execute(
        'INSERT INTO retries (lane, partition, "offset", attempt, due, first_at) VALUES (1, 0, 1, 1, ?, ?)',
        (world.now_ms, world.now_ms),
    )
    path = f"/issues/{world.one()['id']}"
    made = world.control.api("POST", f"{path}/retry").json
    assert (made["deadLetters"], made["retrying"], made["replay"]["state"] != "done") == (1, 1, True)
    assert world.control.api("POST", f"{path}/retry").json["code"] == "already_retried"
    world.control.api("POST", f"/replays/{made['replay']['id']}/cancel")
    assert len(world.control.api("POST", "/dead-letters/retry", {}).json["items"]) == 1
    assert world.control.api("POST", f"{path}/retry").json["code"] == "already_retried"
    entries = world.control.api("GET", f"/audit-log?target={path[1:]}").json["items"]
    changes = [
        [(each["path"], each["after"]) for each in entry["changes"] if each["object"] in path] for entry in entries
    ]
    assert changes == [[("tried", 1)], [("tried", 1), ("retried", 1)]]


def test_the_next_step_fits_what_is_left(world: World) -> None:
    """Nobody is sent to dead letters that are not there: events wait, wait for a resume, or have all arrived."""
    world.control.append(record("m0"))
    world.fail(0, "down", 503, "server_error")
    path = f"/issues/{world.one()['id']}"

    def left_to_do() -> str:
        advice = "The receiver failed while it handled the request. Its own log says why. "
        step: str = world.control.api("GET", path).json["nextStep"]
        assert step.startswith(advice)
        return step.removeprefix(advice)

    assert left_to_do() == "No event is left to retry."
    world.deliver.execute(
        'INSERT INTO retries (lane, partition, "offset", attempt, due, first_at) VALUES (1, 0, 0, 1, ?, ?)',
        (world.now_ms, world.now_ms),
    )
    assert left_to_do() == "Hookline keeps retrying the events that wait."
    world.control.api("POST", "/destinations/crm/pause", {})
    assert left_to_do() == "The destination is paused: its events are queued until you resume it."


def test_an_issue_shows_an_example_and_what_to_do(world: World) -> None:
    """The newest attempt with its answer and its event, the hours since it was first seen, and the next step."""
    world.control.append(record("m0", "Order Completed"))
    world.fail(0)
    detail = world.control.api("GET", f"/issues/{world.one()['id']}").json
    assert detail["sample"]["answer"] == '{"message": "Order 17 has no total"}'
    assert (detail["sample"]["messageId"], detail["sample"]["event"]) == ("m0", "Order Completed")
    assert [each["attempts"] for each in detail["hours"]] == [1]
    assert detail["nextStep"].endswith(" Once this is repaired, retry 1 dead letter.")
    page = world.page(detail["id"])
    assert page.dead_letters_href == "/destinations/crm/dead-letters?outcome=refused&httpStatus=422"
    values = [row.values[0] for row in page.chart.rows]
    assert values == [0] * (HOURS_SHOWN_MIN - 1) + [1], "a single point would be no line"
    world.pass_time(180)
    world.fail(1)
    rows = world.page(world.one()["id"]).chart.rows
    assert [row.values[0] for row in rows] == [0] * (HOURS_SHOWN_MIN - 4) + [1, 0, 0, 1]
    assert world.control.api("GET", "/issues/0123456789abcdef").status == 404
    assert world.control.api("GET", "/issues/nonsense").status == 404


def test_what_was_erased_is_not_kept_in_an_issue(world: World) -> None:
    """The words of an issue go with the last attempt that says them; until then another one is the example."""
    for n in range(2):
        world.fail(n, "No such person Bob Smith", dead=False)
    assert "Bob" in str(world.one()["title"])
    world.deliver.execute('DELETE FROM attempts WHERE "offset" = 1')
    issue = world.one()
    assert "Bob" in str(issue["title"])
    assert world.control.api("GET", f"/issues/{issue['id']}").json["sample"] is not None
    world.deliver.execute("DELETE FROM attempts")
    issue = world.one()
    assert "Bob" not in json.dumps(world.control.api("GET", f"/issues/{issue['id']}").json)
    world.pass_time(1)
    world.fail(9, "No such person Bob Smith", dead=False)
    again = world.one()
    assert (again["id"], again["attempts"]) == (issue["id"], 3), "the ids of a file begin anew, and nothing is lost"


def test_a_destination_that_is_gone_closes_its_issues(world: World) -> None:
    """Disabled or deleted: nothing of it can fail any more; enabled again it opens them when it fails."""
    world.fail(1)
    world.control.api("PATCH", "/destinations/crm", {"enabled": False})
    issue = world.one()
    assert issue["resolvedBecause"] == "disabled"
    assert world.page(issue["id"]).can_retry is False
    assert "Enable it, then retry 1 dead letter." in world.page(issue["id"]).detail.next_step
    assert world.control.api("POST", f"/issues/{issue['id']}/retry").json["code"] == "destination_disabled"
    world.control.api("PATCH", "/destinations/crm", {"enabled": True})
    world.pass_time(1)
    world.fail(2)
    assert world.one()["state"] == "open"
    world.control.api("POST", f"/issues/{world.one()['id']}/ignore")
    world.control.api("DELETE", "/destinations/crm")
    assert world.one()["resolvedBecause"] == "deleted"


def test_a_receiver_that_says_something_new_each_time_makes_few_issues(world: World) -> None:
    """Beyond a bound all other answers with this status are one issue, which can be retried as a whole."""
    words = ["".join(chr(97 + int(d)) for d in str(n)) for n in range(NAMED_MAX + 30)]
    world.control.append(*(record(f"m{n}") for n in range(len(words))))
    for n, word in enumerate(words):
        world.fail(n, f"I do not like {word}")
    found = world.items("?limit=200")
    others = [each for each in found if each["title"] == "Refusing (422): many different answers"]
    assert len(found) == NAMED_MAX + 1
    assert [(each["events"], each["deadLetters"]) for each in others] == [(30, 30)]
    made = world.control.api("POST", f"/issues/{others[0]['id']}/retry").json
    assert made["deadLetters"] == 30
    wait_until(lambda: world.control.api("GET", f"/replays/{made['replay']['id']}").json["total"] == 30)


def test_the_number_of_issues_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the resolved one that was seen longest ago goes first, then others."""
    monkeypatch.setattr(store_module, "ISSUES_MAX", 3)
    for n, to in enumerate(("a", "crm", "c")):  # a and c do not exist: their issues are resolved
        world.pass_time(1)
        world.fail(n, to=to)
    world.watch.run_once()
    world.pass_time(1)
    world.fail(5, status=400)
    assert sorted(str(each["destination"]) for each in world.items()) == ["c", "crm", "crm"]


def test_a_backlog_too_long_is_left_out_and_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are then at least what they say; what fails later is counted in full again."""
    world.fail(0)
    world.watch.run_once()
    monkeypatch.setattr(watch_module, "BACKLOG_ROWS_MAX", 10)
    for n in range(1, 31):
        world.fail(n)
    issue = world.one()
    assert (issue["attempts"], issue["atLeast"]) == (1 + 5, True)
    world.fail(40, status=400)
    assert {each["httpStatus"]: each["atLeast"] for each in world.items()} == {422: True, 400: False}


def test_where_the_newest_rows_were_erased_the_older_ones_do_not_count_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file uses their ids again: what has them now is counted, as far as it can be told from what was there."""
    for n in range(10):
        world.fail(n)
    assert world.one()["attempts"] == 10
    world.deliver.execute('DELETE FROM attempts WHERE "offset" >= 5')
    world.pass_time(1)
    ids = [6, 7]  # on PostgreSQL ids never come again: there the table was put back
    for id, n in zip(ids, (20, 21), strict=True):
        world.fail(n)
        world.deliver.execute('UPDATE attempts SET id = ? WHERE "offset" = ?', (id, n))
    assert world.one()["attempts"] == 12
    monkeypatch.setattr(watch_module, "LOOKED_BACK_ROWS", 1)
    world.deliver.execute("DELETE FROM attempts WHERE id >= 4")
    world.pass_time(1)
    for id, n in zip((4, 5), (30, 31), strict=True):
        world.fail(n)
        world.deliver.execute('UPDATE attempts SET id = ? WHERE "offset" = ?', (id, n))
    assert world.one()["attempts"] == 13, "one is missed, none is counted twice"


def test_rows_that_appear_late_are_counted_where_many_write(world: World) -> None:
    """An id that was given away and is not there yet may come by the next look."""
    world.watch.close()
    world.begin(many_writers=True)
    world.fail(1)
    assert not world.watch.read(), "a row with a lower id may still come"
    world.watch.read()
    assert len(world.control.api("GET", "/issues").json["items"]) == 1


def test_lists_are_paged(world: World) -> None:
    """Following `after` visits each issue once, last seen first."""
    for n in range(5):
        world.pass_time(1)
        world.fail(n, status=400 + n)
    world.watch.run_once()
    first = world.control.api("GET", "/issues?limit=3").json
    rest = world.control.api("GET", f"/issues?limit=3&after={first['after']}").json
    assert [each["httpStatus"] for each in first["items"] + rest["items"]] == [404, 403, 402, 401, 400]
    assert rest["after"] is None
    assert world.control.api("GET", "/issues?after=nonsense").json["code"] == "invalid_parameter"
