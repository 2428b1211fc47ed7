"""Notices of a running service."""

from __future__ import annotations

import hashlib
import hmac
import os
import signal
from collections.abc import Callable
from typing import Any

from tests.service.harness import Hookline, Receiver, Request, wait_until, webhook

SECRET = "told-by-the-environment"
FULL = {"notices.disk_free": "1000000TB"}


def notices(hookline: Hookline, kind: str, state: str = "open") -> list[dict[str, Any]]:
    """The notices of a kind."""
    items: list[dict[str, Any]] = hookline.api("GET", f"notices?kind={kind}&state={state}").json["items"]
    return items


def wait_for(hookline: Hookline, kind: str, state: str = "open") -> dict[str, Any]:
    """Wait for a notice of a kind; a look is taken every five seconds."""
    return wait_until(lambda: notices(hookline, kind, state), 60, f"{state} notice {kind}")[0]


def sent(receiver: Receiver, id: str) -> list[Request]:
    """Return the webhooks of one notice: on a busy machine there are others, of the machine."""
    return [request for request in receiver.requests if request.json["id"] == id]


def test_a_notice_is_logged_listed_counted_and_sent_once(
    receiver: Receiver, new_hookline: Callable[..., Hookline]
) -> None:
    """It has one row, one signed webhook and one metric, also after a restart."""
    told = {"notices.webhooks": [receiver.url("/ops")], "notices.secret": "env:HOOKLINE_SECRET_OPS"}
    hookline = new_hookline(settings={**FULL, **told}, environment={"HOOKLINE_SECRET_OPS": SECRET})
    with hookline:
        opened = wait_for(hookline, "disk_nearly_full")
        (request,) = wait_until(lambda: sent(receiver, opened["id"]))
        assert request.headers["x-signature"] == hmac.new(SECRET.encode(), request.body, hashlib.sha1).hexdigest()
        assert request.json["nextStep"] == opened["nextStep"]
        assert '"notice_opened"' in hookline.log
        wait_until(lambda: hookline.metric("hookline_control_notices_open") >= 1)
        hookline.restart()
        wait_until(lambda: hookline.metric("hookline_control_notices_open") >= 1)
        assert [each["id"] for each in notices(hookline, "disk_nearly_full")] == [opened["id"]]
        assert len(sent(receiver, opened["id"])) == 1


def test_410_from_every_url_until_it_is_resumed(receiver: Receiver, new_hookline: Callable[..., Hookline]) -> None:
    """The destination is named as paused by Hookline; when it is resumed that is told, and the notice resolved."""
    with new_hookline(webhook("crm", receiver.url())) as hookline:
        receiver.reply_with(410)
        message_id = hookline.track()
        assert "410" in wait_for(hookline, "destination_gone")["message"]
        receiver.reply_with(200)
        assert hookline.api("POST", "destinations/crm/resume").status == 200
        assert wait_for(hookline, "destination_resumed", "resolved")["subject"] == "crm"
        assert notices(hookline, "destination_gone") == []
        hookline.wait_status(message_id, "crm", "delivered")


def test_roles_that_were_killed_are_named(new_hookline: Callable[..., Hookline]) -> None:
    """Also control, which looks: it knows that it stands in for one that ended. A proper restart is no news."""
    with new_hookline() as hookline:
        wait_until(lambda: hookline.metric("hookline_role_up") == 3)
        hookline.restart()
        os.kill(hookline.role("control"), signal.SIGKILL)
        wait_until(lambda: hookline.role("control", required=False))
        hookline.wait_ready()
        assert wait_for(hookline, "role_restarted")["subject"] == "control"
        assert [each["subject"] for each in notices(hookline, "role_restarted")] == ["control"]
        wait_until(lambda: hookline.metric("hookline_role_up") == 3)


def test_a_source_that_stops_sending_is_missed(new_hookline: Callable[..., Hookline]) -> None:
    """Only after it had an event; the next event resolves it."""
    other = {"id": "quiet", "name": "Quiet", "writeKeys": ["wk_quiet"]}
    with new_hookline(settings={"notices.source_silent": "1s"}) as hookline:
        hookline.api("POST", "sources", other)
        hookline.track()
        wait_for(hookline, "source_silent")
        assert [each["subject"] for each in notices(hookline, "source_silent")] == ["site"]


def test_urls_that_cannot_be_used_stop_the_start(new_hookline: Callable[..., Hookline]) -> None:
    """As any unusable setting does: with 2 and the setting's name."""
    hookline = new_hookline(settings={"notices.webhooks": ["ftp://ops.example.com"]})
    assert hookline.launch().wait(60) == 2
    assert "notices.webhooks" in hookline.log
