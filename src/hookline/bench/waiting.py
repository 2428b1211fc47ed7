"""Waiting for a condition with a bound: the way the reports synchronise with the real processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02


def wait_until(condition: Callable[[], T], seconds: float, what: str) -> T:
    """Call ``condition`` until it is truthy and return its value; TimeoutError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(POLL_SECONDS)
