"""Say what this machine offers the benchmark: cores to pin to, nginx and wrk, and the processes there are, by ``/proc``
or, where there is none, by ``ps``."""

from __future__ import annotations

import atexit
import contextlib
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec


class Memory(msgspec.Struct, frozen=True):
    """Resident and proportional size of one process, in bytes; the latter counts shared pages in parts."""

    rss: int
    pss: int


def memory_of(pid: int) -> Memory:
    """Return the memory of a process; zeros where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return Memory(0, 0)
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith(" kB")}
    return Memory(sizes.get("Rss", 0), sizes.get("Pss", 0))


def cpu_seconds(pid: int) -> float:
    """Processor time a process has used so far; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pin(pid: int, core: int | None) -> None:
    """Keep a process and all its threads on one core, or let it use all of them; without effect off Linux."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = {core} if core is not None else set(range(os.cpu_count() or 1))
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            os.sched_setaffinity(int(thread.name), cores)
        except (ProcessLookupError, OSError):
            continue


def cores() -> tuple[int, int]:
    """Return the core of what is measured and the core of what measures; the same one on a single-core machine."""
    return 0, min(1, (os.cpu_count() or 1) - 1)


def tool(name: str) -> str | None:
    """Return the path of an installed program; servers often lie outside the PATH of ordinary users."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/opt/homebrew/bin")


def listens(port: int) -> bool:
    """Somebody listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def describe() -> dict[str, object]:
    """Return the machine, for the report."""
    return {"system": platform.platform(), "python": platform.python_version(), "cores": os.cpu_count()}


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
    atexit.register(_end_children)


def _end_children() -> None:
    """End whom nobody else has ended: the signal may come between the start of a program and the note of it."""
    for process in list(processes()):
        if process.parent == os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
