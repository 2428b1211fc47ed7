"""The processes of this machine: by ``/proc``, as small Linux images come without ``ps``, and by ``ps`` elsewhere."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

_PROC = Path("/proc")


class Process(NamedTuple):
    """One of them; ``state`` begins with ``Z`` or ``X`` once it has ended."""

    pid: int
    parent: int
    group: int
    state: str
    arguments: str


def processes() -> Iterator[Process]:
    """Those that run now, in no particular order."""
    return _by_proc() if (_PROC / "self" / "stat").exists() else _by_ps()


def _by_proc() -> Iterator[Process]:
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            state, parent, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            arguments = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        text = arguments.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
        yield Process(int(folder.name), int(parent), int(group), state, text)


def _by_ps() -> Iterator[Process]:
    line = ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat=,args="]
    for found in subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines():
        pid, parent, group, state, *arguments = found.split(None, 4)
        yield Process(int(pid), int(parent), int(group), state, " ".join(arguments))


T = TypeVar("T")

POLL_SECONDS = 0.02
TERMINATED = 128 + signal.SIGTERM


def wait_until(
    condition: Callable[[], T], seconds: float, what: str, progress: Callable[[], object] | None = None
) -> T:
    """Call ``condition`` until it is truthy and return its value; TimeoutError after ``seconds``.

    With ``progress`` the time begins anew whenever that has changed: a slow machine gets what it needs.
    """
    deadline = time.monotonic() + seconds
    before = progress() if progress is not None else None
    while True:
        asked = time.monotonic()
        value = condition()
        if value:
            return value
        if progress is not None and (now := progress()) != before:
            before, deadline = now, time.monotonic() + seconds
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(max(POLL_SECONDS, time.monotonic() - asked))  # a question that takes long is asked less often


def leave_on_sigterm() -> None:
    """From now on SIGTERM ends this process as an exception does, so that what it started is ended too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
