"""Whether a file is one that this user, or root, put where it is."""

from __future__ import annotations

import os
import stat


def is_trusted(status: os.stat_result, path: str) -> bool:
    """Whether it is a regular file, and, in a folder that everyone may write to such as /tmp, ours or root's.

    There somebody could put a file there first, to read what is written or to have something else sent.
    """
    if not stat.S_ISREG(status.st_mode):
        return False
    folder = os.stat(os.path.dirname(os.path.abspath(path)))
    return not folder.st_mode & stat.S_IWOTH or status.st_uid in (os.geteuid(), 0)
