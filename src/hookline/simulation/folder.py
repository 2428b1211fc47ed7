"""Where a simulation keeps its files: in memory where the system offers it, for nothing there outlives the run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
FREE_BYTES_MIN = 256 * 1024 * 1024


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """An empty folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hookline-", dir=_parent()) as folder:
        yield Path(folder)


def _parent() -> str | None:
    if not SHARED_MEMORY.is_dir() or not os.access(SHARED_MEMORY, os.W_OK):
        return None
    status = os.statvfs(SHARED_MEMORY)
    return str(SHARED_MEMORY) if status.f_bavail * status.f_frsize >= FREE_BYTES_MIN else None
