"""messageIds: unique without asking the system for random bytes on every call.

An id holds the time in nanoseconds, 64 random bits of this process and a count. A forked child draws new bits; so does
``reseed``, for processes that were copied without a fork, as snapshots of a serverless function are.
"""

from __future__ import annotations

import os
from itertools import count

_seed = os.urandom(8).hex()
_count = count()


def message_id(now_ns: int) -> str:
    """Make a messageId nobody used before, given the time of the call."""
    return f"{now_ns:x}-{_seed}-{next(_count):x}"


def reseed() -> None:
    """Draw new random bits: this process may be a copy of another."""
    global _seed
    _seed = os.urandom(8).hex()


os.register_at_fork(after_in_child=reseed)
