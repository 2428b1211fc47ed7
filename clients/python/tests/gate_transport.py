"""A transport that a test opens and closes, so that queues fill and empty when the test wants it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from hookline_client.answer import Answer
from hookline_client.receipts import Message


class GateTransport:
    """While shut, ``send`` waits; ``entered`` is set once a batch is waiting. Keeps the ids of all batches.

    ``deaf``: closing it does not end a ``send`` that waits, as nothing ends a look-up of a name.
    """

    def __init__(self, *answers: Answer, shut: bool = True, deaf: bool = False) -> None:
        self._deaf = deaf
        self.batches: list[list[str]] = []
        self.entered = threading.Event()
        self.closed = False
        self._open = threading.Event()
        self._answers = list(answers)
        if not shut:
            self._open.set()

    def open(self) -> None:
        """Let all batches pass from now on."""
        self._open.set()

    @property
    def ids(self) -> list[str]:
        """The messageIds of all batches that passed."""
        return [message_id for batch in self.batches for message_id in batch]

    def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
        """Wait for the gate, then answer."""
        self.entered.set()
        self._open.wait(30.0)
        if self.closed:
            return Answer(0, "connection_failed", "closed")
        self.batches.append([message_id for message_id, _ in batch])
        return self._answers.pop(0) if self._answers else Answer(200)

    def close(self) -> None:
        """End a ``send`` that waits."""
        if self._deaf:
            return
        self.closed = True
        self._open.set()

    def forked(self) -> None:
        """Nothing is open."""
