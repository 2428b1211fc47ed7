"""Waiting for a condition with a bound: the way the reports synchronise with the real processes.

And what they do when they are told to end: they leave, taking their processes and disks with them.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import TypeVar

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
