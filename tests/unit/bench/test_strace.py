"""Calls made to fail: a trace is counted as it reads, and a real process gets the error it was meant to get."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.crash import strace

PROGRAM = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
input()
for turn in range(3):
    try:
        os.fdatasync(fd)
    except OSError as error:
        print(turn, error.errno, flush=True)
input()
"""
EIO = 5


def test_a_trace_is_counted(tmp_path: Path) -> None:
    """A call that was interrupted by another thread's counts once."""
    trace = tmp_path / "trace"
    trace.write_text(
        "12 pwritev2(16, [{...}], 2, 0, 0) = 3\n"
        "12 fdatasync(16 <unfinished ...>\n"
        "13 pwritev2(16, [{...}], 2, 3, 0) = 3\n"
        "12 <... fdatasync resumed>) = 0\n"
        "12 +++ exited with 0 +++\n"
    )
    assert strace.counted(trace) == {"pwritev2": 2, "fdatasync": 1}


def test_exactly_the_chosen_call_fails(tmp_path: Path) -> None:
    """Of three synchronisations the second fails with EIO, and no other."""
    assert strace.unavailable() is None
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "file")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with strace.injecting(process.pid, ["fdatasync:error=EIO:when=2"], tmp_path / "trace"):
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"1 {EIO}\n"
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.read() == ""
