"""The end of a role's process: within ten seconds of being told, whatever does not answer.

Everything that counts is saved before, or was acknowledged to nobody: what is cut off is as after a crash.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from hookline.telemetry import log_stream
from hookline.telemetry.log import logger

END_SECONDS = 9.5
"""Shortly before a supervisor, or a system's service manager, would kill it without a word."""
FORCED = 1


class Ending:
    """``begin`` when the process is told to end, ``finish`` when nothing is left to do."""

    def __init__(self, seconds: float = END_SECONDS, leave: Callable[[int], object] = os._exit) -> None:
        self._leave = leave
        self._timer = threading.Timer(seconds, self._force)
        self._timer.daemon = True
        self._begun = threading.Lock()

    def begin(self) -> None:
        """The time runs from now on; idempotent."""
        if self._begun.acquire(blocking=False):
            self._timer.start()

    def finish(self, code: int) -> None:
        """End now, if threads that wait for somebody who does not answer would keep the process; else return."""
        others = [each for each in threading.enumerate() if each not in (threading.main_thread(), self._timer)]
        if others:
            log_stream.drain()
            self._leave(code)

    def _force(self) -> None:
        waiting = sorted(each.name for each in threading.enumerate() if each is not threading.current_thread())
        logger().error("end_forced", waiting=waiting, next_step="nothing; what was under way is as after a crash")
        log_stream.drain()
        self._leave(FORCED)
