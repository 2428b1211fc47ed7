"""The book of outcomes: consumers write down what became of each event; flush, stats and the handlers read it.

Handlers are the application's code: they are called without any lock held, and what they raise ends in the log.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from hookline_client import lifecycle
from hookline_client.log import logger
from hookline_client.receipts import FlushResult, Message, Outcome, Receipt, Stats

RECEIPTS_MAX = 100_000
"""Receipts kept for the next flush; the oldest go first."""
THREADS = "hookline-client"
"""Begins the names of our own threads; the one that sends has no more of a name."""
NESTED_MAX = 50
"""Bounds how often the error handler is called within itself, by calls that it makes and that fail. With two such calls
the times would double at every level, and never end."""
LOSS_LOG_SECONDS = 10.0
"""One line in the log per code in so long: a full queue would fill it otherwise."""


class Ledger:
    """Counts of all outcomes, and the receipts since the last flush. Safe with many threads."""

    def __init__(
        self,
        error_handler: Callable[[str, str], object] | None = None,
        on_success: Callable[[Sequence[str]], object] | None = None,
        keep_all: bool = False,
    ) -> None:
        self._error_handler = error_handler
        self._on_success = on_success
        self._keep_all = keep_all
        self._lock = threading.RLock()
        self._totals: dict[str, int] = dict.fromkeys(Stats._fields, 0)
        self._told: dict[str, int] = dict(self._totals)
        self._receipts: deque[Receipt] = deque(maxlen=RECEIPTS_MAX)
        self._quiet: dict[str, tuple[float, int]] = {}
        self._nested = threading.local()

    def queued(self) -> None:
        """One event was queued. Only ever called with the lock of a consumer's queue held."""
        self._totals["queued"] += 1

    def accepted(self, messages: Sequence[Message]) -> None:
        """The service has these on disk."""
        self._good("accepted", messages)
        if messages and self._on_success is not None:
            self._call(self._on_success, [message_id for message_id, _ in messages])

    def handed_over(self, messages: Sequence[Message]) -> None:
        """These left the process; what became of them there is not known here."""
        self._good("handed_over", messages)

    def rejected(self, message: Message, code: str, reason: str) -> None:
        """The service took the request and refused this event of it."""
        self._lost("rejected", (message,), code, reason)

    def gave_up(self, messages: Sequence[Message], code: str, reason: str) -> None:
        """The request with these failed for good."""
        self._lost("gave_up", messages, code, reason)

    def dropped(self, messages: Sequence[Message], code: str, reason: str) -> None:
        """These never left the queue, or never got into it."""
        self._lost("dropped", messages, code, reason)

    def invalid(self, code: str, reason: str) -> None:
        """A call broke a rule; there is no event to give a receipt for."""
        with self._lock:
            self._totals["invalid"] += 1
        self.report(code, reason, 1)

    def report(self, code: str, reason: str, count: int = 0) -> None:
        """Tell the log, at most once in a while per code, and the error handler; ``count`` events are lost."""
        now = time.monotonic()
        with self._lock:
            last, unsaid = self._quiet.get(code, (0.0, 0))
            says = last == 0.0 or now - last >= LOSS_LOG_SECONDS
            self._quiet[code] = (now, 0) if says else (last, unsaid + count)
        if says:
            logger().warning("%s: %s (events lost: %d)", code, reason, unsaid + count)
        times: int = getattr(self._nested, "times", 0)
        if times < NESTED_MAX:
            self._nested.times = times + 1
            try:
                self._call(self._error_handler, code, reason)
            finally:
                if not times:
                    self._nested.times = 0

    def stats(self) -> Stats:
        """All counts since the client was made."""
        with self._lock:
            return Stats(**self._totals)

    def take(self, waiting: int) -> FlushResult:
        """What happened since the last time; each outcome is told once."""
        with self._lock:
            counts = {name: self._totals[name] - self._told[name] for name in FlushResult._fields[:5]}
            self._told = dict(self._totals)
            receipts = tuple(self._receipts)
            self._receipts.clear()
        return FlushResult(**counts, waiting=waiting, receipts=receipts)

    def forked(self) -> None:
        """Begin anew in a forked child: its parent tells what became of the parent's events."""
        self._lock = threading.RLock()
        self._totals = dict.fromkeys(Stats._fields, 0)
        self._told = dict(self._totals)
        self._receipts.clear()

    def _good(self, outcome: Outcome, messages: Sequence[Message]) -> None:
        if not messages:
            return
        with self._lock:
            self._totals[outcome] += len(messages)
            if self._keep_all:
                self._receipts.extend(Receipt(message_id, outcome) for message_id, _ in messages)

    def _lost(self, outcome: Outcome, messages: Sequence[Message], code: str, reason: str) -> None:
        if not messages:
            return
        with self._lock:
            self._totals[outcome] += len(messages)
            self._receipts.extend(Receipt(message_id, outcome, code, reason) for message_id, _ in messages)
        self.report(code, reason, len(messages))

    def _call(self, handler: Callable[..., object] | None, *arguments: Any) -> None:
        if handler is None:
            return
        try:
            handler(*arguments)
        except Exception:  # noqa: BLE001 - told to the log
            logger().exception("a handler of the application failed")
        except SystemExit:
            # On another thread it would end that thread alone, and nobody would send any more. At the end of a process
            # it would end nothing but the turn of the other clients.
            if threading.current_thread() is threading.main_thread() and not lifecycle.ended():
                raise
            logger().exception("a handler of the application cannot end the program here")
        except BaseException:  # such as asyncio's CancelledError
            if not threading.current_thread().name.startswith(THREADS):
                raise
            logger().exception("a handler of the application failed")
