"""Pause, resume and disable on the real service, through API and command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

from tests.service.harness import COMMAND, Hookline, Receiver, holds_for, wait_until, webhook


def standing(hookline: Hookline, destination: str = "crm") -> dict[str, object]:
    """How the destination stands."""
    answer = hookline.api("GET", f"destinations/{destination}/metrics")
    assert answer.status == 200
    found: dict[str, object] = answer.json
    return found


def command(hookline: Hookline, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command against the service."""
    address = ["--api", f"http://127.0.0.1:{hookline.control_port}", "--token", hookline.admin_token]
    return subprocess.run(
        [*COMMAND[:-1], *arguments, *address], capture_output=True, text=True, timeout=60, check=False
    )


def test_what_comes_while_paused_is_sent_after_it(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """Across kill -9; count and age are shown meanwhile, and each event arrives once."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    hookline.wait_status(hookline.track("before"), "crm", "delivered")
    paused = command(hookline, "pause", "crm", "--reason", "moving house", "--json")
    assert json.loads(paused.stdout)["paused"]["reason"] == "moving house", paused.stderr
    wait_until(lambda: standing(hookline)["state"] == "paused", what="paused")
    sent = [hookline.track("meanwhile") for _ in range(5)]
    hookline.kill9()
    hookline.start()
    sent.append(hookline.track("meanwhile"))
    hookline.wait_status(sent[0], "crm", "queued", 30, reason="paused")
    wait_until(lambda: standing(hookline)["figures"]["queued"] >= 6, what="the count")  # type: ignore[index]
    assert standing(hookline)["figures"]["oldestAt"]  # type: ignore[index]
    holds_for(lambda: not receiver.of(sent[-1]), 0.5, "nothing is sent")
    resumed = command(hookline, "resume", "crm", "--rate", "100")
    assert "hookline pause crm" in resumed.stdout, resumed.stderr
    for message_id in sent:
        hookline.wait_status(message_id, "crm", "delivered", seconds=30)
        assert len(receiver.of(message_id)) == 1


def test_changing_a_paused_destination_leaves_it_paused(new_hookline: Callable[..., Hookline]) -> None:
    """A new name is no resume."""
    hookline = new_hookline().start()
    hookline.api("POST", "destinations", webhook("quiet", "https://quiet.example.com/x"))
    assert hookline.api("POST", "destinations/quiet/pause", {"reason": "later"}).status == 200
    assert hookline.api("PATCH", "destinations/quiet", {"name": "Quieter"}).status == 200
    wait_until(lambda: standing(hookline, "quiet")["state"] == "paused", what="still paused")


def test_what_cannot_be_paused(new_hookline: Callable[..., Hookline]) -> None:
    """One that is not there, one that is disabled, and a body that says nothing known."""
    hookline = new_hookline().start()
    hookline.api("POST", "destinations", webhook("off", "https://off.example.com/x", enabled=False))
    assert hookline.api("POST", "destinations/nobody/pause").status == 404
    refused = hookline.api("POST", "destinations/off/pause")
    assert (refused.status, refused.json["code"]) == (409, "not_enabled")
    assert hookline.api("POST", "destinations/off/resume", {"rate": 0}).status in (409, 422)
    assert hookline.api("POST", "destinations/off/pause", {"why": "?"}).status in (400, 422)
    assert standing(hookline, "off")["state"] == "disabled"
    assert command(hookline, "pause", "nobody").returncode == 1


def test_disabling_asks_what_becomes_of_what_waits(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """Nothing changes until one has chosen; drained events arrive, later ones do not, and then the lane is gone."""
    receiver.reply_with(503)
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    message_id = hookline.track()
    wait_until(lambda: standing(hookline)["figures"]["retrying"] == 1, what="a failure")  # type: ignore[index]
    asked = command(hookline, "disable", "crm")
    assert asked.returncode == 1
    assert "1 event waits for crm" in asked.stderr
    assert "--waiting" in asked.stderr
    assert hookline.api("GET", "destinations/crm").json["enabled"] is True
    assert command(hookline, "disable", "crm", "--waiting", "drain").returncode == 0
    assert standing(hookline)["state"] == "draining"
    wait_until(
        lambda: hookline.status_at(hookline.track(), "crm")["status"] == "not_routed", what="nothing new is taken"
    )
    receiver.reply_with(200)
    hookline.wait_status(message_id, "crm", "delivered", seconds=60)
    wait_until(lambda: standing(hookline)["state"] == "disabled", 30, "the end of the lane")


def test_discarding_is_on_the_record(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """The status says so, and a destination for which nothing waits is disabled without a question."""
    receiver.reply_with(503)
    hookline = new_hookline(webhook("crm", receiver.url()), webhook("idle", receiver.url(), sources=[])).start()
    message_id = hookline.track()
    wait_until(lambda: standing(hookline)["figures"]["retrying"] == 1, what="a failure")  # type: ignore[index]
    assert hookline.api("POST", "destinations/crm/disable").json["code"] == "waiting_events"
    assert hookline.api("POST", "destinations/crm/disable", {"waiting": "discard"}).status == 200
    hookline.wait_status(message_id, "crm", "discarded", seconds=30)
    assert hookline.api("POST", "destinations/idle/disable").json["state"] == "disabled"


def test_a_receiver_that_was_repaired_gets_everything_by_try_now(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """It had asked to be left alone for ten minutes: by the command line at once, each of its events once more."""
    receiver.reply_with(503, headers={"Retry-After": "600"})
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    sent = [hookline.track() for _ in range(40)]
    wait_until(lambda: len(receiver.requests) >= 20, what="enough failures for single attempts")
    receiver.reply_with(200)
    asked = command(hookline, "try", "crm", "--yes", "--json")
    assert json.loads(asked.stdout)["figures"]["retrying"] > 0, asked.stderr
    for message_id in sent:
        hookline.wait_status(message_id, "crm", "delivered")
    assert command(hookline, "try", "crm", "--yes").returncode == 1


def test_a_file_does_not_stop_a_drain(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """The service starts although its file enables what still drains; the drain ends, and the file counts again."""
    receiver.reply_with(503)
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    message_id = hookline.track()
    wait_until(lambda: receiver.of(message_id), what="tried")
    assert command(hookline, "disable", "crm", "--waiting", "drain", "--yes").returncode == 0
    hookline.restart()
    assert "destination_still_drains" in hookline.log
    assert hookline.api("GET", "destinations/crm").json["enabled"] is False
    receiver.reply_with(200)
    hookline.wait_status(message_id, "crm", "delivered", seconds=30)
    wait_until(lambda: standing(hookline)["state"] == "disabled", what="the drain has ended")
    hookline.restart()
    assert hookline.api("GET", "destinations/crm").json["enabled"] is True
