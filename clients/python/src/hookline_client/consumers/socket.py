"""PHP's ``socket``: every call is a request over a socket of its own, closed before there is an answer.

A call takes up to ``timeout`` seconds of the caller's time. After some in a row took all of them the consumer rests:
calls are dropped at once for a while, so that a service that hangs does not make its callers hang. With ``debug`` every
call waits for its answer.
"""

from __future__ import annotations

import ssl
import threading
import time

from hookline_client.answer import Answer
from hookline_client.consumers.one_way_request import OneWayRequest
from hookline_client.errors import CODES
from hookline_client.http_transport import make_transport
from hookline_client.ledger import Ledger
from hookline_client.options import Options
from hookline_client.receipts import Message

TIMEOUTS_MAX = 3
"""So many calls in a row may time out before a rest."""
RESTS = "No request is made for a while."
REST_FACTOR = 10
"""A rest takes so many times the timeout."""
DEBUG_TIMEOUT_SECONDS = 10.0
"""With ``debug`` an answer may take this long at least."""


class Socket:
    """No queue and no thread: when a call returns, its event has left or is lost."""

    def __init__(self, options: Options, ledger: Ledger) -> None:
        self._options = options
        self._ledger = ledger
        self._request = OneWayRequest(options)
        self._closing = False
        self._timeouts = 0
        self._rest_until = float("-inf")
        self._begin()

    def _begin(self) -> None:
        # Re-entrant: a handler, a destructor or a signal may track in the middle of a call of the same thread.
        self._lock = threading.RLock()
        self._done = threading.Condition(self._lock)
        self._under_way = 0

    def enqueue(self, message: Message) -> bool:
        """Send a message; False when it did not leave, and is lost."""
        with self._lock:
            rests = time.monotonic() < self._rest_until
            closing = self._closing
            if not rests and not closing:
                self._under_way += 1
        if closing:
            return self._lost(message, "closed", CODES["closed"])
        if rests:
            return self._lost(message, "timed_out", f"{CODES['timed_out']} {RESTS}")
        try:
            return self._wait_for_answer(message) if self._asks() else self._write(message)
        finally:
            with self._lock:
                self._under_way -= 1
                self._done.notify_all()

    def flush(self, timeout: float | None) -> int:
        """Wait for the calls that other threads are in; return how many of them are not over after ``timeout``."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while self._under_way:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    break
                self._done.wait(left)
            return self._under_way

    def close(self, timeout: float) -> int:
        """Take no more calls and wait for those that other threads are in; they have their own time limit."""
        with self._lock:
            self._closing = True
        self.flush(timeout)
        return 0

    def before_fork(self) -> None:
        """Hold the lock, so that the copy finds everything in order."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Begin without the calls that threads of the parent are in."""
        self._request.forked()
        self._begin()

    def _asks(self) -> bool:
        return self._options.debug or self._options.transport is not None

    def _write(self, message: Message) -> bool:
        try:
            self._request.write((message,))
        except TimeoutError:
            self._timeouts += 1
            if self._timeouts >= TIMEOUTS_MAX:
                self._rest_until = time.monotonic() + REST_FACTOR * self._options.timeout_seconds
            return self._lost(message, "timed_out", CODES["timed_out"])
        except OSError as error:
            code = "tls_failed" if isinstance(error, ssl.SSLError) else "connection_failed"
            return self._lost(message, code, f"{CODES[code]} ({error})")
        self._timeouts = 0
        with self._lock:
            self._ledger.queued()
        self._ledger.handed_over((message,))
        return True

    def _lost(self, message: Message, code: str, reason: str) -> bool:
        # Not all of it has left, so the service cannot have taken it.
        self._ledger.dropped((message,), code, reason)
        return False

    def _wait_for_answer(self, message: Message) -> bool:
        with self._lock:
            self._ledger.queued()
        answer = self._ask(message)
        if answer.rejected:
            self._ledger.rejected(message, *answer.rejected[0][1:])
        elif answer.code:
            self._ledger.gave_up((message,), answer.code, answer.reason)
        else:
            self._ledger.accepted((message,))
        return True

    def _ask(self, message: Message) -> Answer:
        if self._options.transport is not None:
            with self._lock:  # one thread at a time may use it
                return self._options.transport.send((message,))
        seconds = max(self._options.timeout_seconds, DEBUG_TIMEOUT_SECONDS)
        transport = make_transport(self._options._replace(timeout=seconds))
        answer = transport.send((message,))
        transport.close()
        return answer
