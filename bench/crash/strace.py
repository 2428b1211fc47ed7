"""Errors put into the system calls of a running process, by ``strace`` attached to it: a disk that fails on demand."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

DETACH_SECONDS = 5.0
LOOK_SECONDS = 0.5
ENDED_LOOKS = 10
"""So often a process that has ended is still there before ``strace`` is taken to have forgotten it."""
_CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)[( ]")


def unavailable() -> str | None:
    """Why calls cannot be made to fail here; None when they can."""
    if shutil.which("strace") is None:
        return "needs strace, which is not installed (Debian: apt install strace)"
    if os.geteuid() != 0 and subprocess.run(["sudo", "-n", "true"], check=False, capture_output=True).returncode:
        return "needs to be run by root, or by a user whom sudo asks for no password"
    return None


@contextmanager
def injecting(pid: int, faults: Sequence[str], trace: Path, calls: str = "") -> Iterator[None]:
    """Attach to every thread of a process for as long as it lives; ``trace`` gets the faults' calls and ``calls``.

    A fault is what ``strace -e inject=`` takes, such as ``fdatasync:error=EIO:when=30``; without any it only looks.
    """
    strace = shutil.which("strace")
    if strace is None:
        raise RuntimeError(unavailable())
    seen = ",".join([*(fault.partition(":")[0] for fault in faults), *([calls] if calls else [])])
    options = ["-f", "-s", "64", "-o", str(trace), "-e", f"trace={seen}"]
    options += [option for fault in faults for option in ("-e", f"inject={fault}")]
    privileged = [] if os.geteuid() == 0 else ["sudo", "-n"]
    tracer = subprocess.Popen(
        [*privileged, strace, *options, "-p", str(pid)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert tracer.stderr is not None
    told = tracer.stderr.readline()
    if b"attached" not in told:
        raise RuntimeError(f"strace did not attach: {told.decode(errors='replace')}")
    watch = threading.Thread(target=_let_go, args=(tracer, pid))
    watch.start()
    try:
        yield
    finally:
        _end(tracer)
        watch.join()
        tracer.stderr.close()


def _let_go(tracer: subprocess.Popen[bytes], pid: int) -> None:
    """Kill ``strace`` where it keeps a process that has ended from its parent, who could not start it again."""
    seen_ended = 0
    while seen_ended < ENDED_LOOKS:
        try:
            tracer.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            seen_ended = seen_ended + 1 if _state(pid) == "Z" else 0
        else:
            return
    tracer.kill()


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _end(tracer: subprocess.Popen[bytes]) -> None:
    tracer.send_signal(signal.SIGTERM)
    try:
        tracer.wait(DETACH_SECONDS)
    except subprocess.TimeoutExpired:  # now and then it waits for ever for a process that was killed under it
        tracer.kill()
        tracer.wait()


def counted(trace: Path) -> dict[str, int]:
    """How often each call stands in a trace, those counted once that were resumed."""
    lines = (line for line in trace.read_text(errors="replace").splitlines() if " resumed>" not in line)
    return dict(Counter(found[1] for line in lines if (found := _CALL.match(line))))
