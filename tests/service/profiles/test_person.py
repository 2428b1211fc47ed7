"""One person over the whole way: a visitor's events, an alias, an identify, more events; then gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.profiles.test_audience import audience


def test_a_visitor_who_turns_out_to_be_a_user_is_one_person(
    receiver: Receiver, new_hookline: Callable[..., Hookline]
) -> None:
    """By any id: all events of both ids, the traits with their event, the audience that was told. Once the person is
    suppressed and erased, nothing of it is shown."""
    definitions = {"audiences": [audience("buyers", {"event": "Order"}, syncEvery="1s")]}
    with new_hookline(webhook("crm", receiver.url()), definitions=definitions) as hookline:
        sent = [hookline.track("Order", userId="", anonymousId="visitor")]
        sent.append(_send(hookline, "page", anonymousId="visitor", name="Home"))
        sent.append(_send(hookline, "alias", userId="ann", previousId="visitor"))
        sent.append(_send(hookline, "identify", userId="ann", traits={"plan": "pro"}))
        hookline.track("Order", userId="somebody else")
        sent.append(hookline.track("Order", userId="ann", anonymousId="phone"))
        wait_until(lambda: _is_in(_person(hookline, "userId=ann"), "buyers"), what="a member who was told")
        found = _person(hookline, "userId=ann")
        assert {(each["kind"], each["id"]) for each in found["identities"]} == {
            ("user", "ann"),
            ("anonymous", "visitor"),
            ("anonymous", "phone"),
        }
        assert [(each["name"], each["value"], each["messageId"]) for each in found["traits"]] == [
            ("plan", "pro", sent[3])
        ]
        for query in ("userId=ann", "anonymousId=visitor", "anonymousId=phone"):
            events = hookline.api("GET", f"people/events?{query}").json["items"]
            assert [each["messageId"] for each in events if each["origin"] == "sdk"] == sent[::-1], query
            assert {each["origin"] for each in events} == {"sdk", "audience"}
        hookline.api("POST", "deletion-requests", {"userId": "ann", "action": "both"})
        for query in ("userId=ann", "anonymousId=visitor"):
            wait_until(
                lambda query=query: hookline.api("GET", f"people?{query}").json.get("code") == "person_suppressed",  # type: ignore[misc]
                what="nothing shown",
            )
        assert hookline.api("GET", "people/events?userId=ann").json["code"] == "person_suppressed"


def _send(hookline: Hookline, type: str, **fields: Any) -> str:
    answer = hookline.post(f"/v1/{type}", fields)
    assert answer.status == 200, answer
    return str(answer.json["messageId"])


def _person(hookline: Hookline, query: str) -> dict[str, Any]:
    answer = hookline.api("GET", f"people?{query}")
    return dict(answer.json) if answer.status == 200 else {}


def _is_in(person: dict[str, Any], audience: str) -> bool:
    return any(each["id"] == audience and each["member"] and each["synced"] for each in person.get("audiences", ()))
