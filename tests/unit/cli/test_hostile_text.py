"""What senders and receivers said, in what commands print: it cannot steer the terminal, and may have any shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hookline.cli.service.doctor import doctor
from hookline.cli.target import Target
from hookline.connections.model import Pause
from hookline.connections.store import Store
from hookline.features.connections.cli.objects import print_events
from hookline.features.dead_letters.cli import print_list, print_one
from hookline.features.events.cli.tail import lines
from hookline.features.replays.cli import start
from tests.unit.connections.examples import change, destination, source

HOSTILE = "\x1b]0;owned\x07\x9b2J"
AT = "2026-11-20T07:00:00.000Z"
ATTEMPT = {"number": 1, "url": "https://a.example/", "at": AT, "outcome": "refused", "error": HOSTILE}
EVENT: dict[str, Any] = {
    "type": "track",
    "messageId": HOSTILE,
    "source": "site",
    "userId": HOSTILE,
    "receivedAt": AT,
    "status": None,
    "event": {"event": HOSTILE},
    "destinations": [{"id": "crm", "status": "failed", "detail": HOSTILE, "attempts": [ATTEMPT]}],
}
LETTER: dict[str, Any] = {
    **EVENT,
    "id": 1,
    "at": AT,
    "destination": "crm",
    "status": "failed",
    "event": HOSTILE,
    "attempts": 1,
    "replay": None,
    "outcome": "refused",
    "httpStatus": 400,
    "error": HOSTILE,
    "history": [ATTEMPT],
    "payload": {"a": HOSTILE},
}
COUNTED: dict[str, Any] = {
    "id": "dry-1",
    "state": "counted",
    "total": 1,
    "destination": "crm",
    "etaSeconds": 1,
    "sample": [{**EVENT, "event": HOSTILE}],
}


class Answers:
    """An admin API that has one answer."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def get(self, *_: object, **__: object) -> Any:
        """Give it."""
        return self._answer

    request = newest = get


def test_no_command_lets_what_was_said_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """The time line of an event, dead letters, and the first events of a replay."""
    print("\n".join(lines(EVENT)))
    print_list(Answers([LETTER]), {}, 1, as_json=False, utc=True)  # type: ignore[arg-type]
    print_one(Answers(LETTER), "1", as_json=False)  # type: ignore[arg-type]
    start(Answers(COUNTED), {}, dry_run=True, yes=True, detach=True, as_json=False)  # type: ignore[arg-type]
    printed = capsys.readouterr().out
    assert printed.count("\\u001b]0;owned") >= 10
    assert printed.replace("\n", "").isprintable()


def test_doctor_does_not_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its findings hold what teammates and receivers wrote, such as the reason of a pause."""
    store = Store(tmp_path / "control.db")
    change(store, source(), destination("crm"))
    store.pause("crm", Pause(since=0, reason=HOSTILE), "me", lambda: {0: 0})
    store.close()
    doctor(Target(data_dir=str(tmp_path)), as_json=False)
    printed = capsys.readouterr().out
    assert "crm: paused, \\u001b]0;owned" in printed
    assert printed.replace("\n", "").isprintable()


@pytest.mark.parametrize("body", [None, "not JSON", ["a", "list"], 7])
def test_events_that_are_no_objects_are_listed(body: object, capsys: pytest.CaptureFixture[str]) -> None:
    """Erased ones, and rejected ones that were something else."""
    print_events(Answers([{**EVENT, "event": body, "messageId": "m1"}]), {}, 1, as_json=False, utc=True)  # type: ignore[arg-type]
    assert "m1" in capsys.readouterr().out


def test_what_programs_read_is_json_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of it is lost."""
    print_one(Answers(LETTER), "1", as_json=True)  # type: ignore[arg-type]
    assert json.loads(capsys.readouterr().out) == LETTER
