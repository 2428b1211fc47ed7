"""The errors that only the local journal knows; the port's own are in ``journal/port.py``."""

from __future__ import annotations

from hookline.journal.port import JournalError, JournalFull


class JournalBusy(JournalFull):
    """More is waiting for the disk than may wait; nothing of this call was stored. Temporary, like a full disk."""

    code = "journal_busy"
    retry_after_seconds = 1


class JournalCorrupt(JournalError):
    """Records that were durable cannot be read any more; ``next_offset`` is where reading may go on."""

    code = "journal_corrupt"

    def __init__(self, segment: str, offset: int, next_offset: int) -> None:
        super().__init__(
            f"journal segment {segment} is damaged at offset {offset}; reading can go on at offset {next_offset}. "
            "Check the disk, and restore the segment from a copy if there is one"
        )
        self.segment = segment
        self.offset = offset
        self.next_offset = next_offset


class JournalTooNew(JournalError):
    """A newer version of Hookline wrote this journal."""

    code = "journal_too_new"
