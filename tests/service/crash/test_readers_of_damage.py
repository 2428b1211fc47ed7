"""One record of the journal that the disk has changed, met by all who read the journal again: each goes on behind it,
and what it passed over is told."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import pytest

from tests.service.client import bearer
from tests.service.crash.put_back import command as run
from tests.service.crash.test_damaged_journal import flip, notice, place_of
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.waiting import WAIT_SECONDS

EVENTS = 5
DAMAGED = 2
"""Its number, and its user's."""
LEFT = [number for number in range(EVENTS) if number != DAMAGED]


class Damaged(NamedTuple):
    """A service that runs on a journal of which one record cannot be read."""

    hookline: Hookline
    receiver: Receiver
    sent: list[str]

    @property
    def left(self) -> list[str]:
        """What can be read."""
        return [self.sent[number] for number in LEFT]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    """While it was stopped a record was changed, and what was made of all of them is gone: it is made anew."""
    with Receiver() as receiver:
        definitions = {"audiences": [audience("buyers")]}
        hookline = Hookline(
            tmp_path_factory.mktemp("damaged"), [webhook("crm", receiver.url())], definitions=definitions
        )
        with hookline:
            sent = [hookline.track("Order", userId=f"u{number}") for number in range(EVENTS)]
            for each in sent:
                hookline.wait_status(each, "crm", "delivered")
            wait_until(lambda: len(members(hookline, "buyers")) == EVENTS, what="all members")
        flip(*place_of(hookline.data, sent[DAMAGED]))
        shutil.rmtree(hookline.data / "index")
        for path in (*hookline.data.glob("profiles.db*"), *hookline.data.glob("insights.db*")):
            path.unlink()
        assert run(hookline, "renew", "profiles.db", "--yes").returncode == 0
        with hookline:
            yield Damaged(hookline, receiver, sent)
        assert "Traceback" not in hookline.log


def audience(id: str) -> dict[str, Any]:
    """Everybody who ordered."""
    return {"id": id, "name": id, "destinations": ["crm"], "syncEvery": 1, "condition": {"event": "Order"}}


def members(hookline: Hookline, id: str) -> set[str]:
    """The users in an audience."""
    items = hookline.api("GET", f"audiences/{id}/members").json.get("items", ())
    return {each["userId"] for each in items}


def test_a_tail_says_that_one_was_left_out(damaged: Damaged) -> None:
    """Who watches from before it on is shown what follows, and told how many were left out."""
    url = f"http://127.0.0.1:{damaged.hookline.control_port}/api/v1/events/stream"
    headers = {**bearer(damaged.hookline.admin_token), "Last-Event-ID": f"0:{DAMAGED - 1}"}
    with urlopen(Request(url, headers=headers), timeout=WAIT_SECONDS) as stream:
        lines: list[str] = []
        while not any(damaged.sent[-1] in line for line in lines):
            lines.append(stream.readline().decode().strip())
    assert lines.count('data: {"count":1}') == 1, lines
    shown = [each for each in damaged.sent if any(f'"{each}"' in line for line in lines)]
    assert shown == damaged.sent[DAMAGED + 1 :]


def test_people_are_read_again_but_for_it(damaged: Damaged) -> None:
    """Their catch-up from the beginning makes members of all others, and counts what it missed."""
    wait_until(lambda: members(damaged.hookline, "buyers") == {f"u{number}" for number in LEFT}, 60, "the members")
    wait_until(lambda: damaged.hookline.metric("hookline_profiles_missed_total") == 1, what="one missed")


def test_a_new_audience_goes_through_its_past(damaged: Damaged) -> None:
    """What is defined later is read back over the damage."""
    answer = damaged.hookline.api("POST", "audiences", audience("later"))
    assert answer.status == 201, answer
    wait_until(lambda: members(damaged.hookline, "later") == {f"u{number}" for number in LEFT}, 60, "the members")


def test_what_sources_send_is_counted_again(damaged: Damaged) -> None:
    """The names of events are noted anew behind it, and it is said that one was missed."""

    def is_counted() -> bool:
        schema = damaged.hookline.api("GET", "sources/site/schema").json
        return (schema["missed"], [each["count"] for each in schema["items"]]) == (1, [len(LEFT)])

    wait_until(is_counted, 60, "the schema")


def test_a_replay_sends_the_others(damaged: Damaged) -> None:
    """It ends, all others arrive, and what it passed over is on its record and in the log."""
    with Receiver() as other:
        assert damaged.hookline.api("POST", "destinations", webhook("other", other.url())).status == 201
        id = damaged.hookline.api("POST", "replays", {"destination": "other"}).json["id"]
        wait_until(lambda: replay(damaged, id)["state"] == "done", 60, "its end")
        wait_until(lambda: replay(damaged, id)["total"] is not None, what="its count")  # may take longer
        view = replay(damaged, id)
        assert {request.message_id for request in other.requests} == set(damaged.left)
        assert (view["delivered"], view["total"]) == (len(LEFT), len(LEFT))
        passed = [line for line in damaged.hookline.log.splitlines() if "events_passed_over" in line]
        assert any('"destination": "other"' in line and '"events": 1,' in line for line in passed), passed


def test_the_index_is_built_anew(damaged: Damaged) -> None:
    """Each other event is found by its id; of the damaged one it is said that its record is, or may be, damaged. One
    that is sent again is known as a repeat."""
    for each in damaged.left:
        damaged.hookline.wait_status(each, "crm", "delivered")
    answer = damaged.hookline.api("GET", f"events/{damaged.sent[DAMAGED]}")
    assert (answer.status, "damaged" in answer.json["detail"]) == (404, True), answer
    before = len(damaged.receiver.of(damaged.left[-1]))
    damaged.hookline.track("Order", damaged.left[-1], userId=f"u{EVENTS - 1}")
    last = damaged.hookline.track("Other", userId="last")
    damaged.hookline.wait_status(last, "crm", "delivered")
    assert len(damaged.receiver.of(damaged.left[-1])) == before


def test_searches_go_on_behind_it(damaged: Damaged) -> None:
    """All others are listed and found, newest first; the user whose event it was has none."""
    items = damaged.hookline.api("GET", "events?event=Order&limit=100").json["items"]
    found = list(dict.fromkeys(each["messageId"] for each in items))
    assert [each for each in found if each in damaged.left] == damaged.left[::-1]
    assert damaged.hookline.api("GET", f"events?userId=u{DAMAGED}&event=Order").json["items"] == []


def test_one_notice_tells_of_it(damaged: Damaged) -> None:
    """However many have met it, and doctor says the same, running and stopped, also where nobody had met it."""
    told = wait_until(lambda: notice(damaged.hookline, "journal_damaged"), what="the notice")
    assert f"1 event at most: offset {DAMAGED} of partition 0 (damaged" in str(told["message"])
    said = "events of it cannot be read any more: 1 event"
    assert said in run(damaged.hookline, "doctor").stdout
    damaged.hookline.stop()
    assert said in run(damaged.hookline, "doctor").stdout
    (damaged.hookline.data / "journal" / "damaged").unlink()
    assert said in run(damaged.hookline, "doctor").stdout


def replay(damaged: Damaged, id: str) -> dict[str, Any]:
    """How it stands."""
    return dict(damaged.hookline.api("GET", f"replays/{id}").json)
