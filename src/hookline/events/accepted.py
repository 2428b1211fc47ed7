"""What the events package needs to know of an accepted event."""

from __future__ import annotations

from typing import Protocol


class Accepted(Protocol):
    """Hold what is needed of an accepted event; a journal record has it."""

    @property
    def type(self) -> str:
        """Return the message type."""

    @property
    def timestamp(self) -> str:
        """Return the final timestamp."""

    @property
    def body(self) -> bytes:
        """Return the caller's JSON object."""

    @property
    def envelope(self) -> bytes | None:
        """Return the JSON object of the batch, whose ``context`` lies under the event's own."""
