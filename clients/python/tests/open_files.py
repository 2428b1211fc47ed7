"""Say what this process has open, for tests that ask whether something of theirs stayed open."""

from __future__ import annotations

import os
from contextlib import suppress


def open_files(beneath: str | os.PathLike[str]) -> list[str]:
    """Return the paths that begin with ``beneath`` among this process's open files, those of removed ones too.

    A comparison of all descriptors would also see what an earlier test left, and what closes it in between.
    """
    paths: list[str] = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor that listed them, or one that was closed since
            paths.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in paths if path.startswith(os.fspath(beneath))]
