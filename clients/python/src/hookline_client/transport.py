"""How batches leave the process: the port that consumers send through.

``HttpTransport`` is the real one, ``hookline_client.testing.RecordingTransport`` the one for tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hookline_client.answer import Answer
from hookline_client.receipts import Message


class Transport(Protocol):
    """How batches leave. ``send`` never raises and is only called by one thread at a time."""

    def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
        """Send one batch, at most 512,000 bytes in all, and return the answer.

        ``timeout_seconds`` is less time than usual, for the end of a process.
        """

    def close(self) -> None:
        """Let go of the connection; called from another thread, it ends a ``send`` that waits."""

    def forked(self) -> None:
        """Forget the connection, which belongs to the parent process."""
