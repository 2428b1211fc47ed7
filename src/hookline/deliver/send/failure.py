"""What is known of an attempt that did not succeed."""

from __future__ import annotations

from collections.abc import Callable

from hookline.outcomes.outcome import Outcome


class Failure:
    """What is known of an attempt that did not succeed."""

    __slots__ = ("error", "head", "outcome", "retry_after", "status")

    def __init__(
        self,
        outcome: Outcome,
        status: int | None,
        error: str,
        retry_after: bytes | None = None,
        head: str | None = None,
    ) -> None:
        self.outcome = outcome
        self.status = status
        self.error = error
        self.retry_after = retry_after
        self.head = head

    def hide(self, hidden: Callable[[str], str]) -> None:
        """Mask credentials in what the receiver answered: people may read it who may not see what was sent."""
        self.error = hidden(self.error)
        self.head = hidden(self.head) if self.head else self.head
