"""Small files that are there as a whole or not at all, and files that the disk can read as a whole or cannot."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file durably, for its owner alone, without hard links: after a crash it is the old one or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if os.geteuid() == 0:  # a command with sudo: who owns the folder has to read the file
                owner = path.parent.stat()
                with suppress(OSError):
                    os.fchown(descriptor, owner.st_uid, owner.st_gid)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def try_to_write_whole(path: Path, content: bytes) -> None:
    """Replace a file at once, not durably; where its folder is full, or closed to us, the old one stays."""
    beside = path.with_name(f"{path.name}.new")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink()


UNREADABLE = frozenset((errno.EIO, errno.EBADMSG, errno.ENODATA, getattr(errno, "EUCLEAN", errno.EIO)))
"""How a bad sector, and a checksum of the file system that is wrong, are told."""
_CHUNK_BYTES = 1024 * 1024


def is_readable(descriptor: int) -> bool:
    """Return whether the disk can read all of a file. Before it is mapped: what a map cannot read ends the process."""
    at = 0
    try:
        # A read that meets a bad place ends before it, and only the next one fails.
        while found := len(os.pread(descriptor, _CHUNK_BYTES, at)):
            at += found
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        return False
    return True
