"""A lane's breaker: how many attempts may be in flight, and when to stop a stream of failures (DESIGN 4).

Closed while attempts succeed. A run of failures first narrows the lane, so that few events are spent on finding out;
an unbroken run of at least 20 over at least 10 s opens it. While open only the oldest event is tried. Every kind of
failure counts, final ones too. Apart from runs, the allowance follows the receiver as TCP follows a network: one that
says that it is too much (429, 502, 503, 504, a timeout) halves it, at most once per round trip; successes let it grow
by one each up to where it was halved last, and more slowly beyond. Times are monotonic seconds, given by the caller.
"""

from __future__ import annotations

from typing import Literal

OPEN_FAILURES = 20
OPEN_SECONDS = 10.0
NARROW_FAILURES = 5
NARROW_ALLOWANCE = 4
SUSPECT_SPACING_SECONDS = 0.5
FULL_ALLOWANCE = 64
"""Requests in flight at once of a healthy lane."""
ALLOWANCE_MAX = 256
"""What the allowance may grow to for a receiver that takes its time but takes all."""
FIRST_ALLOWANCE = 8
"""What a lane may begin with before its first success, and what it must be back at to count as healthy."""

State = Literal["closed", "narrowed", "suspect", "open"]


class Breaker:
    """Count the unbroken run of failures and say how many attempts may be in flight.

    ``allowance`` 0 means that single attempts are made from time to time: every ``SUSPECT_SPACING_SECONDS`` while
    suspect, on the retry schedule while open. ``cap`` is the user's own limit.
    """

    __slots__ = (
        "_credit",
        "_halved_seconds",
        "_threshold",
        "allowance",
        "failures",
        "full",
        "most",
        "reason",
        "run_started_seconds",
        "state",
        "steady",
    )

    def __init__(self, cap: int | None = None) -> None:
        self.state: State = "closed"
        self.allowance = FIRST_ALLOWANCE
        self.failures = 0
        self.run_started_seconds = 0.0
        self.reason = ""
        self.steady = False
        """No failures and the full allowance: an ordinary success changes nothing."""
        self._halved_seconds = 0.0
        self._credit = 0
        self.limit(cap)
        self._threshold = self.full

    def limit(self, cap: int | None) -> None:
        """Take a new cap."""
        self.full = min(FULL_ALLOWANCE, cap or FULL_ALLOWANCE)
        self.most = min(ALLOWANCE_MAX, cap or ALLOWANCE_MAX)
        self._threshold = self.full
        self.allowance = min(self.allowance, self.most)
        self._settle()

    def succeeded(self, wants_more: bool = False) -> bool:
        """Note a success; return whether the breaker was open until now.

        ``wants_more``: the lane has more to send, and its receiver takes so long that more at once would help.
        """
        was_open = self.state == "open"
        self.failures = 0
        if self.allowance < self.full or (wants_more and self.allowance < self.most):
            self._credit += 1
            if self.allowance < self._threshold or self._credit >= self.allowance:
                self.allowance += 1
                self._credit = 0
        self.state = "closed" if self.allowance >= min(FIRST_ALLOWANCE, self.full) else "narrowed"
        self.reason = "" if self.state == "closed" else self.reason
        self._settle()
        return was_open

    def failed(
        self, now_seconds: float, reason: str, *, too_much: bool = False, began_seconds: float | None = None
    ) -> bool:
        """Note a failure; return whether this one opened the breaker.

        ``too_much``: the receiver said, or showed by its silence, that it cannot keep up. ``began_seconds`` is when
        the request was sent: what was sent before the last halving says nothing new.
        """
        if self.failures == 0:
            self.run_started_seconds = now_seconds
        self.failures += 1
        self.reason = reason
        self.steady = False
        if self.state == "open":
            return False
        if too_much and (began_seconds is None or began_seconds >= self._halved_seconds):
            self._halve(now_seconds)
        if self.failures >= OPEN_FAILURES:
            self.state = "suspect"
            self.allowance = 0
            if now_seconds - self.run_started_seconds >= OPEN_SECONDS:
                self._open()
                return True
        elif self.failures >= NARROW_FAILURES:
            self.state = "narrowed"
            self.allowance = min(self.allowance, NARROW_ALLOWANCE)
        return False

    def open(self, reason: str) -> None:
        """Open at once: the receiver said that it is gone, or the breaker was open before a restart."""
        self.failures = max(self.failures, OPEN_FAILURES)
        self.reason = reason
        self._open()

    def half_open(self) -> None:
        """A person says that the receiver is well again: begin with one attempt, and ramp up from there."""
        self.state = "narrowed"
        self.allowance = 1
        self.failures = 0
        self.reason = ""
        self.steady = False

    def _open(self) -> None:
        self.state = "open"
        self.allowance = 0
        self._threshold = self.full
        self.steady = False

    def _halve(self, now_seconds: float) -> None:
        self._halved_seconds = now_seconds
        self._credit = 0
        self.allowance = self._threshold = max(1, self.allowance // 2)
        if self.allowance < min(FIRST_ALLOWANCE, self.full):
            self.state = "narrowed"

    def _settle(self) -> None:
        self.steady = self.failures == 0 and self.state == "closed" and self.allowance >= self.full
