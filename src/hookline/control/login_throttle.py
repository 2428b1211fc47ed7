"""How often a wrong token may be tried at the login form, per address and overall."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

WINDOW_SECONDS = 15 * 60.0
FAILURES_PER_ADDRESS_MAX = 5
# Higher than one address may reach, so that a single stranger cannot lock the owner out.
FAILURES_OVERALL_MAX = 50


class LoginThrottle:
    """Remembers failed attempts of the last quarter of an hour; memory is bounded by the overall limit."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: deque[tuple[float, str]] = deque(maxlen=FAILURES_OVERALL_MAX)

    def retry_after_seconds(self, address: str) -> int | None:
        """None when the address may try now, else how long it has to wait."""
        now = self._clock()
        while self._failures and now - self._failures[0][0] > WINDOW_SECONDS:
            self._failures.popleft()
        own = [at for at, of in self._failures if of == address]
        if len(own) >= FAILURES_PER_ADDRESS_MAX:
            return _wait(own[-FAILURES_PER_ADDRESS_MAX], now)
        if len(self._failures) >= FAILURES_OVERALL_MAX:
            return _wait(self._failures[0][0], now)
        return None

    def failed(self, address: str) -> None:
        """Count a wrong token from this address."""
        self._failures.append((self._clock(), address))


def _wait(oldest: float, now: float) -> int:
    return max(1, int(oldest + WINDOW_SECONDS - now) + 1)
