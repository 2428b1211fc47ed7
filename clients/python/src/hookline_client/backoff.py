"""How long to wait before the next try: exponential with full jitter, or as long as the service asks."""

from __future__ import annotations

import os

FIRST_SECONDS = 0.25
MOST_SECONDS = 30.0
RETRY_AFTER_SECONDS_MAX = 300.0


def pause_seconds(retries: int, retry_after_seconds: float | None) -> float:
    """Seconds before retry number ``retries`` (from 0). Jitter keeps many clients from coming back in step."""
    # Not random(): its module takes long to import, and cannot be imported where the system has no descriptor to give.
    jitter = int.from_bytes(os.urandom(4), "big") / 2**32
    if retry_after_seconds is not None:
        # Never earlier than asked, and a little later, so that not all come at once.
        return min(retry_after_seconds, RETRY_AFTER_SECONDS_MAX) + FIRST_SECONDS * jitter
    return min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(retries, 20)) * jitter
