"""Loaded by the Python of a service whose clock is faked: lets it sleep, and moves the times of files.

``time.sleep`` waits until a moment of the monotonic clock. The library of ``faketime`` (0.9.10) counts that moment from
its own wall clock even where it leaves the monotonic clock in peace, and the system refuses what comes out. The times
of files stay the machine's with it: it does not know the call by which Python asks for them.
"""

from __future__ import annotations

import os
import select
import time
from typing import Any, SupportsIndex

FILES_AHEAD_SECONDS = int(os.environ["FAKED_FILES_SECONDS"])
_stat = os.stat


def _sleep(seconds: SupportsIndex | float) -> None:
    select.select((), (), (), float(seconds))


def _moved(path: Any, **how: Any) -> os.stat_result:
    found = _stat(path, **how)
    times = {
        name: getattr(found, name) + FILES_AHEAD_SECONDS * 10**9
        for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")
    }
    sizes = {name: getattr(found, name) for name in ("st_blksize", "st_blocks", "st_rdev")}
    return os.stat_result((*found[:7], *(each + FILES_AHEAD_SECONDS for each in found[7:])), {**sizes, **times})


time.sleep = _sleep
if FILES_AHEAD_SECONDS:
    os.supports_dir_fd.add(_moved)
    os.supports_fd.add(_moved)
    os.supports_follow_symlinks.add(_moved)
    os.stat = _moved
