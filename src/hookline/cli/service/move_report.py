"""What ``hookline migrate-to`` prints: lines while it works, and what came of it, for people or as JSON."""

from __future__ import annotations

import json
import sys
from typing import Literal

from hookline.settings import Settings

State = Literal["prepared", "moved", "back"]


class MoveReport:
    """Of one run; as JSON one object on standard output, and the lines beside it on standard error."""

    def __init__(self, old: Settings, new: Settings, as_json: bool) -> None:
        self.stopped_seconds: float | None = None
        """How long ago the service was stopped, where this run has ended the move."""
        self.events_left = 0
        """Events that a way back left behind."""
        self._old = old
        self._new = new
        self._as_json = as_json
        self._warnings: list[str] = []

    def tell(self, line: str) -> None:
        """How far it is."""
        print(line, file=sys.stderr if self._as_json else sys.stdout, flush=True)

    def warn(self, sentence: str) -> None:
        """What somebody may want to change before it is too late."""
        self._warnings.append(sentence)
        self.tell(f"warning: {sentence}")

    def end(self, state: State, line: str) -> None:
        """What came of it."""
        if not self._as_json:
            self.tell(line)
            return
        report = {
            "state": state,
            "from": str(self._old.data_path),
            "to": str(self._new.data_path),
            "journal": self._new.journal.url,
            "partitions": self._new.journal.partitions,
            "stoppedSeconds": self.stopped_seconds,
            "eventsLeft": self.events_left,
            "warnings": self._warnings,
            "nextStep": line,
        }
        print(json.dumps(report), flush=True)
