"""``hookline tail`` on a running service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.cli.conftest import Run, command, environment
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.waiting import WAIT_SECONDS


class Tail:
    """A running ``hookline tail`` and what it has printed."""

    def __init__(self, hookline: Hookline, folder: Path, *arguments: str) -> None:
        self._output, self._errors = folder / "output", folder / "errors"
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command(hookline, "tail", *arguments), env=environment(), stdout=output, stderr=errors
            )

    @property
    def lines(self) -> list[str]:
        """The whole lines so far."""
        return self._output.read_text().split("\n")[:-1]

    @property
    def errors(self) -> str:
        """What it said about itself."""
        return self._errors.read_text()

    def wait_for(self, text: str) -> str:
        """Wait for a line with a text."""
        return wait_until(lambda: next((line for line in self.lines if text in line), ""), what=f"{text} in the tail")

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(WAIT_SECONDS)


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Callable[..., Tail]]:
    """Start a tail, which is ended with the test."""
    made: list[Tail] = []

    def start(hookline: Hookline, *arguments: str) -> Tail:
        made.append(Tail(hookline, tmp_path, *arguments))
        return made[-1]

    yield start
    for tail in made:
        if tail.process.poll() is None:
            tail.process.kill()
            tail.process.wait(WAIT_SECONDS)
        assert "Traceback" not in tail.errors, tail.errors


def test_events_are_shown_with_their_status(
    receiver: Receiver, new_hookline: Callable[..., Hookline], follow: Callable[..., Tail]
) -> None:
    """The last ones first, then new ones as they come, and again when their status changed; Ctrl-C is no failure."""
    with new_hookline(webhook("crm", receiver.url())) as hookline:
        hookline.wait_status(hookline.track("Before", userId="u1"), "crm", "delivered")
        tail = follow(hookline)
        assert "● delivered" in tail.wait_for("Before")
        hookline.wait_status(hookline.track("After", userId="u2"), "crm", "delivered")
        wait_until(lambda: any("● delivered" in line for line in tail.lines if "After" in line))
        assert [line for line in tail.lines if "Before" in line] == [tail.wait_for("Before")]
        assert "u2  site" in tail.wait_for("After")
        assert (tail.end(), tail.errors) == (0, "")


def test_filters_and_json(new_hookline: Callable[..., Hookline], follow: Callable[..., Tail]) -> None:
    """Only what is asked for, one object per line; SIGTERM ends it as well."""
    with new_hookline() as hookline:
        for name in ("Wanted", "Other", "Wanted"):
            hookline.track(name)
        tail = follow(hookline, "--json", "--event", "Wanted", "--last", "1")
        tail.wait_for("Wanted")
        hookline.track("Other")
        message_id = hookline.track("Wanted")
        tail.wait_for(message_id)
        messages: list[dict[str, Any]] = [json.loads(line) for line in tail.lines]
        assert [each["data"]["event"]["event"] for each in messages] == ["Wanted", "Wanted"]
        assert messages[-1]["data"]["status"] == "not_routed"
        assert tail.end(signal.SIGTERM) == 0


def test_it_goes_on_where_it_was_after_a_restart(
    new_hookline: Callable[..., Hookline], follow: Callable[..., Tail]
) -> None:
    """What came while the page's process was away is shown too, and both turns are said."""
    with new_hookline() as hookline:
        tail = follow(hookline)
        first = hookline.track("First")
        tail.wait_for("First")
        control = hookline.role("control")
        os.kill(control, signal.SIGSTOP)
        os.kill(control, signal.SIGKILL)
        meanwhile = [hookline.track(f"Meanwhile {number}") for number in range(3)]
        for number in range(3):
            tail.wait_for(f"Meanwhile {number}")
        assert len({first, *meanwhile}) == 4
        assert len(tail.lines) == 4
        assert "lost" in tail.errors
        assert "reconnected" in tail.errors
        hookline.wait_ready()


def test_what_is_too_much_is_counted(new_hookline: Callable[..., Hookline], follow: Callable[..., Tail]) -> None:
    """Of a burst only the newest are shown; the numbers add up."""
    with new_hookline() as hookline:
        hookline.track("First")
        tail = follow(hookline, "--json", "--last", "1")
        tail.wait_for("First")
        batch = [{"type": "track", "userId": "u1", "event": f"Burst {number}"} for number in range(500)]
        assert hookline.post("/v1/batch", {"batch": batch}).status == 200
        tail.wait_for("Burst 499")
        messages = [json.loads(line) for line in tail.lines]
        left_out = sum(each["data"]["count"] for each in messages if each["kind"] == "skipped")
        shown = sum(each["kind"] == "event" for each in messages)
        assert left_out > 0
        assert left_out + shown == 501


def test_without_a_server_it_fails_with_a_sentence(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """Before it ever was connected there is nothing to wait for."""
    with new_hookline() as hookline:
        assert run(hookline, "tail", "--token", "wrong").returncode == 1
    done = run(hookline, "tail")
    assert (done.returncode, "no answer from Hookline" in done.stderr) == (1, True)
    assert run(hookline, "tail", "--last", "-1").returncode == 2
