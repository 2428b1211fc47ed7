"""The disk of the data folder: less free than the threshold."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from hookline.features.notices.conditions.finding import Finding, Moment

MARGIN = 1.1
"""So many times the threshold must be free again before a notice is resolved."""
SUBJECT = "data_dir"


def free_bytes(folder: Path) -> int:
    """Return what an ordinary user may still write."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


class DiskRoom:
    """One system call per look."""

    kinds = ("disk_nearly_full",)

    def __init__(self, data_path: Path, threshold_bytes: int, free: Callable[[Path], int] = free_bytes) -> None:
        self._folder = data_path
        self._threshold_bytes = threshold_bytes
        self._free = free

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return the one finding there can be."""
        free = self._free(self._folder)
        if free >= self._threshold_bytes * MARGIN:
            return ()
        detail = f"{megabytes(free)} free, the threshold is {megabytes(self._threshold_bytes)}"
        return (Finding(self.kinds[0], SUBJECT, detail, weak=free >= self._threshold_bytes),)

    def close(self) -> None:
        """Nothing is held."""


def megabytes(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / 1024**2:.0f} MB" if count < 10 * 1024**3 else f"{count / 1024**3:.0f} GB"
