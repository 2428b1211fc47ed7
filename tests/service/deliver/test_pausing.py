"""Pause, resume and disable on the real service, through API and command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.service.deliver.per_case import Cases
from tests.service.harness import COMMAND, Hookline, Receiver, holds_for, wait_until, webhook

CASES = ("drained", "discarded", "repaired")


@pytest.fixture
def hookline(cases: Cases) -> Hookline:
    """The service of the cases."""
    return cases.hookline


def standing(hookline: Hookline, destination: str = "crm") -> dict[str, Any]:
    """How the destination stands."""
    answer = hookline.api("GET", f"destinations/{destination}/metrics")
    assert answer.status == 200
    return dict(answer.json)


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
    wait_until(lambda: standing(hookline)["figures"]["queued"] >= 6, what="the count")
    assert standing(hookline)["figures"]["oldestAt"]
    holds_for(lambda: not receiver.of(sent[-1]), 0.5, "nothing is sent")
    resumed = command(hookline, "resume", "crm", "--rate", "100")
    assert "hookline pause crm" in resumed.stdout, resumed.stderr
    for message_id in sent:
        hookline.wait_status(message_id, "crm", "delivered", seconds=30)
        assert len(receiver.of(message_id)) == 1


def test_changing_a_paused_destination_leaves_it_paused(hookline: Hookline) -> None:
    """A new name is no resume."""
    hookline.api("POST", "destinations", webhook("quiet", "https://quiet.example.com/x", sources=[]))
    assert hookline.api("POST", "destinations/quiet/pause", {"reason": "later"}).status == 200
    assert hookline.api("PATCH", "destinations/quiet", {"name": "Quieter"}).status == 200
    wait_until(lambda: standing(hookline, "quiet")["state"] == "paused", what="still paused")


def test_what_cannot_be_paused(hookline: Hookline) -> None:
    """One that is not there, one that is disabled, and a body that says nothing known."""
    hookline.api("POST", "destinations", webhook("off", "https://off.example.com/x", sources=[], enabled=False))
    assert hookline.api("POST", "destinations/nobody/pause").status == 404
    refused = hookline.api("POST", "destinations/off/pause")
    assert (refused.status, refused.json["code"]) == (409, "not_enabled")
    assert hookline.api("POST", "destinations/off/resume", {"rate": 0}).status in (409, 422)
    assert hookline.api("POST", "destinations/off/pause", {"why": "?"}).status in (400, 422)
    assert standing(hookline, "off")["state"] == "disabled"
    assert command(hookline, "pause", "nobody").returncode == 1


def test_disabling_asks_what_becomes_of_what_waits(
    hookline: Hookline, cases: Cases, receivers: dict[str, Receiver]
) -> None:
    """Nothing changes until one has chosen; drained events arrive, later ones do not, and then the lane is gone."""
    receivers["drained"].reply_with(503)
    message_id = cases.send("drained")
    wait_until(lambda: standing(hookline, "drained")["figures"]["retrying"] == 1, what="a failure")
    asked = command(hookline, "disable", "drained")
    assert asked.returncode == 1
    assert "1 event waits for drained" in asked.stderr
    assert "--waiting" in asked.stderr
    assert hookline.api("GET", "destinations/drained").json["enabled"] is True
    assert command(hookline, "disable", "drained", "--waiting", "drain").returncode == 0
    assert standing(hookline, "drained")["state"] == "draining"
    wait_until(
        lambda: cases.part("drained", cases.send("drained"))["status"] == "not_routed", what="nothing new is taken"
    )
    receivers["drained"].reply_with(200)
    hookline.wait_status(message_id, "drained", "delivered", seconds=60)
    wait_until(lambda: standing(hookline, "drained")["state"] == "disabled", 30, "the end of the lane")


def test_discarding_is_on_the_record(hookline: Hookline, cases: Cases, receivers: dict[str, Receiver]) -> None:
    """The status says so, and a destination for which nothing waits is disabled without a question."""
    receivers["discarded"].reply_with(503)
    message_id = cases.send("discarded")
    wait_until(lambda: standing(hookline, "discarded")["figures"]["retrying"] == 1, what="a failure")
    assert hookline.api("POST", "destinations/discarded/disable").json["code"] == "waiting_events"
    assert hookline.api("POST", "destinations/discarded/disable", {"waiting": "discard"}).status == 200
    hookline.wait_status(message_id, "discarded", "discarded", seconds=30)
    hookline.api("POST", "destinations", webhook("idle", receivers["discarded"].url(), sources=[]))
    assert hookline.api("POST", "destinations/idle/disable").json["state"] == "disabled"


def test_a_receiver_that_was_repaired_gets_everything_by_try_now(
    hookline: Hookline, cases: Cases, receivers: dict[str, Receiver]
) -> None:
    """It had asked to be left alone for ten minutes: by the command line at once, each of its events once more."""
    receiver = receivers["repaired"]
    receiver.reply_with(503, headers={"Retry-After": "600"})
    sent = [cases.send("repaired") for _ in range(40)]
    wait_until(lambda: len(receiver.requests) >= 20, what="enough failures for single attempts")
    receiver.reply_with(200)
    asked = command(hookline, "try", "repaired", "--yes", "--json")
    assert json.loads(asked.stdout)["figures"]["retrying"] > 0, asked.stderr
    for message_id in sent:
        hookline.wait_status(message_id, "repaired", "delivered")
    assert command(hookline, "try", "repaired", "--yes").returncode == 1


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
