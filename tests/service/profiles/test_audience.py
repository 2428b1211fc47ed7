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
"""More than two steps of sending."""


def audience(id: str, condition: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An audience that is synced every second."""
    return {"id": id, "name": id, "destinations": ["crm"], "syncEvery": 1, "condition": condition, **more}


def traits_sent(receiver: Receiver) -> dict[str, list[dict[str, Any]]]:
    """Return the traits of every identify call that came, by user, in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for request in receiver.requests:
        if request.json["type"] == "identify":
            found.setdefault(request.json["userId"], []).append(request.json["traits"])
    return found


def messages(receiver: Receiver) -> set[tuple[str, str, str]]:
    """Return destination, user and messageId of the identify calls that came; one that came again is one."""
    identifies = [each for each in receiver.requests if each.json["type"] == "identify"]
    return {(each.path.removeprefix("/"), each.json["userId"], each.message_id) for each in identifies}


def assert_each_once(hookline: Hookline, receiver: Receiver, destinations: tuple[str, ...], people: int) -> None:
    """Fail unless so many people, and who came late, were synced in one message to each of the destinations, and none
    came twice but for an answer that was late."""
    users = ["late", *(f"u{number}" for number in range(people))]
    assert sorted(each[:2] for each in messages(receiver)) == sorted(
        (to, user) for to in destinations for user in users
    )
    arrived = [(each.path.removeprefix("/"), each.message_id) for each in receiver.requests]
    assert hookline.came_too_often(arrived) == []


def test_who_comes_and_who_goes(receiver: Receiver, new_hookline: Callable[..., Hookline]) -> None:
    """True when the condition is met, false when its window has passed, and only to the audience's destination."""
    twice = {"event": "Order", "count": {"gte": 2}, "within": "4s"}
    both = [webhook("crm", receiver.url("/crm")), webhook("other", receiver.url("/other"))]
    definitions = {"audiences": [audience("buyers", twice, name="Big Buyers")]}
    with new_hookline(*both, definitions=definitions) as hookline:

        def bought(user: str) -> bool:
            """Order once more: a slow sync may find nobody in, as the window passes meanwhile."""
            hookline.track("Order", userId=user)
            return {"big_buyers": True} in traits_sent(receiver).get(user, [])

        def gone(user: str) -> bool:
            return traits_sent(receiver)[user] == [{"big_buyers": True}, {"big_buyers": False}]

        hookline.track("Order", userId="u2")
        wait_until(lambda: bought("u1"), what="in")
        wait_until(lambda: gone("u1"), what="and out")
        assert set(traits_sent(receiver)) == {"u1"}
        wait_until(lambda: bought("u2"), what="in")
        wait_until(lambda: gone("u2"), what="and out")
        assert len(traits_sent(receiver)["u1"]) == 2
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
        wait_until(lambda: {"total_spend": 4} in traits_sent(receiver).get("u1", []), what="the first value")
        hookline.track("Order", userId="u1", properties={"total": 8})
        wait_until(lambda: {"rich": True} in traits_sent(receiver)["u1"], what="the audience")
        assert {"total_spend": 12} in traits_sent(receiver)["u1"]
        assert Counter(str(traits) for traits in traits_sent(receiver)["u1"]).most_common(1)[0][1] == 1


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
    """Every member is synced once, and the sync ends as if nothing had been."""
    hookline = ordered.copied(new_hookline)
    hookline.definitions = {"audiences": [audience("buyers", {"event": "Order"})]}
    hookline.environment["HOOKLINE_CRASH_POINT"] = point
    with Receiver(port=ordered.port) as receiver, hookline:
        wait_until(lambda: len(traits_sent(receiver)) >= MEMBERS, what="everybody synced")
        assert "profiles ended by SIGKILL" in hookline.log
        os.kill(hookline.role("profiles"), signal.SIGKILL)
        hookline.track("Order", userId="late")
        wait_until(lambda: "late" in traits_sent(receiver), what="who came later")
        assert_each_once(hookline, receiver, ("crm",), MEMBERS)
    assert all(each == {"buyers": True} for traits in traits_sent(receiver).values() for each in traits)


@pytest.mark.parametrize("point", ["profiles.appended", "profiles.synced"])
def test_a_destination_that_is_added(receiver: Receiver, new_hookline: Callable[..., Hookline], point: str) -> None:
    """It alone is sent everybody, each once, though the role dies in between; then both hear of news."""
    destinations = [webhook("crm", receiver.url("/crm")), webhook("mail", receiver.url("/mail"))]
    hookline = new_hookline(*destinations, definitions={"audiences": [audience("buyers", {"event": "Order"})]})
    with hookline:
        send_orders(hookline, 600)
        wait_until(lambda: len(traits_sent(receiver)) == 600, what="everybody synced")
        hookline.stop()
        hookline.environment["HOOKLINE_CRASH_POINT"] = point
        hookline.start()
        added = hookline.api("PATCH", "audiences/buyers", {"destinations": ["crm", "mail"]})
        assert added.status == 200
        wait_until(lambda: len(messages(receiver)) >= 2 * 600, what="the new one synced")
        wait_until(lambda: "profiles ended by SIGKILL" in hookline.log, what="the armed point")
        hookline.track("Order", userId="late")
        wait_until(lambda: len(messages(receiver)) >= 2 * 601, what="both sent the news")
        assert_each_once(hookline, receiver, ("crm", "mail"), 600)
