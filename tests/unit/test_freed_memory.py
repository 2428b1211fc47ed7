"""Memory that was freed goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


HEAPS = """
import sys
from threading import Barrier, Thread
from hookline.freed_memory import share_one_heap

def work():
    held = [bytes(1_000) for _ in range(1_000)]
    allocated.wait()
    looked.wait()

allocated, looked = Barrier(9), Barrier(9)
if sys.argv[1] == "one":
    share_one_heap()
threads = [Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
allocated.wait()
with open("/proc/self/maps") as maps:
    regions = [line.split(" ", 2) for line in maps]
looked.wait()
print(sum(right.startswith("rw") and int(at.split("-")[0], 16) % (64 << 20) == 0 for at, right, _ in regions))
"""


@pytest.mark.parametrize(("asked", "heaps"), [("one", range(1)), ("each", range(4, 64))])
def test_threads_share_a_heap_where_that_is_asked_for(asked: str, heaps: range) -> None:
    """Count those that glibc makes for threads; it begins each where an address of 64 MB does."""
    done = subprocess.run([sys.executable, "-c", HEAPS, asked], capture_output=True, text=True, check=True)
    assert int(done.stdout) in heaps
