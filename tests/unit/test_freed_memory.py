"""Memory that was freed goes back to the system."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from hookline.freed_memory import give_back

def own():
    with open("/proc/self/smaps_rollup") as rollup:
        return next(int(line.split()[1]) for line in rollup if line.startswith("Anonymous:"))

held = [bytes(60_000) for _ in range(1_000)]
last = [bytes(600) for _ in range(100)]  # behind them, so that the heap cannot end before it
held.clear()
before = own()
give_back()
print(before - own())
"""


def test_what_was_freed_goes_back_though_something_behind_it_is_in_use() -> None:
    """In a process of its own, whose heap nobody else has used."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 30_000, "kilobytes"
