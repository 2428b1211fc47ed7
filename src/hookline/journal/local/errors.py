"""The errors that only the local journal knows; the port's own are in ``journal/port.py``."""

from __future__ import annotations

from hookline.journal.port import JournalCorrupt, JournalFull, JournalTooNew

__all__ = ["JournalBusy", "JournalCorrupt", "JournalTooNew"]


class JournalBusy(JournalFull):
    """More is waiting for the disk than may wait; nothing of this call was stored. Temporary, like a full disk."""

    code = "journal_busy"
    retry_after_seconds = 1
