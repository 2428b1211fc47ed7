"""What this machine offers the benchmark: processor cores to pin to, memory figures of processes, nginx and wrk."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from pathlib import Path

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
