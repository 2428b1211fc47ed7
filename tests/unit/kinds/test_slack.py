"""The kind slack against a stand-in of the documented incoming webhooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hookline.deliver.send.port import Answer
from hookline.kinds.answers import ACCEPTED
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.conftest import make_rig as make_rig
from tests.unit.kinds.receiving import (
    Sent,
    answer,
    check_guide,
    check_kind,
    deliver,
    destination_of,
    made_of,
    only,
    problems,
)

URL = "https://hooks.slack.com/services/T024BE7LD/B0G9QF3A1/abcDEF123"
TRACK = {
    "type": "track",
    "event": "Order Completed",
    "userId": "u1",
    "properties": {"total": 12.5, "note": 'R&D <!channel> "5 > 4"'},
}
TEXT_CHARACTERS_MAX = 40_000


def slack(sent: Sent) -> Answer:
    """Answer as the documentation says of an incoming webhook."""
    if (sent.method, sent.host, sent.path) != ("POST", "hooks.slack.com", "/services/T024BE7LD/B0G9QF3A1/abcDEF123"):
        return answer(404, b"no_service")
    if sent.headers["content-type"] != "application/json" or sent.query:
        return answer(400, b"invalid_payload")
    message = json.loads(sent.body)
    known = {"text", "unfurl_links", "username", "icon_emoji", "channel"}
    if not isinstance(message, dict) or message.keys() - known or not isinstance(message["unfurl_links"], bool):
        return answer(400, b"invalid_payload")
    text = message.get("text")
    if not isinstance(text, str) or not text:
        return answer(400, b"no_text")
    return answer(200, b"ok") if len(text) <= TEXT_CHARACTERS_MAX else answer(400, b"msg_too_long")


def text_of(call: dict[str, Any], **settings: Any) -> str:
    """The text that a call becomes."""
    made = only(destination_of("slack", {"webhookUrl": URL, **settings}), call)
    assert slack(made.sent) == answer(200, b"ok")
    text: str = made.sent.json["text"]
    return text


def test_the_kind_is_complete(tmp_path: Path) -> None:
    """Settings, guide and icon are there, and the check takes the guide's example."""
    check_kind("slack")
    assert check_guide("slack", tmp_path) == 1


def test_a_track_call_becomes_a_message() -> None:
    """Without any more settings than the URL, a track event is posted with its name and user."""
    assert text_of(TRACK) == "*Order Completed* u1"
    assert text_of({**TRACK, "userId": None, "anonymousId": "a1"}) == "*Order Completed* "


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ({"type": "identify", "userId": "u1", "traits": {"email": "a@b.c"}}, "Identified u1 a@b.c"),
        (
            {"type": "page", "name": "Home", "userId": "u1", "context": {"page": {"url": "https://x.y"}}},
            "Page *Home* https://x.y u1",
        ),
        ({"type": "screen", "name": "Cart", "userId": "u1"}, "Screen *Cart* u1"),
        ({"type": "group", "groupId": "g1", "userId": "u1", "traits": {"name": "Acme"}}, "u1 is in group g1 Acme"),
        ({"type": "alias", "previousId": "a1", "userId": "u1"}, "a1 is now u1"),
    ],
)
def test_the_other_calls_become_messages_where_they_are_chosen(call: dict[str, Any], text: str) -> None:
    """Each type has a message of its own, and is filtered until it is chosen."""
    assert text_of(call, calls=["track", call["type"]]) == text
    assert made_of(destination_of("slack", {"webhookUrl": URL}), call) == []


def test_what_an_event_says_is_no_markup() -> None:
    """A property that calls the channel is shown as it is written; the markup of the message stays."""
    said = text_of(TRACK, trackMessage="<https://crm.example.com|{{properties.note}}> & {{properties.total}}")
    assert said == '<https://crm.example.com|R&amp;D &lt;!channel&gt; "5 &gt; 4"> & 12.5'


