"""What was erased on other machines of the journal they share is noted beside this one's, which its readers look at.

The processes of a machine read by the notes of its data folder, and the one control that erases is on another machine.
"""

from __future__ import annotations

from hookline.journal.kafka.erased import ErasedLog
from hookline.privacy.shared_erased import SharedErased
from hookline.settings import Settings


class ErasedElsewhere:
    """Follows all erasures; for one thread at a time."""

    def __init__(self, settings: Settings) -> None:
        self._shared = SharedErased(settings)
        self._log = ErasedLog(settings.data_path / "journal")

    def follow(self) -> None:
        """Note what is new; called several times a second. Raise DatabaseAway."""
        for partition, places in self._shared.poll():
            self._log.add(partition, places)

    def close(self) -> None:
        """Let go of connections; idempotent."""
        self._shared.close()
