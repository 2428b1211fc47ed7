"""The lock on a journal's folder: one server appends for a data folder, whatever stores the records."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from hookline.journal.port import JournalLocked


def lock_folder(folder: Path) -> int:
    """Take the lock and return its descriptor, which holds it until it is closed; raise JournalLocked."""
    fd = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise JournalLocked(f"another server already writes to {folder}: stop it, or use another data folder") from None
    return fd