def test_events_have_messages_of_their_own() -> None:
    """An event's own message wins over that of all track calls; others are chosen by name."""
    own = {"Order Completed": "{{properties.total}} EUR"}
    assert text_of(TRACK, eventMessages=own) == "12.5 EUR"
    assert text_of({**TRACK, "event": "Signed Up"}, eventMessages=own) == "*Signed Up* u1"
    chosen = destination_of("slack", {"webhookUrl": URL, "events": ["Signed Up"]})
    assert made_of(chosen, TRACK) == []
    assert len(made_of(chosen, {**TRACK, "event": "Signed Up"})) == 1


def test_a_long_text_is_cut() -> None:
    """Escaping makes five characters of one; what is beyond Slack's limit is cut rather than refused."""
    call = {**TRACK, "properties": {"note": "&" * 20_000}}
    assert len(text_of(call, trackMessage="{{properties.note}}")) == TEXT_CHARACTERS_MAX


def test_what_old_webhooks_heed() -> None:
    """Name, emoji and channel go along where they are set, and are left out where not."""
    given = {"username": "Shop", "iconEmoji": ":bell:", "channel": "#orders", "unfurlLinks": True}
    body = only(destination_of("slack", {"webhookUrl": URL, **given}), TRACK).sent.json
    assert (body["username"], body["icon_emoji"], body["channel"], body["unfurl_links"]) == (
        *("Shop", ":bell:", "#orders"),
        True,
    )
    plain = only(destination_of("slack", {"webhookUrl": URL}), TRACK).sent
    assert set(plain.json) == {"text", "unfurl_links"}


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({}, "settings.webhookUrl"),
        ({"webhookUrl": "https://slack.example.com/services/T/B/x"}, "settings.webhookUrl"),
        ({"webhookUrl": URL, "calls": ["delete"]}, "settings.calls[0]"),
        ({"webhookUrl": URL, "iconEmoji": "bell"}, "settings.iconEmoji"),
        ({"webhookUrl": URL, "chanel": "#x"}, "settings.chanel"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, Any], path: str) -> None:
    """The check names the setting that is at fault."""
    assert [where for where, _ in problems("slack", settings)] == [f"d.{path}"]


@pytest.mark.parametrize(
    ("status", "text", "retry", "of_event"),
    [
        (400, b"invalid_payload", False, True),
        (400, b"no_text", False, True),
        (400, b"user_not_found", True, False),
        (403, b"action_prohibited", False, False),
        (404, b"no_service", False, False),
        (410, b"channel_is_archived", False, False),
        (429, b"rate_limited", True, False),
        (500, b"rollup_error", True, False),
    ],
)
def test_what_answers_mean(status: int, text: bytes, retry: bool, of_event: bool) -> None:
    """Only what is wrong with the message is the event's fault; what may pass is tried again."""
    made = only(destination_of("slack", {"webhookUrl": URL}), TRACK)
    assert made.judged(answer(200, b"ok")) == [ACCEPTED]
    (verdict,) = made.judged(answer(status, text))
    assert (verdict.accepted, verdict.retry, verdict.of_event) == (False, retry, of_event)
    assert (verdict.error, verdict.status) == (text.decode(), status)


def test_a_deliver_role_posts_messages(make_rig: MakeRig) -> None:
    """One message is posted, a throttled one waits as asked and is posted again, an empty one is a dead letter."""
    rig = make_rig()
    throttled = [answer(429, b"rate_limited", Retry_After="3")]
    settings = {"webhookUrl": URL, "trackMessage": "{{properties.say}}"}
    calls = [{**TRACK, "properties": {"say": say}} for say in ("hello", "again", "")]
    network = deliver(
        rig,
        destination_of("slack", settings),
        lambda sent: throttled.pop() if throttled and b"again" in sent.body else slack(sent),
        calls,
    )
    assert sorted(sent.json.get("text", "") for sent in network.seen) == ["", "again", "again", "hello"]
    statuses = [rig.status_at(f"message-{number}", "slack") for number in range(3)]
    assert statuses == ["delivered", "delivered", "failed"]
