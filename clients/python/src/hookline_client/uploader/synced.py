"""Changes of a folder that are on disk when they return: files renamed, replaced and removed."""

from __future__ import annotations

import os

from hookline_client.trust import open_own


def rename_synced(old: str, new: str) -> None:
    """Rename a file within its folder."""
    os.rename(old, new)
    sync_folder(new)


def replace_synced(path: str, data: bytes) -> None:
    """Put ``data`` at ``path``, a file of ours: after a crash there is the old content or the new, never a part."""
    new = f"{path}.new"
    file = open_own(new, os.O_WRONLY | os.O_CREAT)
    os.ftruncate(file, 0)  # only now: it may have been somebody else's
    try:
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)
    except OSError:
        os.unlink(new)
        raise
    finally:
        os.close(file)
    os.replace(new, path)
    sync_folder(path)


def unlink_synced(path: str) -> None:
    """Remove a file."""
    os.unlink(path)
    sync_folder(path)


def sync_folder(path: str) -> None:
    """Bring the names in the folder of ``path`` to the disk."""
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
