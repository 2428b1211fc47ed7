"""The errors that only the local journal knows; the port's own are in ``journal/port.py``."""

from __future__ import annotations

from hookline.journal.port import JournalCorrupt, JournalError, JournalFull

__all__ = ["JournalBusy", "JournalCorrupt", "JournalTooNew"]


class JournalBusy(JournalFull):
    """More is waiting for the disk than may wait; nothing of this call was stored. Temporary, like a full disk."""

    code = "journal_busy"
    retry_after_seconds = 1


class JournalTooNew(JournalError):
    """A newer version of Hookline wrote this journal."""

    code = "journal_too_new"
