"""The wall clock jumps by an hour, ahead and back, while a receiver hangs: nothing is lost and nothing comes twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.crash.clock_jumps import JUMPS, clock_jumps, faked, library


def test_jumps_lose_and_repeat_nothing() -> None:
    """Retries follow the time that has passed, not what the clock says."""
    score = clock_jumps(150, library())
    print(f"\n{score}")
    assert (score.not_run, score.cycles) == (None, len(JUMPS)), "scripts/test-needs.sh installs faketime"
    assert (score.lost, score.duplicates) == (0, 0)


def test_without_the_library_it_says_so() -> None:
    """A machine that cannot fake a clock gets a reason in place of figures."""
    score = clock_jumps(150, None)
    assert score.cycles == 0
    assert score.not_run is not None
    assert "libfaketime" in score.not_run


def test_a_faked_clock_lets_threads_sleep(tmp_path: Path) -> None:
    """Threads that look again after a while go on looking: a sleep is not refused, and no shorter than was asked."""
    preload = library()
    assert preload is not None, "scripts/test-needs.sh installs faketime"
    clock = tmp_path / "clock"
    clock.write_text("-3600")
    asked = "import time; began = time.monotonic(); time.sleep(0.2); assert time.monotonic() - began >= 0.2"
    subprocess.run([sys.executable, "-P", "-c", asked], env={**os.environ, **faked(clock, preload)}, check=True)


def test_files_may_be_of_a_faked_clock(tmp_path: Path) -> None:
    """A file that a service with such a clock has just written is of that moment, in seconds and in nanoseconds."""
    preload = library()
    assert preload is not None, "scripts/test-needs.sh installs faketime"
    clock = tmp_path / "clock"
    clock.write_text("-3600")
    asked = (
        "import pathlib, sys, time; file = pathlib.Path(sys.argv[1]); file.touch(); at = file.stat();"
        "assert abs(at.st_mtime - time.time()) < 60 and abs(at.st_ctime_ns / 1e9 - time.time()) < 60"
    )
    environment = {**os.environ, **faked(clock, preload, -3600)}
    subprocess.run([sys.executable, "-P", "-c", asked, str(tmp_path / "file")], env=environment, check=True)
