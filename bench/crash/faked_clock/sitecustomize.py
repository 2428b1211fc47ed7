"""Loaded by the Python of a service whose clock is faked: lets it sleep.

``time.sleep`` waits until a moment of the monotonic clock. The library of ``faketime`` (0.9.10) counts that moment from
its own wall clock even where it leaves the monotonic clock in peace, and the system refuses what comes out.
"""

from __future__ import annotations

import select
import time
from typing import SupportsIndex


def _sleep(seconds: SupportsIndex | float) -> None:
    select.select((), (), (), float(seconds))


time.sleep = _sleep
