"""Whether files and folders are ones that this user put where they are: what anybody else put there is not used.

In a folder like /tmp somebody could be there first, to read what is written, to have something else sent, or to make a
run believe that what waits was sent already. Nothing is removed or changed that is not trusted.
"""

from __future__ import annotations

import errno
import os
import stat

MODE = 0o600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class NotTrusted(PermissionError):
    """A file or folder that somebody else may have put there; the sentence says what to do."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(errno.EPERM, reason, path)
        self.sentence = f"{path} {reason}: see who put it there and move it away, or use a folder of your own"

    def __str__(self) -> str:
        return self.sentence


def check_log(status: os.stat_result, path: str) -> None:
    """Raise NotTrusted unless it is a regular file and, in a folder that everyone may write to, ours or root's.

    Elsewhere it may be anybody's who may write there: applications of several users may share a log.
    """
    if not stat.S_ISREG(status.st_mode):
        raise NotTrusted(path, "is not a regular file")
    folder = os.stat(os.path.dirname(os.path.abspath(path)))
    if not folder.st_mode & stat.S_IWOTH:
        return
    if status.st_uid not in (os.geteuid(), 0):
        raise NotTrusted(path, f"belongs to another user (uid {status.st_uid})")
    if status.st_nlink > 1:  # the same file under a name that somebody else chose
        raise NotTrusted(path, "has another name as well")


def check_own(status: os.stat_result, path: str) -> None:
    """Raise NotTrusted unless it is a regular file of this user that has no other name and nobody else may write to."""
    if not stat.S_ISREG(status.st_mode):
        raise NotTrusted(path, "is not a regular file")
    _check_owner(status, path)
    if status.st_nlink > 1:
        raise NotTrusted(path, "has another name as well")


def check_own_folder(path: str) -> None:
    """Raise NotTrusted unless it is a folder, and no link, of this user's where nobody else may put anything."""
    status = os.stat(path, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        raise NotTrusted(path, "is not a folder")
    _check_owner(status, path)


def open_own(path: str, flags: int) -> int:
    """Open a file of ours, which ``O_CREAT`` makes with mode 0600; raise NotTrusted for any other."""
    # O_NONBLOCK: a pipe at the path must not hang the caller.
    always = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.open(path, flags | always, MODE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotTrusted(path, "is a link") from None
        if error.errno == errno.EACCES and os.path.lexists(path):
            check_own(os.lstat(path), path)
        raise
    try:
        check_own(os.fstat(file), path)
    except NotTrusted:
        os.close(file)
        raise
    return file


def _check_owner(status: os.stat_result, path: str) -> None:
    if status.st_uid != os.geteuid():
        raise NotTrusted(path, f"belongs to another user (uid {status.st_uid})")
    if status.st_mode & _OTHERS_WRITE:
        raise NotTrusted(path, f"may be written to by others (mode {stat.S_IMODE(status.st_mode):04o})")
