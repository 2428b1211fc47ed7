"""Jumps of the wall clock by an hour, ahead and back, under load and with events that wait for a retry.

The clock of the service alone jumps, by the library of ``faketime``; the machine's is left in peace.
"""

from __future__ import annotations

from pathlib import Path

from bench.crash.scene import ENOUGH_EVENTS, Scene, Score

KIND = "clock jumps of an hour"
JUMPS = ("+3600", "+0", "-3600", "+0")
LIBRARIES = "*/faketime/libfaketimeMT.so.1"
HANGING_SECONDS_MAX = 2.0


def library() -> Path | None:
    """Where the library is installed."""
    return next(iter(sorted(Path("/usr/lib").glob(LIBRARIES))), None)


def faked(clock: Path, preload: Path, files_ahead_seconds: int = 0) -> dict[str, str]:
    """Return the environment of a service whose wall clock is off by what a file says; it hears of it within a second,
    and the time that passes is left in peace.

    The interpreter's threads wait for each other on a condition of the monotonic clock, 5 ms at a time. The library
    (0.9.10) moves such a moment by its wall clock all the same: ahead, nobody would ever wait, and behind, for an hour.
    So it is given how long to wait.
    The times of files are off by a number that stays: what is written keeps its time when a clock jumps.
    """
    return {
        "LD_PRELOAD": str(preload),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",  # seconds; without it the file is read at each look at the clock
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "1",
        "FAKETIME_WAIT_MS": "5",
        "PYTHONPATH": str(Path(__file__).with_name("faked_clock")),
        "FAKED_FILES_SECONDS": str(files_ahead_seconds),
    }


def clock_jumps(rate: float, preload: Path | None) -> Score:
    """Let the clock jump ahead and back, then back and ahead, each time while a receiver hangs."""
    if preload is None:
        reason = "needs libfaketime (Debian: apt install libfaketime); the simulation's runs jump too"
        return Score(kind=KIND, not_run=reason)
    with Scene(rate) as scene:
        clock = scene.folder / "clock"
        clock.write_text("+0")
        scene.service.environment.update(faked(clock, preload))
        scene.service.start()
        scene.start_load()
        for jump in JUMPS:
            scene.ledger.more(ENOUGH_EVENTS)
            scene.ledger.sinks[0].hang()
            scene.wait_at_random(HANGING_SECONDS_MAX)
            clock.write_text(jump)
            scene.ledger.more(ENOUGH_EVENTS)
            scene.ledger.sinks[0].wake()
        scene.stop_load_and_settle()
        return scene.score(KIND, len(JUMPS))
