"""Issues of the real service: one for each cause, over kill -9, by the command line, until everything has arrived."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from tests.service.cli.conftest import Run
from tests.service.cli.conftest import run as run
from tests.service.deliver.certificates import Authority
from tests.service.harness import Hookline, Receiver, Reply, Request, free_port, new_id, wait_until, webhook

EVENTS = 300
BATCH = 50


def issues(hookline: Hookline, query: str = "") -> dict[str, dict[str, Any]]:
    """Return the issues by their destination."""
    return {each["destination"]: each for each in hookline.api("GET", f"issues{query}").json["items"]}


def refusing() -> Callable[[Request], Reply]:
    """Answer as a receiver that repeats what it was sent, with ids of its own."""
    numbers = count()

    def refuse(request: Request) -> Reply:
        said = f"Order {request.message_id} of user{next(numbers)}@shop.example has no total"
        return Reply(422, json.dumps({"error": {"message": said, "request": new_id()}}).encode())

    return refuse


def send(hookline: Hookline, events: int) -> list[str]:
    """Send so many events in batches."""
    sent = [new_id() for _ in range(events)]
    for first in range(0, events, BATCH):
        batch = [{"type": "track", "userId": "u1", "event": "Order", "messageId": id} for id in sent[first:][:BATCH]]
        assert hookline.post("/v1/batch", {"batch": batch}).status == 200
    return sent


def story(hookline: Hookline, receiver: Receiver, run: Run) -> None:
    """Events that fail alike are one issue; control is killed in between; all of it is sent again."""
    receiver.respond = refusing()
    sent = send(hookline, EVENTS // 2)
    wait_until(lambda: issues(hookline).get("refusing"), 60, "the issue")
    os.kill(hookline.role("control"), signal.SIGKILL)
    sent += send(hookline, EVENTS // 2)
    hookline.wait_ready()
    wait_until(lambda: issues(hookline)["refusing"]["events"] >= EVENTS, 60, "every event counted")
    issue = issues(hookline)["refusing"]
    assert (issue["events"], issue["attempts"], issue["deadLetters"]) == (EVENTS, EVENTS, EVENTS)
    assert issue["title"] == "Refusing (422): Order … of … has no total"
    detail = hookline.api("GET", f"issues/{issue['id']}").json
    assert detail["sample"]["messageId"] in sent
    refused = run(hookline, "issues", "retry", issue["id"])
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True), "nobody can be asked here"
    receiver.reply_with(200)
    assert f"{EVENTS} dead letters" in run(hookline, "issues", "retry", issue["id"], "--yes").stdout
    for message in sent:
        receiver.wait_for(message, 2)
    wait_until(lambda: issues(hookline)["refusing"]["deadLetters"] == 0, what="no dead letter is left")
    assert issues(hookline)["refusing"]["attempts"] == EVENTS


def test_one_issue_for_each_cause(
    new_hookline: Callable[..., Hookline], receiver: Receiver, run: Run, tmp_path: Path
) -> None:
    """Refused, erring, silent, not there, not to be trusted: five issues in words, whatever each event is."""
    strange = Authority(tmp_path).server()
    with Receiver() as erring, Receiver() as silent, Receiver(tls=strange) as untrusted:
        erring.reply_with(503, body=b"<html><head><title>Down for maintenance</title></head></html>")
        silent.reply_with(200, delay_seconds=60.0)
        destinations = [
            webhook("refusing", receiver.url()),
            webhook("erring", erring.url()),
            webhook("silent", silent.url()),
            webhook("absent", f"http://127.0.0.1:{free_port()}/hook"),
            webhook("untrusted", untrusted.url()),
        ]
        settings = {"deliver.timeout": "2s", "deliver.retry_max": "1s"}
        with new_hookline(*destinations, settings=settings) as hookline:
            story(hookline, receiver, run)
            wait_until(lambda: len(issues(hookline)) == 5, 60, "the other four")
            listed = hookline.api("GET", "issues").json["items"]
            assert len(listed) == 5
            titles = {each["destination"]: each["title"] for each in listed}
            assert titles["erring"] == "Erroring (503): Down for maintenance"
            assert titles["silent"].startswith("Timing out")
            assert titles["absent"].startswith("Unreachable")
            assert titles["untrusted"].startswith("TLS failing")
            wait_until(lambda: hookline.metric("hookline_control_issues_open") == 5, 60, "the metric")
            by_command(hookline, run, issues(hookline)["silent"]["id"])


def by_command(hookline: Hookline, run: Run, id: str) -> None:
    """Look at an issue, note something, ignore it and open it again, as a person at a terminal does."""
    listed = run(hookline, "issues").stdout
    assert f"{id}  ▲ open  silent" in listed
    shown = run(hookline, "issues", "show", id)
    assert "Timing out" in shown.stdout
    assert "did not answer in time" in shown.stdout
    assert run(hookline, "issues", "note", id, "Ann looks").returncode == 0
    assert "Ann looks" in run(hookline, "issues", "show", id).stdout
    assert "is ignored" in run(hookline, "issues", "ignore", id).stdout
    assert id not in run(hookline, "issues", "list", "--destination", "silent").stdout
    assert json.loads(run(hookline, "issues", "list", "--state", "ignored", "--json").stdout)[0]["id"] == id
    assert "is open" in run(hookline, "issues", "ignore", id, "--undo").stdout
    for wrong in (("show", "nope"), ("retry", "nope", "--yes"), ("ignore", "nope"), ("note", "nope", "x")):
        failed = run(hookline, "issues", *wrong)
        assert (failed.returncode, "hookline issues --state" in failed.stderr) == (1, True), wrong
