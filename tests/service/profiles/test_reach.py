"""What people can see of an audience: events go in, the receiver is told, and the command line says who and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.profiles.test_audience import audience, traits_sent

BUYERS = {"event": "Order", "count": {"gte": 2}, "where": "properties.total >= 5"}


def test_an_audience_from_a_file_is_synced_listed_explained_and_synced_on_request(
    receiver: Receiver, new_hookline: Callable[..., Hookline]
) -> None:
    """The whole way; with a sync only once an hour, the one that is asked for tells who came since."""
    definitions = {"audiences": [audience("buyers", BUYERS, syncEvery="1h")]}
    with new_hookline(webhook("crm", receiver.url()), definitions=definitions) as hookline:
        wait_until(lambda: _list(hookline, "syncs"), what="the first sync, of nobody")
        first, _, third = [hookline.track("Order", userId="u1", properties={"total": total}) for total in (5, 4, 9)]
        wait_until(lambda: _explained(hookline, "u1").get("member"), what="the events applied")
        found = _explained(hookline, "u1")
        assert found["synced"] is None
        assert {each["messageId"] for each in found["reason"]["events"]} == {first, third}
        assert "u1" not in traits_sent(receiver)

        assert hookline.api("POST", "audiences/buyers/sync").status == 202
        wait_until(lambda: traits_sent(receiver).get("u1") == [{"buyers": True}], what="sent at once")
        wait_until(lambda: _list(hookline, "syncs")[0]["came"] == 1, what="the sync in the list")
        ((member, was_synced),) = [(each["userId"], each["synced"]) for each in _list(hookline, "members")]
        assert (member, was_synced) == ("u1", True)
        assert _explained(hookline, "u1")["synced"]["sent"] is True


def _list(hookline: Hookline, what: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = hookline.api("GET", f"audiences/buyers/{what}").json["items"]
    return items


def _explained(hookline: Hookline, user: str) -> dict[str, Any]:
    answer = hookline.api("GET", f"audiences/buyers/explain?userId={user}")
    return dict(answer.json) if answer.status == 200 else {}
