"""What every consumer does.

A consumer takes messages that are encoded already (``Message``: messageId, and one JSON object of at most 32,768 bytes)
and brings them out of the process. It writes what became of each into the ``Ledger``: exactly one outcome per message
that ``enqueue`` took or refused. It is made as ``Consumer(options, ledger)``, and does nothing yet then: threads, files
and connections begin with the first message.

No method raises. Methods may be called by many threads at once; ``enqueue`` also by a handler of the application that
runs inside a consumer, by a signal handler or a destructor, so locks held there must be re-entrant.
"""

from __future__ import annotations

from typing import Protocol

from hookline_client.receipts import Message


class Consumer(Protocol):
    """One way out. All times are bounds: when they are over, the method returns and says what is still waiting."""

    def enqueue(self, message: Message) -> bool:
        """Take a message. False when it is refused; the ledger has it as dropped then."""

    def flush(self, timeout: float | None) -> int:
        """Send what was taken before; return how many of these messages have no outcome yet, 0 when all have.

        ``timeout`` seconds at most, None for as long as it takes.
        """

    def close(self, timeout: float) -> int:
        """Flush, then end threads, files and connections; return how many messages were lost by that.

        They are in the ledger as dropped with the code ``closed``, and so is whatever comes later. May be called again.
        """

    def before_fork(self) -> None:
        """Bring locks and files into a state that a copy of this process can start from; called in the parent."""

    def after_fork_in_parent(self) -> None:
        """Undo ``before_fork``."""

    def after_fork_in_child(self) -> None:
        """Begin anew in a copy of the process: an empty queue (the parent sends its own), no thread, no connection."""
