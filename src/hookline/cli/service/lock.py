"""The locks that keep two servers from one data folder. Standard library only: the supervisor imports this.

A supervisor holds ``lock`` for itself and hands the open file to its roles, so the folder counts as used until the
last of them is gone. A role started alone shares ``lock`` and holds ``run/<role>.lock`` for itself.
"""

from __future__ import annotations

import fcntl
import os
import time

LEFTOVER_WAIT_SECONDS = 12.0
"""Roles end within 10 s of their supervisor's death, and what ``collect.drain_delay`` adds; a new server waits for them
that long, and a little more."""

POLL_SECONDS = 0.05


class FolderInUse(Exception):
    """Another server works in the data folder; the sentence names the folder and the process."""

    code = "data_folder_in_use"


def prepare(folder: str) -> None:
    """Create the data folder and ``run`` in it, readable by their owner only; raise OSError with a next step."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.makedirs(os.path.join(folder, "run"), mode=0o700, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from None


def _unusable(folder: str, error: OSError) -> OSError:
    return OSError(
        f"the data folder {folder} cannot be used ({error.strerror}: {error.filename}); "
        "see whose it is, or choose another one with --data-dir"
    )


def hold_for_supervisor(folder: str, drain_delay: float = 0.0) -> int:
    """Take the folder for a whole server and return the lock's open file; raise FolderInUse, or OSError."""
    return _hold(folder, os.path.join(folder, "lock"), fcntl.LOCK_EX, drain_delay)


def hold_for_role(folder: str, role: str, drain_delay: float = 0.0) -> tuple[int, int]:
    """Take the folder for one role started alone and return the open files; raise FolderInUse, or OSError."""
    return (
        _hold(folder, os.path.join(folder, "lock"), fcntl.LOCK_SH, drain_delay),
        _hold(folder, os.path.join(folder, "run", f"{role}.lock"), fcntl.LOCK_EX, drain_delay),
    )


def holder(folder: str) -> int | None:
    """The living process that holds the folder for a whole server; None when there is none."""
    try:
        file = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        # A shared lock can be had where nobody is, and beside roles that were started alone.
        return None if _try(file, fcntl.LOCK_SH) else _holder(file)
    finally:
        os.close(file)


def _hold(folder: str, path: str, mode: int, drain_delay: float) -> int:
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(folder, error) from None
    deadline = time.monotonic() + LEFTOVER_WAIT_SECONDS + drain_delay
    while not _try(file, mode):
        holder = _holder(file)
        shared = mode == fcntl.LOCK_EX and _try(file, fcntl.LOCK_SH)
        if shared and _try(file, mode):  # whoever held it has ended since the try before
            break
        if shared or holder is not None or time.monotonic() > deadline:
            os.close(file)
            named = "roles started alone" if shared else f"process {holder}" if holder else "still ending"
            raise FolderInUse(
                f"the data folder {folder} is in use by another Hookline ({named}); "
                "stop it first, or choose another folder with --data-dir"
            )
        time.sleep(POLL_SECONDS)
    if mode == fcntl.LOCK_EX:
        _sign(file)
    return file


def _sign(file: int) -> None:
    """Write down which process has the lock, over what stands there: on a full disk there is no other room."""
    name = str(os.getpid()).encode()
    try:
        os.ftruncate(file, os.pwrite(file, name, 0))
    except OSError:  # the lock is held all the same; only its refusals cannot name the process
        os.ftruncate(file, 0)


def _try(file: int, mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: int) -> int | None:
    """The living process that wrote itself into the lock, or None when it is gone and only its children are left."""
    text = os.pread(file, 20, 0)
    if not text.isdigit():
        return None
    pid = int(text)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return pid
    return None if _is_dead(pid) else pid


def _is_dead(pid: int) -> bool:
    """Return whether it has ended and only its parent has not asked how."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[:1] in ([b"Z"], [b"X"])
    except OSError:
        return False
