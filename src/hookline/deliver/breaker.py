"""A lane's breaker: it stops a stream of failures before it burns the stream (DESIGN 4).

Closed while attempts succeed. A run of failures first narrows the lane (``suspect``), so that few events are spent on
finding out; an unbroken run of at least 20 over at least 10 s opens it. While open only the oldest event is tried.
Every kind of failure counts, final ones too. Times are monotonic seconds, given by the caller.
"""

from __future__ import annotations

from typing import Literal

OPEN_FAILURES = 20
OPEN_SECONDS = 10.0
NARROW_FAILURES = 5
NARROW_ALLOWANCE = 4
SUSPECT_SPACING_SECONDS = 0.5
FULL_ALLOWANCE = 64
"""Requests of one lane in flight at once."""
FIRST_ALLOWANCE = 8
"""What a lane may begin with before its first success."""

State = Literal["closed", "narrowed", "suspect", "open"]


class Breaker:
    """Count the unbroken run of failures and say how many attempts may be in flight.

    ``allowance`` 0 means that single attempts are made from time to time: every ``SUSPECT_SPACING_SECONDS`` while
    suspect, on the retry schedule while open. It doubles with each success.
    """

    __slots__ = ("allowance", "failures", "reason", "run_started_seconds", "state")

    def __init__(self) -> None:
        self.state: State = "closed"
        self.allowance = FIRST_ALLOWANCE
        self.failures = 0
        self.run_started_seconds = 0.0
        self.reason = ""

    def succeeded(self) -> bool:
        """Note a success; return whether the breaker was open until now."""
        was_open = self.state == "open"
        self.failures = 0
        if self.allowance < FULL_ALLOWANCE:
            self.allowance = min(FULL_ALLOWANCE, max(1, self.allowance) * 2)
        self.state = "closed" if self.allowance == FULL_ALLOWANCE else "narrowed"
        self.reason = ""
        return was_open

    def failed(self, now_seconds: float, reason: str) -> bool:
        """Note a failure; return whether this one opened the breaker."""
        if self.failures == 0:
            self.run_started_seconds = now_seconds
        self.failures += 1
        self.reason = reason
        if self.state == "open":
            return False
        if self.failures >= OPEN_FAILURES:
            self.state = "suspect"
            self.allowance = 0
            if now_seconds - self.run_started_seconds >= OPEN_SECONDS:
                self.state = "open"
                return True
        elif self.failures >= NARROW_FAILURES:
            self.state = "narrowed"
            self.allowance = min(self.allowance, NARROW_ALLOWANCE)
        return False

    def open(self, reason: str) -> None:
        """Open at once: the receiver said that it is gone, or the breaker was open before a restart."""
        self.state = "open"
        self.allowance = 0
        self.failures = max(self.failures, OPEN_FAILURES)
        self.reason = reason
