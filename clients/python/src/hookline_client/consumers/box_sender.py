"""Sends the events of boxes, batch by batch, and never gives one up: what does not go now stays in its box."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import NamedTuple

from hookline_client.answer import Answer
from hookline_client.backoff import pause_seconds
from hookline_client.batch import EVENTS_BYTES_MAX
from hookline_client.consumers.delivery import Delivery
from hookline_client.errors import CODES
from hookline_client.ledger import Ledger
from hookline_client.receipts import Message
from hookline_client.refusal import is_about_content
from hookline_client.spool.box import Box

REFUSED_SECONDS = 60.0
"""The pause after a refusal that another try will hardly change: somebody has to correct the write key."""
FLUSH_PAUSE_SECONDS = 1.0
"""The longest pause before the next try while somebody waits in ``flush``, unless the service asked for it."""
POKED_PAUSE_SECONDS = 0.1
"""And when a ``flush`` has just begun: hardly any, but a program that flushes often is no hammer."""


class Sent(NamedTuple):
    """What became of one batch: ``found`` lines were in the box, ``done`` of them have left it."""

    found: int
    done: int


class BoxSender:
    """Sends one batch at a time, and says when the next try may be. Used by one thread, but for ``poke``."""

    def __init__(self, batch_size: int, delivery: Delivery, ledger: Ledger) -> None:
        self.next_try_at = 0.0
        """Monotonic seconds; in the past while the service takes events."""
        self.refusals = 0
        """How often the service refused, which repeating does not change."""
        self._batch_size = self._events_max = batch_size
        self._delivery = delivery
        self._ledger = ledger
        self._retries = 0
        self._was_asked = False

    def send(self, box: Box, is_own: bool, time_left: float | None, is_flushing: bool) -> Sent:
        """Send the first batch of a box. Outcomes of own events go into the ledger, those of others are only told."""
        lines = box.read(self._events_max, EVENTS_BYTES_MAX)
        messages = [message for message in map(_message, lines) if message is not None]
        answer = self._delivery.send(messages, time_left) if messages else Answer(200)
        if answer.code and not is_about_content(answer):
            self._wait(answer, is_flushing)
            return Sent(len(lines), 0)
        if answer.code and len(lines) > 1:
            self._events_max = len(lines) // 2  # one event spoils the request for the others: it is looked for
            return Sent(len(lines), 0)
        self._retries, self._was_asked = 0, False
        self._events_max = min(2 * self._events_max, self._batch_size)
        if lines:
            self._acknowledge(box, lines)
            if len(messages) < len(lines):
                self._ledger.report("spool_damaged", CODES["spool_damaged"], len(lines) - len(messages))
            self._settle(messages, answer, is_own)
        return Sent(len(lines), len(lines))

    def poke(self) -> None:
        """Somebody waits: try again soon, unless the service asked for a pause."""
        if not self._was_asked:
            self.next_try_at = min(self.next_try_at, time.monotonic() + POKED_PAUSE_SECONDS)

    def _acknowledge(self, box: Box, lines: Sequence[bytes]) -> None:
        try:
            box.acknowledge(lines)
        except OSError as error:  # only a crash would repeat them
            self._ledger.report("spool_failed", f"{CODES['spool_failed']} ({error})")

    def _settle(self, messages: Sequence[Message], answer: Answer, is_own: bool) -> None:
        rejected = {index: (code, reason) for index, code, reason in answer.rejected}
        if answer.code:  # of a single event
            rejected = dict.fromkeys(range(len(messages)), (answer.code, answer.reason))
        for index, (code, reason) in rejected.items():
            if not is_own:  # its process is gone, and so is its ledger
                self._ledger.report(code, reason, 1)
            elif 0 <= index < len(messages):
                self._ledger.rejected(messages[index], code, reason)
        if is_own:
            self._ledger.accepted([message for index, message in enumerate(messages) if index not in rejected])

    def _wait(self, answer: Answer, is_flushing: bool) -> None:
        self._was_asked = answer.retry_after_seconds is not None
        if self._retries == 0 or not answer.retryable:
            self._ledger.report(answer.code, f"{answer.reason} The events wait in the spool.")
        pause = pause_seconds(self._retries, answer.retry_after_seconds) if answer.retryable else REFUSED_SECONDS
        if is_flushing and not self._was_asked:
            pause = min(pause, FLUSH_PAUSE_SECONDS)
        self._retries += 1
        self.refusals += not answer.retryable
        self.next_try_at = time.monotonic() + pause


def _message(line: bytes) -> Message | None:
    """The event of a line; None when a crash of the machine left something else there."""
    try:
        # Integers as floats: Python refuses those of thousands of digits, as the Go library may write one.
        return str(json.loads(line, parse_int=float)["messageId"]), line
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
