"""Delete messages that a destination does not acknowledge: it may still hold data of people who are to be forgotten."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.privacy.messages import Messages

FAILED_SHOWN_MS = 7 * 86_400_000
"""How long a message that was not delivered is shown."""


class Deletions:
    """Asks for what was sent more than once."""

    kinds = ("deletion_not_acknowledged",)

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return every destination that some message was sent to again, or got none within the last week."""
        found = self._messages.unacknowledged(moment.now_ms - FAILED_SHOWN_MS)
        return [
            Finding(
                "deletion_not_acknowledged",
                each.destination,
                f"{each.messages} delete {'message' if each.messages == 1 else 'messages'}, since {iso(each.since_ms)}",
                each.messages,
            )
            for each in found
        ]

    def close(self) -> None:
        """Nothing is held."""
