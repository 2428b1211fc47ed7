"""The uploader is killed before each of its steps in turn, and the next run finishes what it left."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hookline_client.answer import Answer
from hookline_client.receipts import Message
from hookline_client.uploader.exit_code import ExitCode
from hookline_client.uploader.report import Report
from hookline_client.uploader.uploader import Uploader

LINES = 4
BATCH_LINES = 2
STEPS_MAX = 300
CALLS = [(os, name) for name in ("open", "write", "rename", "replace", "unlink", "fsync", "ftruncate")]
CALLS += [(fcntl, "flock")]


class FileTransport:
    """A service in a file: the messageIds of each batch it acknowledged, a line per batch."""

    def __init__(self, acknowledged: Path) -> None:
        self._acknowledged = acknowledged

    def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
        """Write a batch down, then acknowledge it."""
        with self._acknowledged.open("a") as file:
            file.write(json.dumps([message_id for message_id, _ in batch]) + "\n")
        return Answer(200)

    def close(self) -> None:
        """Nothing is open."""

    def forked(self) -> None:
        """Nothing is open."""


class Killer:
    """Counts steps and ends this process, as kill -9 does, before the one with the given number."""

    def __init__(self, number: int) -> None:
        self._left = number

    def step(self, call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """One step."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **more)

    def arm(self, transport: FileTransport) -> None:
        """Count every call to the system that changes something, and both sides of each request."""
        for module, name in CALLS:
            setattr(module, name, partial(self.step, getattr(module, name)))
        send = transport.send
        transport.send = lambda *given: self.step(lambda answer: answer, self.step(send, *given))  # type: ignore[method-assign]


def write_log(log: Path) -> None:
    """Four events, and a line in the middle that is none."""
    lines = [json.dumps({"type": "track", "messageId": f"m{number}"}) for number in range(LINES)]
    log.write_text("\n".join([*lines[:3], "rubbish", *lines[3:]]) + "\n")


def run(log: Path, acknowledged: Path, kill_at: int = 0) -> int:
    """One run in a process of its own; return its exit code, -9 when it was killed."""
    child = os.fork()
    if child == 0:
        transport = FileTransport(acknowledged)
        if kill_at:
            Killer(kill_at).arm(transport)
        os._exit(Uploader(str(log), transport, Report()).run())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_killed_before_each_step_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is killed: all events arrive, at most the batch under way repeats, the bad line is kept once."""
    monkeypatch.setattr("hookline_client.uploader.line_batch.BATCH_EVENTS_MAX", BATCH_LINES)
    monkeypatch.setattr(os, "fsync", lambda file: None)  # a step all the same; it would take most of the time
    for step in range(1, STEPS_MAX):
        folder = tmp_path / str(step)
        folder.mkdir()
        log, acknowledged = folder / "app.log", folder / "acknowledged"
        write_log(log)
        was_killed = run(log, acknowledged, kill_at=step) == -signal.SIGKILL
        if was_killed:
            assert run(log, acknowledged) in (ExitCode.DONE, ExitCode.SET_ASIDE), step
        assert_complete(folder, repeats_max=BATCH_LINES if was_killed else 0)
        if not was_killed:
            break
    assert 30 < step < STEPS_MAX - 1


def test_killed_again_and_again_it_still_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that gets no further than one batch each time moves on each time."""
    monkeypatch.setattr("hookline_client.uploader.line_batch.BATCH_EVENTS_MAX", BATCH_LINES)
    monkeypatch.setattr(os, "fsync", lambda file: None)  # a step all the same; it would take most of the time
    log, acknowledged = tmp_path / "app.log", tmp_path / "acknowledged"
    write_log(log)
    killed = 0
    while run(log, acknowledged, kill_at=20) == -signal.SIGKILL:
        killed += 1
        assert killed < 10
    assert killed > 1
    assert_complete(tmp_path, repeats_max=BATCH_LINES * killed)


def assert_complete(folder: Path, repeats_max: int) -> None:
    """All events were acknowledged, in order, and nothing but the bad line and the lock is left."""
    batches = [json.loads(line) for line in (folder / "acknowledged").read_text().splitlines()]
    ids = [message_id for batch in batches for message_id in batch]
    assert sorted(set(ids)) == [f"m{number}" for number in range(LINES)]
    assert len(ids) - LINES <= repeats_max
    entries = (folder / "app.log.rejected").read_text().splitlines()
    assert [json.loads(entry)["line"] for entry in entries] == ["rubbish"]
    assert {path.name for path in folder.iterdir()} == {"acknowledged", "app.log.lock", "app.log.rejected"}
