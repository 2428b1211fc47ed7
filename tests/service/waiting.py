"""Waiting for a condition with a bound: the only way these tests synchronise with the real processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from time import thread_time  # the one here: a test may give the product's another
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.02
POLL_SECONDS_MAX = 0.15
POLL_SHARE = 0.02
"""Of the time waited so far: looking takes the machine from what is waited for."""
REST = 3.0
"""So many times the CPU that a look took passes before the next."""
WAIT_SECONDS = 30.0
"""A bound that only a failure reaches."""
PATIENCE = 4
"""So many times what a wait asks for is waited: a machine on which everything else runs too is no failure, and waiting
longer for what does not come costs only the time of a failure."""


def wait_until(condition: Callable[[], T], seconds: float = WAIT_SECONDS, what: str = "") -> T:
    """Call ``condition`` until it is truthy and return its value; AssertionError after ``PATIENCE`` × ``seconds``."""
    seconds *= PATIENCE
    began = time.monotonic()
    while True:
        busy = thread_time()
        value = condition()
        if value:
            return value
        busy = thread_time() - busy
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError(f"not within {seconds} s: {what or getattr(condition, '__name__', 'condition')}")
        time.sleep(max(REST * busy, min(POLL_SECONDS_MAX, max(POLL_SECONDS, waited * POLL_SHARE))))


def holds_for(condition: Callable[[], bool], seconds: float, what: str = "") -> None:
    """Assert that ``condition`` is true now and stays so for ``seconds`` (proof that something does not happen)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), f"did not hold for {seconds} s: {what}"
        time.sleep(POLL_SECONDS)
