"""For tests of programs that use the library: a transport that keeps what would have been sent.

The pytest fixture ``hookline_events`` (this package brings it) puts one under the module-level client.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

from hookline_client.answer import Answer
from hookline_client.receipts import Message


class RecordingTransport:
    """Accepts every batch and keeps its events; ``answers`` are given first, one per batch."""

    def __init__(self, *answers: Answer) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        """The events of every batch, also of those that were not accepted."""
        self._answers = list(answers)
        self._lock = threading.Lock()

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events sent so far, in their order."""
        with self._lock:
            return [event for batch in self.batches for event in batch]

    def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
        """Keep a batch."""
        with self._lock:
            self.batches.append([json.loads(body) for _, body in batch])
            return self._answers.pop(0) if self._answers else Answer(200)

    def close(self) -> None:
        """Nothing is open."""

    def forked(self) -> None:
        """Begin anew: what the parent sent is not this process's."""
        self.batches = []
        self._lock = threading.Lock()
