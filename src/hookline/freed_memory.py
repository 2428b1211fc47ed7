"""Give memory that was freed back to the system.

glibc keeps it where something small behind it is still in use, so that a process which delivers for hours comes to hold
a third more than it needs: after 500,000 deliveries to a thousand receivers 145 MB instead of 131. And it keeps it for
each thread apart: Kafka's client has dozens.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

EVERY_SECONDS = 30.0
"""From one time to the next, while there is work."""
M_ARENA_MAX = -8
"""In malloc.h."""


def give_back() -> None:
    """Give back every page of the heap that is free; some 0.1 ms for each MB. Elsewhere than on glibc nothing is
    done."""
    _malloc_trim()(0)


@cache
def _malloc_trim() -> Callable[[int], object]:
    import ctypes  # half a megabyte, which a process that has had no work yet does without

    return getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)


def share_one_heap() -> None:
    """Have all threads that begin from now on take their memory from one heap. With one each, a deliver on Kafka held
    40 MB more at the same work, and came to hold ten times what its client used."""
    import ctypes

    getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)(M_ARENA_MAX, 1)
