"""Previews in the running service: the role starts for one, reads up what is asked, tells nobody, and survives."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from hookline.database.open import ensure
from tests.service.crash.begun import Begun
from tests.service.harness import Hookline, Receiver, free_port, wait_until, webhook
from tests.service.profiles.test_audience import audience, traits_sent

TWICE = {"event": "Order", "count": {"gte": 2}, "where": "properties.total >= 5"}
PEOPLE = 300


def send(hookline: Hookline) -> None:
    """Every third of the people ordered twice."""
    for first in range(0, PEOPLE, 100):
        people = range(first, first + 100)
        orders = [(n, times) for n in people for times in range(2 if n % 3 == 0 else 1)]
        order = {"type": "track", "event": "Order", "properties": {"total": 5}}
        assert hookline.post("/v1/batch", {"batch": [{**order, "userId": f"u{n}"} for n, _ in orders]}).status == 200


def ask(hookline: Hookline, condition: dict[str, Any]) -> str:
    """Ask for a preview and return its id."""
    asked = hookline.api("POST", "audience-previews", {"condition": condition})
    assert asked.status == 202, asked
    return str(asked.json["id"])


def preview(hookline: Hookline, id: str) -> dict[str, Any]:
    """What there is of it."""
    found: dict[str, Any] = hookline.api("GET", f"audience-previews/{id}").json
    return found


def wait_done(hookline: Hookline, id: str) -> dict[str, Any]:
    """The preview once it is done."""
    wait_until(lambda: preview(hookline, id)["state"] == "done", what="the preview")
    return preview(hookline, id)


def test_a_condition_nobody_asked_for(receiver: Receiver, new_hookline: Callable[..., Hookline]) -> None:
    """With the first preview the role starts, reads the journal up, and is right; the receiver hears of nobody, until
    the audience is saved, and then of exactly those who were found."""
    with new_hookline(webhook("crm", receiver.url())) as hookline:
        send(hookline)
        assert not hookline.role("profiles", required=False)
        found = wait_done(hookline, ask(hookline, TWICE))
        assert (found["people"], found["members"], len(found["sample"])) == (PEOPLE, PEOPLE // 3, 10)
        assert all(int(each["userId"][1:]) % 3 == 0 for each in found["sample"])
        never = wait_done(hookline, ask(hookline, {"event": "Refund", "never": True}))
        assert never["members"] == PEOPLE
        assert traits_sent(receiver) == {}
        assert hookline.api("POST", "audiences", audience("buyers", TWICE)).status == 201
        wait_until(lambda: len(traits_sent(receiver)) >= PEOPLE // 3, what="the members synced")
        assert set(traits_sent(receiver)) == {f"u{n}" for n in range(0, PEOPLE, 3)}


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    """A service that has the orders, and whose role is there from the next start on, so that it can be armed."""
    with Receiver(port=free_port()) as receiver:
        hookline = Hookline(tmp_path_factory.mktemp("ordered"), [webhook("crm", receiver.url())])
        with hookline:
            send(hookline)
    ensure(hookline.data / "profiles.db", "profiles")
    return Begun(hookline, receiver.port)


@pytest.mark.parametrize("point", ["profiles.preview_taken", "profiles.before_commit:2", "profiles.preview_step"])
def test_the_role_dies_in_the_middle(new_hookline: Callable[..., Hookline], ordered: Begun, point: str) -> None:
    """Taken up, reading, counting: the next process finishes it, with the right number, and tells nobody."""
    hookline = ordered.copied(new_hookline)
    hookline.environment["HOOKLINE_CRASH_POINT"] = point
    with Receiver(port=ordered.port) as receiver, hookline:
        id = ask(hookline, TWICE)
        assert wait_done(hookline, id)["members"] == PEOPLE // 3
        wait_until(lambda: "profiles ended by SIGKILL" in hookline.log, what="the armed point")
        os.kill(hookline.role("profiles"), signal.SIGKILL)
        assert wait_done(hookline, id)["members"] == PEOPLE // 3
        assert wait_done(hookline, ask(hookline, {"not": TWICE}))["members"] == PEOPLE - PEOPLE // 3
        assert traits_sent(receiver) == {}
