"""Audiences as a receiver lives through them: who comes, who goes, and nobody twice, whatever dies meanwhile."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from hookline.database.open import ensure
from tests.service.crash.begun import Begun
from tests.service.harness import Hookline, Receiver, free_port, wait_until, webhook

MEMBERS = 1_200
"""More than two steps of telling."""


def audience(id: str, condition: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An audience that is synced every second."""
    return {"id": id, "name": id, "destinations": ["crm"], "syncEvery": 1, "condition": condition, **more}


def told(receiver: Receiver) -> dict[str, list[dict[str, Any]]]:
    """The traits of every identify call that came, by user, in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for request in receiver.requests:
        if request.json["type"] == "identify":
            found.setdefault(request.json["userId"], []).append(request.json["traits"])
    return found


def reached(receiver: Receiver) -> set[tuple[str, str]]:
    """The path and the user of every identify call that came."""
    return {(each.path, each.json["userId"]) for each in receiver.requests if each.json["type"] == "identify"}


def messages(hookline: Hookline, receiver: Receiver) -> Counter[tuple[str, str]]:
    """Count the syncs' messages by destination and user. One that was sent again because its answer came too late is
    one; any other that came twice fails the test."""
    came = [(each.path.removeprefix("/"), each.message_id, each.json) for each in receiver.requests]
    assert hookline.came_too_often((destination, id) for destination, id, _ in came) == []
    users = {(destination, id): body["userId"] for destination, id, body in came if body["type"] == "identify"}
    return Counter((destination, user) for (destination, _), user in users.items())


def test_who_comes_and_who_goes(receiver: Receiver, new_hookline: Callable[..., Hookline]) -> None:
    """True when the condition is met, false when its window has passed, and only to the audience's destination."""
    twice = {"event": "Order", "count": {"gte": 2}, "within": "4s"}
    both = [webhook("crm", receiver.url("/crm")), webhook("other", receiver.url("/other"))]
    definitions = {"audiences": [audience("buyers", twice, name="Big Buyers")]}
    with new_hookline(*both, definitions=definitions) as hookline:

        def bought(user: str) -> bool:
            """Order once more: a slow sync may find nobody in, as the window passes meanwhile."""
            hookline.track("Order", userId=user)
            return {"big_buyers": True} in told(receiver).get(user, [])

        def gone(user: str) -> bool:
            return told(receiver)[user] == [{"big_buyers": True}, {"big_buyers": False}]

        hookline.track("Order", userId="u2")
        wait_until(lambda: bought("u1"), what="in")
        wait_until(lambda: gone("u1"), what="and out")
        assert set(told(receiver)) == {"u1"}
        wait_until(lambda: bought("u2"), what="in")
        wait_until(lambda: gone("u2"), what="and out")
        assert len(told(receiver)["u1"]) == 2
        identifies = [request for request in receiver.requests if request.json["type"] == "identify"]
        assert {request.path for request in identifies} == {"/crm"}
        expected = {"computation_class": "audience", "computation_key": "big_buyers", "computation_id": "buyers"}
        assert identifies[0].json["context"] == {
            "personas": expected,
            "integrations": {"All": False, "Webhooks": True},
        }


def test_a_computed_trait_is_synced_when_it_changes(receiver: Receiver, new_hookline: Callable[..., Hookline]) -> None:
    """The first value, and then each other one; an audience may ask for it."""
    spend = {"id": "spend", "name": "Total Spend", "event": "Order", "aggregate": "sum", "property": "properties.total"}
    definitions = {
        "computedTraits": [{**spend, "destinations": ["crm"], "syncEvery": 1}],
        "audiences": [audience("rich", {"if": "computed.spend >= 10"})],
    }
    with new_hookline(webhook("crm", receiver.url()), definitions=definitions) as hookline:
        hookline.track("Order", userId="u1", properties={"total": 4})
        wait_until(lambda: {"total_spend": 4} in told(receiver).get("u1", []), what="the first value")
        hookline.track("Order", userId="u1", properties={"total": 8})
        wait_until(lambda: {"rich": True} in told(receiver)["u1"], what="the audience")
        assert {"total_spend": 12} in told(receiver)["u1"]
        assert Counter(str(traits) for traits in told(receiver)["u1"]).most_common(1)[0][1] == 1


def send_orders(hookline: Hookline, people: int) -> None:
    """Send one of each of so many people."""
    for first in range(0, people, 100):
        batch = [{"type": "track", "event": "Order", "userId": f"u{n}"} for n in range(first, first + 100)]
        assert hookline.post("/v1/batch", {"batch": batch}).status == 200


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    """A service that has the orders, and whose role is there from the next start on, so that it can be armed."""
    with Receiver(port=free_port()) as receiver:
        hookline = Hookline(tmp_path_factory.mktemp("ordered"), [webhook("crm", receiver.url("/crm"))])
        with hookline:
            send_orders(hookline, MEMBERS)
    ensure(hookline.data / "profiles.db", "profiles")
    return Begun(hookline, receiver.port)


@pytest.mark.parametrize("point", ["profiles.judged", "profiles.appended", "profiles.synced"])
def test_a_crash_in_the_middle_of_a_sync(new_hookline: Callable[..., Hookline], ordered: Begun, point: str) -> None:
    """Every member is told once, and the sync ends as if nothing had been."""
    hookline = ordered.copied(new_hookline)
    hookline.definitions = {"audiences": [audience("buyers", {"event": "Order"})]}
    hookline.environment["HOOKLINE_CRASH_POINT"] = point
    with Receiver(port=ordered.port) as receiver, hookline:
        wait_until(lambda: len(told(receiver)) >= MEMBERS, what="everybody told")
        assert "profiles ended by SIGKILL" in hookline.log
        os.kill(hookline.role("profiles"), signal.SIGKILL)
        hookline.track("Order", userId="late")
        wait_until(lambda: "late" in told(receiver), what="who came later")
        everybody = ["late", *(f"u{number}" for number in range(MEMBERS))]
        assert messages(hookline, receiver) == {("crm", user): 1 for user in everybody}
    assert all(each == {"buyers": True} for traits in told(receiver).values() for each in traits)


@pytest.mark.parametrize("point", ["profiles.appended", "profiles.synced"])
def test_a_destination_that_is_added(receiver: Receiver, new_hookline: Callable[..., Hookline], point: str) -> None:
    """It alone is told of everybody, each once, though the role dies in between; then both hear of news."""
    destinations = [webhook("crm", receiver.url("/crm")), webhook("mail", receiver.url("/mail"))]
    hookline = new_hookline(*destinations, definitions={"audiences": [audience("buyers", {"event": "Order"})]})
    with hookline:
        send_orders(hookline, 600)
        wait_until(lambda: len(told(receiver)) == 600, what="everybody told")
        hookline.stop()
        hookline.environment["HOOKLINE_CRASH_POINT"] = point
        hookline.start()
        added = hookline.api("PATCH", "audiences/buyers", {"destinations": ["crm", "mail"]})
        assert added.status == 200
        wait_until(lambda: len(reached(receiver)) == 2 * 600, what="the new one told")
        wait_until(lambda: "profiles ended by SIGKILL" in hookline.log, what="the armed point")
        hookline.track("Order", userId="late")
        wait_until(lambda: len(reached(receiver)) == 2 * 601, what="both told the news")
        everybody = ["late", *(f"u{number}" for number in range(600))]
        assert messages(hookline, receiver) == {(name, user): 1 for name in ("crm", "mail") for user in everybody}
