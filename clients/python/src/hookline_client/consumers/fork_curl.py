"""PHP's ``fork_curl``: calls wait in memory and leave in batches of ``batch_size`` through a ``curl`` process each.

What waits also leaves after ``flush_after`` seconds and with ``flush``. A request that had no answer, or one that says
so, is tried again, and one that was too large (413) goes in halves; nothing else of the answer is looked at, unless
``debug``. The end of the process waits for nothing: what is left goes to processes that outlive it.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence

from hookline_client.consumers.background import Background
from hookline_client.consumers.batch_request import BatchRequest
from hookline_client.consumers.curl_command import CurlCommand
from hookline_client.consumers.curl_processes import CurlProcesses
from hookline_client.consumers.memory_queue import MemoryQueue
from hookline_client.errors import InvalidOption
from hookline_client.ledger import Ledger
from hookline_client.options import Options
from hookline_client.receipts import Message

LAST_BATCHES_MAX = 64
"""Batches one last process sends; each is an open file."""


class ForkCurl(Background):
    """The queue and the thread of ``background``, and ``curl`` processes as the way out."""

    def __init__(self, options: Options, ledger: Ledger) -> None:
        program = shutil.which("curl")
        if program is None:
            raise InvalidOption("invalid_option", "consumer='fork_curl' needs the program curl; install it")
        command = CurlCommand(program, BatchRequest(options), options.ca_file)
        self._processes = CurlProcesses(command, options.timeout_seconds, options.max_retries, options.debug)
        self._lost = 0
        transport = options.transport or self._processes
        super().__init__(options._replace(flush_at=options.batch_size, transport=transport), ledger)

    def close(self, timeout: float) -> int:
        """Leave what waits to processes that go on without this one; return how many messages that could not save."""
        thread = self._thread
        super().close(0.0)
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)  # it has one batch in its hands at most, and waits for nothing any more
        return self._lost

    def after_fork_in_child(self) -> None:
        """Begin with an empty queue and without a process."""
        super().after_fork_in_child()
        self._lost = 0

    def _leave(self, messages: Sequence[Message]) -> None:
        if self._options.transport is not self._processes:
            super()._leave(messages)
            return
        waiting = MemoryQueue(len(messages), self._options.max_queue_bytes)
        for message in messages:
            waiting.append(message)
        while len(waiting):
            batches: list[list[Message]] = []
            while len(waiting) and len(batches) < LAST_BATCHES_MAX:
                batches.append(waiting.take(self._options.batch_size))
            left = [message for batch in batches for message in batch]
            answer = self._processes.hand_over(batches)
            if answer.code:
                self._lost += len(left)
                self._ledger.dropped(left, answer.code, answer.reason)
            else:
                self._ledger.handed_over(left)
