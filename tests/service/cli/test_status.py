"""``hookline status`` on a running service: quiet when all is well, and what is wrong when a receiver is down."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable

from tests.service.cli.conftest import Run, command, environment
from tests.service.harness import Hookline, Receiver, wait_until, webhook


def test_it_names_what_is_wrong(new_hookline: Callable[..., Hookline], receiver: Receiver, run: Run) -> None:
    """A healthy service is one line and 0; a receiver that answers 503 is named with its figures, and 1."""
    hookline = new_hookline(webhook("crm", receiver.url()), webhook("erp", receiver.url("/erp"))).start()
    hookline.wait_status(hookline.track(), "erp", "delivered")
    all_is_sent = "2 destinations healthy or disabled"  # what is queued is named, and both were delivered a moment ago
    wait_until(lambda: all_is_sent in run(hookline, "status").stdout, what="all is well")
    calm = run(hookline, "status")
    assert (calm.returncode, calm.stdout.startswith("● all is well, as of ")) == (0, True)
    receiver.reply_with(503)
    for _ in range(30):
        hookline.track()
    wait_until(lambda: run(hookline, "status").returncode == 1, what="it is noticed")
    wait_until(lambda: "■ erroring (503)" in run(hookline, "status").stdout, what="the breaker is open")
    found = json.loads(run(hookline, "status", "--json").stdout)
    assert not found["ok"]
    assert {each["id"] for each in found["destinations"]} == {"crm", "erp"}
    crm = next(each for each in found["destinations"] if each["id"] == "crm")
    assert crm["figures"]["queued"] + crm["figures"]["retrying"] == 30
    assert crm["since"]
    assert crm["problem"]["httpStatus"] == 503
    assert set(found["roles"].values()) == {"working"}
    shown = on_a_terminal(hookline, "status")
    assert "Destination" in shown
    assert "Retrying" in shown
    assert "erroring (503)" in shown
    assert "\x1b[" in shown
    assert f"{crm['since'][:10]}T" not in shown  # local time, as people read it
    assert f"{crm['since'][:10]}T" in on_a_terminal(hookline, "status", "--utc")


def test_lists_are_tables_on_a_terminal(new_hookline: Callable[..., Hookline], receiver: Receiver, run: Run) -> None:
    """With a head and local times for a person, a line for each item into a pipe, and the same ids in both."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    receiver.reply_with(422)
    hookline.wait_status(id := hookline.track(), "crm", "failed")
    wait_until(lambda: "Refusing (422)" in run(hookline, "issues").stdout, what="the issue")
    assert run(hookline, "tokens", "create", "deploy").returncode == 0
    for arguments, heads, held in (
        (("events",), ("Accepted", "Status"), id),
        (("events", "--destination", "crm", "--status", "failed", "--from", "1h"), ("Accepted", "Status"), id),
        (("attempts", "--destination", "crm"), ("Outcome", "Error"), "refused 422"),
        (("issues",), ("Cause", "Dead letters"), "Refusing (422)"),
        (("dead-letters", "list"), ("Why", "Attempts"), "refused 422"),
        (("history",), ("Version", "Objects"), "+destination crm"),
        (("audit-log",), ("Action", "Changes"), "create token"),
    ):
        shown, piped = on_a_terminal(hookline, *arguments), run(hookline, *arguments).stdout
        assert all(head in shown.splitlines()[0] for head in heads), shown
        assert not any(head in piped.splitlines()[0] for head in heads), piped
        assert held.split()[-1] in shown
        assert held.split()[-1] in piped
        assert "T" in piped.split("Z")[0][-15:]  # the API's own time
    assert run(hookline, "events", "--destination", "crm", "--status", "delivered").stdout == "no event matches\n"
    refused = run(hookline, "attempts", "crm", "--http-status", "42")
    assert refused.returncode == 1
    assert refused.stderr.count(">= 100") == 1  # what is wrong is said once


def test_a_receiver_that_refuses_every_event_is_named_so(
    new_hookline: Callable[..., Hookline], receiver: Receiver, run: Run
) -> None:
    """It is sent everything, and accepts nothing: not "degraded", and its open issue is named beside it."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    receiver.reply_with(422)
    for _ in range(5):
        hookline.track()
    wait_until(lambda: "■ refusing (422)" in run(hookline, "status").stdout, 60, what="its state")
    shown = run(hookline, "status").stdout
    assert "▲ 1 open issue; see hookline issues" in shown
    found = hookline.api("GET", "destinations/crm/metrics").json
    assert (found["state"], found["nextTry"], found["failingShare"]) == ("refusing", None, 1.0)


def on_a_terminal(hookline: Hookline, *arguments: str) -> str:
    """What a person sees who types it."""
    ours, theirs = pty.openpty()
    settings = {**environment(), "TERM": "xterm-256color", "COLUMNS": "200"}
    with subprocess.Popen(command(hookline, *arguments), stdout=theirs, stderr=theirs, env=settings):
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65_536):
                shown += part
        except OSError:  # its end, on Linux
            pass
    os.close(ours)
    return shown.decode()
