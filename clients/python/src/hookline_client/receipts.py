"""What became of the events: one receipt per message, and the sums that ``flush`` returns."""

from __future__ import annotations

from typing import Literal, NamedTuple

Outcome = Literal["accepted", "handed_over", "rejected", "gave_up", "dropped"]
"""What can become of an event.

``accepted``: the service has it on disk. ``handed_over``: it left this process and no answer was waited for, or it is
in the log file for the uploader. ``rejected``: the service refused this event. ``gave_up``: its request failed for
good. ``dropped``: it never left the queue.
"""

Message = tuple[str, bytes]
"""What waits in queues: a messageId and the event as one JSON object of at most 32,768 bytes."""


class Receipt(NamedTuple):
    """What became of one event; ``code`` and ``reason`` are empty unless it was lost."""

    message_id: str
    outcome: Outcome
    code: str = ""
    reason: str = ""


class Stats(NamedTuple):
    """How many events there were since the client was made. ``invalid`` ones broke a rule and were never queued."""

    queued: int = 0
    accepted: int = 0
    handed_over: int = 0
    rejected: int = 0
    gave_up: int = 0
    dropped: int = 0
    invalid: int = 0


class FlushResult(NamedTuple):
    """What became of the events since the last flush.

    ``waiting`` counts those that were queued before this flush and are neither acknowledged nor lost yet: not 0 only
    when the time was over. ``receipts`` are those of lost events, and with ``receipts=True`` of all.
    """

    accepted: int = 0
    handed_over: int = 0
    rejected: int = 0
    gave_up: int = 0
    dropped: int = 0
    waiting: int = 0
    receipts: tuple[Receipt, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything queued before has left, and nothing was lost."""
        return not (self.rejected or self.gave_up or self.dropped or self.waiting)
