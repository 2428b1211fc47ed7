"""Moves what ``os.stat`` says of files to the clock of FAKETIME: libfaketime does not know the calls that Python makes.

On the path of a service, this runs as each of its processes starts. Without it a role takes its own folder for a copy.
"""

from __future__ import annotations

import os
from typing import Any

AHEAD_NS = int(os.environ["FAKETIME"]) * 1_000_000_000
_stat = os.stat


def _moved(path: Any, **how: Any) -> os.stat_result:
    found = _stat(path, **how)
    times = {f"st_{each}time_ns": getattr(found, f"st_{each}time_ns") + AHEAD_NS for each in "amc"}
    seconds = {name.removesuffix("_ns"): ns / 1_000_000_000 for name, ns in times.items()}
    rest = {name: getattr(found, name) for name in ("st_blksize", "st_blocks", "st_rdev")}
    return os.stat_result((*found[:7], *map(int, seconds.values())), {**rest, **times, **seconds})


os.supports_dir_fd.add(_moved)
os.supports_fd.add(_moved)
os.supports_follow_symlinks.add(_moved)
os.stat = _moved
