"""Who is signed in to the pages: sessions held in memory, so a restart signs everybody out."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from hashlib import sha256

IDLE_SECONDS = 12 * 3600.0
LIFETIME_SECONDS = 7 * 86_400.0
SESSIONS_MAX = 1_000

_KEY_BYTES = 32


class Sessions:
    """Opens, recognises and closes sessions by the key that the browser keeps in its cookie."""

    def __init__(self, secure: bool, clock: Callable[[], float] = time.monotonic) -> None:
        # Only over TLS does a browser accept the prefix that pins a cookie to this very host.
        self.cookie_name = "__Host-hookline" if secure else "hookline_session"
        self.secure = secure
        self._clock = clock
        self._by_digest: dict[bytes, tuple[float, float]] = {}

    def open(self) -> str:
        """Start a session; its key is always new, so one planted before signing in is worth nothing."""
        now = self._clock()
        self._forget_ended(now)
        while len(self._by_digest) >= SESSIONS_MAX:
            del self._by_digest[min(self._by_digest, key=lambda digest: self._by_digest[digest][1])]
        key = secrets.token_urlsafe(_KEY_BYTES)
        self._by_digest[_digest(key)] = (now, now)
        return key

    def is_open(self, key: str | None) -> bool:
        """Whether the key belongs to a session in force; being asked keeps it from idling out."""
        if not key:
            return False
        digest, now = _digest(key), self._clock()
        found = self._by_digest.get(digest)
        if found is None:
            return False
        if _ended(found, now):
            del self._by_digest[digest]
            return False
        self._by_digest[digest] = (found[0], now)
        return True

    def close(self, key: str | None) -> None:
        """End the session of this key, if there is one."""
        if key:
            self._by_digest.pop(_digest(key), None)

    def _forget_ended(self, now: float) -> None:
        for digest in [digest for digest, times in self._by_digest.items() if _ended(times, now)]:
            del self._by_digest[digest]


def _ended(times: tuple[float, float], now: float) -> bool:
    opened, used = times
    return now - opened > LIFETIME_SECONDS or now - used > IDLE_SECONDS


def _digest(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogatepass")).digest()
