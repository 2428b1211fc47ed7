"""When a failed delivery is tried again: full-jitter exponential back-off inside a fixed window (SPEC 7, DESIGN 4)."""

from __future__ import annotations

import random
from datetime import UTC
from email.utils import parsedate_to_datetime

from hookline.limits import LIMITS, Limits
from hookline.settings import Deliver


class RetrySchedule:
    """Decide the time of the next attempt. Times are milliseconds of the service's own clock."""

    def __init__(self, settings: Deliver, rng: random.Random | None = None, limits: Limits = LIMITS) -> None:
        self.first_ms = settings.retry_first * 1000
        self.max_ms = settings.retry_max * 1000
        self.window_ms = settings.retry_window * 1000
        self._late_ms = min(limits.late_ms_max, self.window_ms)
        self._random = (rng or random.Random()).random

    def backoff_ms(self, attempt: int) -> float:
        """Return a random wait after the given attempt (1 is the first): anywhere up to first x 2^(attempt-1),
        capped."""
        # The exponent is bounded because 2.0 ** 1024 raises OverflowError.
        ceiling = min(self.max_ms, self.first_ms * 2.0 ** min(attempt - 1, 60))
        return self._random() * ceiling

    def next_due(self, now_ms: int, first_at_ms: int, attempt: int, retry_after_ms: int | None = None) -> int | None:
        """Return when to try again after attempt number ``attempt`` failed at ``now_ms``; None when the window is over.

        ``retry_after_ms`` is the wait the receiver asked for; it is honoured beyond ``retry_max`` but never past the
        window's end.
        """
        window_end = first_at_ms + self.window_ms
        if now_ms >= window_end:
            return None
        wait = self.backoff_ms(attempt)
        if retry_after_ms is not None:
            wait = max(wait, retry_after_ms)
        return int(min(now_ms + max(wait, 1), window_end))

    def expired(self, now_ms: int, first_at_ms: int) -> bool:
        """Return whether an event first tried at ``first_at_ms`` may not be tried any more."""
        return now_ms > first_at_ms + self.window_ms + self._late_ms


def retry_after_ms(value: bytes, now_ms: int) -> int | None:
    """Return a ``Retry-After`` header's wait in milliseconds: seconds or an HTTP date; None for anything else."""
    text = value.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        # A receiver may write any number of digits: bounded before int() sees them.
        return min(int(text[:12]), 10**9) * 1000
    try:
        at = parsedate_to_datetime(text)
        at_ms = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)  # the old form names no zone
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0, at_ms - now_ms)
