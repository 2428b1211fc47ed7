"""Notifications of a running service: a real outage, a real mail server, and a kill between."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.unit.features.notifications.mail_server import MailServer

SETTINGS = {
    "notices.breaker_open": "1s",
    "notices.group_window": "1s",
    "notices.recovered_after": "1s",
    "deliver.retry_max": "1s",
    "smtp.from": "hookline@example.com",
}


def states(hookline: Hookline) -> list[tuple[str, str]]:
    """What the messages of the rule are and came to, oldest first."""
    found = hookline.api("GET", "notification-messages?notification=ops").json["items"]
    return [(each["what"], each["state"]) for each in reversed(found)]


@pytest.mark.slow
def test_an_outage_is_one_mail_and_one_recovered(tmp_path: Path) -> None:
    """Also when the service is killed between; everything about it is in the log of messages."""
    with Receiver() as sick, Receiver() as alerts, MailServer() as mail:
        sick.reply_with(503)
        rule = {
            "id": "ops",
            "name": "Operators",
            "when": ["destination_failing"],
            "to": [{"email": ["ops@example.com"]}, {"webhook": {"url": alerts.url("/x"), "secret": "s3cret"}}],
        }
        settings = {**SETTINGS, "smtp.url": f"smtp://127.0.0.1:{mail.port}"}
        destinations = [webhook("crm", sick.url())]
        with Hookline(
            tmp_path / "h", destinations, settings=settings, definitions={"notifications": [rule]}
        ) as hookline:
            for _ in range(30):
                hookline.track()
            # Noted as sent, too: of what a crash leaves in between nobody knows whether it was sent.
            wait_until(lambda: states(hookline) == [("opened", "sent")] * 2, seconds=90, what="the first message")
            hookline.kill9()
            sick.reply_with(200)
            hookline.start()
            both = [("opened", "sent")] * 2 + [("recovered", "sent")] * 2
            wait_until(lambda: states(hookline) == both, seconds=90, what="the end")
        subjects = [str(message["Subject"]) for message in mail.mails]
        headline = "Destination crm keeps failing"
        assert subjects == [f"[Hookline] {headline}", f"[Hookline] Resolved: {headline}"]
        assert [request.json["what"] for request in alerts.requests] == ["opened", "recovered"]
        assert len({request.json["outage"] for request in alerts.requests}) == 1


def test_objects_tests_and_refusals(tmp_path: Path) -> None:
    """By API and command: made, shown without secrets, tested, refused inside, and gone."""
    with Receiver() as alerts, Hookline(tmp_path / "h", settings={"deliver.allow_networks": []}) as hookline:
        inside = {"id": "ops", "name": "Ops", "when": ["disk_low"], "to": {"slack": {"url": alerts.url("/x")}}}
        refused = hookline.api("POST", "notifications", inside)
        assert (refused.status, refused.json["code"]) == (422, "blocked_address")
        assert refused.json["errors"][0]["pointer"] == "/to/0/slack/url"
        # A name is looked up when something is sent.
        secret_url = alerts.url("/services/T0/B0/very-secret").replace("127.0.0.1", "localhost")
        made = hookline.api(
            "POST",
            "notifications",
            {"id": "ops", "name": "Ops", "when": ["disk_low"], "to": {"slack": {"url": secret_url}}},
        )
        assert (made.status, made.json["to"]) == (201, [{"slack": {"url": "…cret"}}])
        exported = hookline.api("GET", "connections/export").body.decode()
        assert "very-secret" not in exported
        (channel,) = hookline.api("POST", "notifications/ops/test").json["channels"]
        assert (channel["sent"], "blocked address" in channel["error"]) == (False, True)
        assert "very-secret" not in str(channel)
        assert alerts.requests == []
        (logged,) = hookline.api("GET", "notification-messages").json["items"]
        assert (logged["what"], logged["state"]) == ("test", "failed")
        wait_until(
            lambda: hookline.api("GET", "notices?kind=notification_failing&state=open").json["items"],
            seconds=60,
            what="the notice that the channel fails",
        )
        wrong = hookline.api("PATCH", "notifications/ops", {"threshold": {"count": 5}})
        assert (wrong.status, wrong.json["errors"][0]["pointer"]) == (422, "/threshold/count")
        assert "dead_letters, rejected_events alone" in wrong.json["detail"]
        token = hookline.api("POST", "tokens", {"name": "look", "scope": "read", "expiresIn": "1d"}).json["text"]
        refused = hookline.api("POST", "notifications/ops/test", headers={"Authorization": f"Bearer {token}"})
        assert refused.status == 403
        assert hookline.api("DELETE", "notifications/ops").status == 204
        assert hookline.api("GET", "notifications/ops").status == 404
