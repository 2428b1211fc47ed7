"""One batch until the end: tries, pauses, parts, and what the ledger learns of each event."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

from hookline_client.answer import Answer
from hookline_client.backoff import pause_seconds
from hookline_client.errors import CODES
from hookline_client.ledger import Ledger
from hookline_client.log import logger
from hookline_client.options import Options
from hookline_client.receipts import Message
from hookline_client.transport import Transport

LOOK_AGAIN_SECONDS = 1.0
"""Of callers who wait for outcomes: how long in one go."""

Waited = Literal["whole", "cut", "over"]
"""A pause was waited out, or cut short by a flush, or there is no time for another try."""
Wait = Callable[[float, bool], Waited]
"""Pause for so many seconds. The flag says whether the service asked for it: such a pause is not cut short."""
Done = Callable[[int], object]
"""So many more events of the batch, from its head, have their outcome: all at once, or a part after the other."""


class Delivery:
    """Brings batches to the service within the retry budget. Used by one thread at a time."""

    def __init__(self, options: Options, ledger: Ledger) -> None:
        self._options = options
        self._ledger = ledger
        self._transport: Transport | None = options.transport
        self._importing = threading.Lock()

    def deliver(
        self, batch: Sequence[Message], wait: Wait, time_left: Callable[[], float | None], done: Done
    ) -> list[Message]:
        """Send a batch until every event of it has an outcome; return those left when time was over."""
        began, retries, tried = time.monotonic(), 0, False
        while True:
            answer = self.send(batch, time_left())
            if not answer.code:
                self._settle(batch, answer)
                done(len(batch))
                return []
            if not answer.retryable:
                return self._refused(batch, answer, wait, time_left, done)
            pause = pause_seconds(retries, answer.retry_after_seconds)
            over = time.monotonic() - began + pause > self._options.retry_seconds
            if over or retries >= self._options.max_retries:
                self._ledger.gave_up(batch, answer.code, answer.reason)
                done(len(batch))
                return []
            if not tried:  # nothing is lost yet, but nobody should learn of a wrong endpoint after an hour only
                self._ledger.report(answer.code, f"{answer.reason} It is tried again.")
            tried = True
            logger().debug("%s: %s Trying again in %.1f s.", answer.code, answer.reason, pause)
            waited = wait(pause, answer.retry_after_seconds is not None)
            if waited == "over":
                return list(batch)
            # A try that a flush brought forward is no retry: a program that flushes often would soon have had them all.
            retries += waited == "whole"

    def send(self, batch: Sequence[Message], timeout_seconds: float | None) -> Answer:
        """Try once. The first try makes the transport; when the system has no descriptor for that, it may pass."""
        try:
            transport = self._made()
        except (ImportError, OSError) as error:
            return Answer(0, "connection_failed", f"{CODES['connection_failed']} ({error})")
        return transport.send(batch, timeout_seconds)

    def _made(self) -> Transport:
        # When it is first needed: its modules take long to import.
        if self._transport is None:
            with self._importing:
                from hookline_client.http_transport import make_transport
            self._transport = make_transport(self._options)
        return self._transport

    def before_fork(self) -> None:
        """Wait for an import: a copy of a process in the middle of one can never finish it."""
        self._importing.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._importing.release()

    def close(self) -> None:
        """Let go of the connection, in the middle of a request too."""
        if self._transport is not None:
            self._transport.close()

    def after_fork_in_child(self) -> None:
        """Leave the connection to the parent process."""
        self._importing = threading.Lock()
        if self._transport is not None:
            self._transport.forked()

    def _settle(self, batch: Sequence[Message], answer: Answer) -> None:
        refused = {index for index, _, _ in answer.rejected}
        for index, code, reason in answer.rejected:
            if 0 <= index < len(batch):
                self._ledger.rejected(batch[index], code, reason)
        good = batch if not refused else [message for index, message in enumerate(batch) if index not in refused]
        if answer.status:
            self._ledger.accepted(good)
        else:
            self._ledger.handed_over(good)

    def _refused(
        self, batch: Sequence[Message], answer: Answer, wait: Wait, time_left: Callable[[], float | None], done: Done
    ) -> list[Message]:
        if answer.status in (400, 413) and len(batch) > 1:
            # One event may spoil the request for the others: look for it by halves.
            middle = len(batch) // 2
            left = self.deliver(batch[:middle], wait, time_left, done)
            return left + (list(batch[middle:]) if left else self.deliver(batch[middle:], wait, time_left, done))
        self._ledger.gave_up(batch, answer.code, answer.reason)
        done(len(batch))
        return []
