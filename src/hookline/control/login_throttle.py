"""How often a wrong password or token may be tried, per address, per account and overall."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

WINDOW_SECONDS = 15 * 60.0
FAILURES_PER_ADDRESS_MAX = 5
FAILURES_PER_ACCOUNT_MAX = 20
"""From all addresses together; a stranger who knows the name keeps its owner out no longer than the window, and the
one-time link and the admin token open the door meanwhile."""
# Higher than one address may reach, so that a single stranger cannot lock everybody out.
FAILURES_OVERALL_MAX = 50


class LoginThrottle:
    """Remembers tries of the last quarter of an hour; memory is bounded by the overall limit.

    A try counts as failed from its beginning, so that many at once are no way around.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: deque[tuple[float, str, str]] = deque(maxlen=FAILURES_OVERALL_MAX)

    def begin(self, address: str, account: str = "") -> int | None:
        """None when this may be tried now (and it is counted), else how many seconds to wait."""
        now = self._clock()
        while self._failures and now - self._failures[0][0] > WINDOW_SECONDS:
            self._failures.popleft()
        account = _key(account)
        limits = (
            (FAILURES_PER_ADDRESS_MAX, [at for at, of, _ in self._failures if of == address]),
            (FAILURES_PER_ACCOUNT_MAX, [at for at, _, of in self._failures if of == account and account]),
            (FAILURES_OVERALL_MAX, [at for at, _, _ in self._failures]),
        )
        waits = [_wait(times[-most], now) for most, times in limits if len(times) >= most]
        if waits:
            return max(waits)
        self._failures.append((now, address, account))
        return None

    def succeeded(self, address: str, account: str = "") -> None:
        """The try was right: neither it nor those before it, from this address for this account, count any more."""
        key = (address, _key(account))
        kept = [failure for failure in self._failures if failure[1:] != key]
        self._failures.clear()
        self._failures.extend(kept)


def _key(account: str) -> str:
    return account.strip().casefold()


def _wait(oldest: float, now: float) -> int:
    return max(1, int(oldest + WINDOW_SECONDS - now) + 1)
