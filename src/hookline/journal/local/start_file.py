"""The file that says where a partition begins: what is below, retention has taken; what is missing above is lost."""

from __future__ import annotations

import os
from pathlib import Path

from hookline.journal.local.disk import Disk, write_all

NAME = "start"


def read_start(folder: Path) -> int | None:
    """Return the oldest offset that must be there; None when nothing believable says."""
    try:
        text = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return None
    first, _, again = text.partition(b" ")
    return int(first) if first.isdigit() and first == again.strip() else None


def write_start(folder: Path, offset: int, disk: Disk) -> None:
    """Note it durably, before anything below is removed."""
    temporary = folder / f"{NAME}.tmp"
    fd = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        write_all(disk, fd, [b"%d %d\n" % (offset, offset)], 0)
        disk.fdatasync(fd)
    finally:
        os.close(fd)
    temporary.rename(folder / NAME)
    disk.sync_folder(folder)
