"""Moves what ``os.stat`` says of files to the clock of FAKETIME: libfaketime does not know the calls that Python makes.

On the path of a service, this runs as each of its processes starts. Without it a role takes its own folder for a copy.
"""

from __future__ import annotations

import os
from typing import Any

AHEAD_SECONDS = int(os.environ["FAKETIME"])
_stat = os.stat


def _moved(path: Any, **how: Any) -> os.stat_result:
    found = _stat(path, **how)
    times = {
        name: getattr(found, name) + AHEAD_SECONDS * 10**9 for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")
    }
    sizes = {name: getattr(found, name) for name in ("st_blksize", "st_blocks", "st_rdev")}
    return os.stat_result((*found[:7], *(each + AHEAD_SECONDS for each in found[7:])), {**sizes, **times})


os.supports_dir_fd.add(_moved)
os.supports_fd.add(_moved)
os.supports_follow_symlinks.add(_moved)
os.stat = _moved
