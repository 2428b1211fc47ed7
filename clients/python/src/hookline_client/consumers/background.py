"""The default consumer, as Go has it: a thread sends batches by count or time, and retries for as long as it may.

One batch is under way at a time, so events arrive in the order of the calls. The thread is a daemon and begins with the
first message; in a forked child that is the child's first message.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from hookline_client import lifecycle
from hookline_client.consumers.delivery import LOOK_AGAIN_SECONDS, Delivery, Waited
from hookline_client.consumers.memory_queue import MemoryQueue
from hookline_client.errors import CODES
from hookline_client.ledger import THREADS, Ledger
from hookline_client.log import logger
from hookline_client.options import Options
from hookline_client.receipts import Message

ABORT_SECONDS = 0.5
"""How long the thread may take to notice that it is to end, once its connection was closed under it."""
FLUSH_PAUSE_SECONDS = 1.0
"""The longest pause before the next try while somebody waits in ``flush``."""
POKED_PAUSE_SECONDS = 0.1
"""And when a ``flush`` has just begun: hardly any, but a program that flushes often is no hammer."""
LAST_TRY_SECONDS = 0.05
"""The least time a try gets at the end of a process."""


class Background:
    """A bounded queue and the thread that empties it."""

    def __init__(self, options: Options, ledger: Ledger, queue: MemoryQueue | None = None) -> None:
        self._options = options
        self._ledger = ledger
        self._queue = queue or MemoryQueue(options.max_queue_size, options.max_queue_bytes)
        self._delivery = Delivery(options, ledger)
        self._closing = False
        self._begin()

    def _begin(self) -> None:
        # Re-entrant: a handler, a destructor or a signal may track in the middle of a call of the same thread.
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)  # the thread waits here for messages and for its next try
        self._done = threading.Condition(self._lock)  # callers wait here for outcomes and for room
        self._thread: threading.Thread | None = None
        self._threadless = False  # a thread was wanted and could not be had
        self._stand_in: threading.Thread | None = None  # the caller of flush who sends in its place
        self._idle = False
        self._poked = False
        self._flushing = 0
        self._flush_to = 0
        self._under_way: tuple[int, int] | None = None
        self._last_flush = time.monotonic()
        self._stop_at: float | None = None
        self._aborted = False
        self._ends_itself = False  # a handler closed: the sender goes on, and ends when all is sent or the time is over

    def enqueue(self, message: Message) -> bool:
        """Queue a message, and wake the thread when there are enough of them."""
        displaced: list[Message] = []
        left: list[Message] = []
        with self._lock:
            code = "closed" if self._closing else ""
            if not code and not self._queue.has_room(message):
                code = self._make_room(message, displaced)
            if not code:
                self._queue.append(message)
                self._ledger.queued()
                if self._idle:
                    waiting = len(self._queue)
                    if waiting == 1 or waiting >= self._options.flush_at:
                        self._work.notify()
                elif self._thread is None:
                    self._start()
                if self._aborted:  # a signal handler closed in the middle of this call: nobody else would have them
                    left = self._queue.clear()
        if displaced:
            self._ledger.dropped(displaced, "queue_full", CODES["queue_full"])
        if code:
            self._ledger.dropped((message,), code, CODES[code])
        elif left:
            self._leave(left)
        elif self._options.debug:
            self.flush(self._options.timeout_seconds)
        return not code and not left

    def flush(self, timeout: float | None) -> int:
        """Send what is queued now; return how many messages of it have no outcome after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            target = self._queue.end
            self._flush_to = max(self._flush_to, target)
            self._poked = True
            self._flushing += 1
            self._work.notify()
            if self._thread is None and len(self._queue):
                self._start()
        try:
            while self._wait_flushed(target, deadline):
                self._work_off(deadline)
        finally:  # after a Ctrl-C too: as long as somebody waits, pauses are short
            with self._lock:
                self._flushing -= 1
                left = self._open_before(target)
        return left

    def close(self, timeout: float) -> int:
        """Flush, then end the thread; what is left then is dropped and counted.

        In a handler, which runs on that thread, return at once: the thread does all this afterwards.
        """
        with self._lock:
            first, self._closing = not self._closing, True
            thread = self._thread
            if first:
                self._stop_at = time.monotonic() + timeout
                self._ends_itself = timeout > 0 and self._is_sender()
                self._done.notify_all()
        if first and self._ends_itself:
            lifecycle.register(self)  # the client is closed, and known no more: the end of the process waits for this
            return self.flush(timeout)
        if not first:  # somebody is closing already: wait for that
            return self.flush(timeout)
        left = self.flush(timeout)
        with self._lock:
            self._aborted = True
            self._work.notify()
        if left:
            self._delivery.close()
        if thread is not None and thread is not threading.current_thread():
            thread.join(ABORT_SECONDS)
        with self._lock:
            dropped = self._queue.clear()
            stuck = self._under_way[1] if self._under_way else 0
            self._done.notify_all()
        self._leave(dropped)
        if not stuck:
            self._delivery.close()
        return left

    def end_of_process(self, gone_seconds: float) -> None:
        """Wait for what a close in a handler left to the thread, within the exit timeout, of which so much is gone."""
        self.flush(max(0.0, self._options.exit_timeout - gone_seconds))

    def before_fork(self) -> None:
        """Hold the lock, so that the copy finds everything in order."""
        self._delivery.before_fork()
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._lock.release()
        self._delivery.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """Begin with an empty queue and without a thread; the parent sends what it had queued."""
        self._queue.clear()
        self._delivery.after_fork_in_child()
        self._begin()

    def _make_room(self, message: Message, displaced: list[Message]) -> str:
        policy = self._options.on_full
        if policy == "drop_old":
            while not self._queue.has_room(message):
                displaced.append(self._queue.drop_oldest())
            self._done.notify_all()
        elif policy == "block" and not self._is_sender():
            deadline = time.monotonic() + self._options.block_timeout
            self._wait_done(lambda: self._closing or self._queue.has_room(message), deadline)
        if self._closing:
            return "closed"
        return "" if self._queue.has_room(message) else "queue_full"

    def _wait_done(self, condition: Callable[[], bool], deadline: float | None) -> None:
        while not condition():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            # A signal handler that flushes while the condition is looked at has had the last notification.
            self._done.wait(LOOK_AGAIN_SECONDS if left is None else min(left, LOOK_AGAIN_SECONDS))

    def _wait_flushed(self, target: int, deadline: float | None) -> bool:
        """Wait until nothing before ``target`` is open; True when the caller has to send it, as nobody else does."""

        def nobody_sends() -> bool:
            return self._threadless and self._stand_in is None

        with self._lock:
            if self._is_sender():  # a handler may flush: it cannot wait for itself
                return False
            self._wait_done(lambda: not self._open_before(target) or nobody_sends(), deadline)
            is_over = deadline is not None and time.monotonic() >= deadline
            if is_over or not self._open_before(target) or not nobody_sends():
                return False
            self._stand_in = threading.current_thread()
            return True

    def _is_sender(self) -> bool:
        return threading.current_thread() in (self._thread, self._stand_in)

    def _open_before(self, target: int) -> int:
        queued = max(0, min(target, self._queue.end) - self._queue.removed)
        position, count = self._under_way or (0, 0)
        return queued + max(0, min(count, target - position))  # the batch may hold later ones too

    def _start(self) -> None:
        if self._stand_in is not None:
            return
        thread = threading.Thread(target=self._run, name=THREADS, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The interpreter is ending, or the system has no thread to give just now: the next call tries again.
            # Until then flush and close send by themselves.
            self._threadless = True
            return
        self._thread, self._threadless = self._thread or thread, False

    def _run(self) -> None:
        with self._lock:
            self._thread = self._thread or threading.current_thread()
            if self._thread is not threading.current_thread():
                return  # a signal handler's call came in the middle of the start, and started another one
        while self._wait_due() and self._send_one():
            pass
        if self._ends_itself:
            self._end()

    def _wait_due(self) -> bool:
        """Wait until there is something to send; False when there never will be."""
        with self._lock:
            while not self._aborted:
                if self._ends_itself and time.monotonic() >= (self._stop_at or 0.0):
                    return False
                pause: float | None = None
                if len(self._queue):
                    if self._flush_to > self._queue.removed:
                        return True
                    pause = self._last_flush + self._options.flush_after - time.monotonic()
                    if len(self._queue) >= self._options.flush_at or pause <= 0 or self._closing:
                        self._flush_to = self._queue.end
                        return True
                elif self._closing:
                    return False
                self._idle = True
                self._work.wait(pause)
                self._idle = False
            return False

    def _send_one(self) -> bool:
        with self._lock:
            position = self._queue.removed
            batch = self._queue.take(self._options.batch_size)
            if not batch:  # all of it was dropped meanwhile
                return True
            self._under_way = (position, len(batch))
            self._last_flush = time.monotonic()
            self._done.notify_all()
        left: list[Message] = []
        try:
            left = self._delivery.deliver(batch, self._pause, self._time_left, self._part_done)
        except Exception:  # noqa: BLE001 - told to the log
            logger().exception("a batch of %d events could not be sent", len(batch))
            self._ledger.gave_up(self._open_of(batch), "server_error", CODES["server_error"])
        except BaseException:  # a Ctrl-C in a caller of flush who sends: the next one has the rest of the batch again
            with self._lock:
                self._queue.put_back(self._open_of(batch))
                self._under_way = None
                self._done.notify_all()
            raise
        with self._lock:
            stays = self._stand_in is not None and not self._aborted  # the caller's time is over, not the events'
            if stays:
                self._queue.put_back(left)
                self._under_way = None
                self._done.notify_all()
        if not stays:
            self._leave(left)
            with self._lock:
                self._under_way = None
                self._done.notify_all()
        return not left

    def _end(self) -> None:
        """Drop what a close in a handler left no time for."""
        with self._lock:
            self._aborted = True
            position, rest = self._queue.removed, self._queue.clear()
            self._under_way = (position, len(rest))  # until the ledger has them: somebody may wait for that
        self._leave(rest)
        with self._lock:
            self._under_way = None
            self._done.notify_all()
        self._delivery.close()
        lifecycle.unregister(self)

    def _part_done(self, count: int) -> None:
        with self._lock:
            position, waiting = self._under_way or (0, 0)
            self._under_way = (position + count, waiting - count)
            self._done.notify_all()

    def _open_of(self, batch: Sequence[Message]) -> Sequence[Message]:
        """Return what of the batch under way has no outcome yet."""
        return batch[len(batch) - (self._under_way or (0, 0))[1] :]

    def _leave(self, messages: Sequence[Message]) -> None:
        """These did not get out before the end."""
        self._ledger.dropped(messages, "closed", CODES["closed"])

    def _work_off(self, deadline: float | None) -> None:
        """Send everything in the calling thread, because there can be no other."""
        with self._lock:
            stop_at, self._stop_at = self._stop_at, deadline
        try:
            while len(self._queue) and (deadline is None or time.monotonic() < deadline):
                if not self._send_one():
                    break
        finally:
            if self._ends_itself:
                self._end()
            with self._lock:
                self._stop_at, self._stand_in = stop_at, None
                self._done.notify_all()

    def _pause(self, seconds: float, asked: bool) -> Waited:
        """Wait for the next try; a flush cuts it short unless the service asked for the pause."""
        began = time.monotonic()
        with self._lock:
            while not self._aborted:
                until = began + seconds
                if not asked and self._poked:
                    until = min(until, began + POKED_PAUSE_SECONDS)
                elif not asked and self._flushing:
                    until = min(until, began + FLUSH_PAUSE_SECONDS)
                if self._stop_at is not None:
                    until = min(until, self._stop_at)
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._work.wait(left)
            self._poked = False
            now = time.monotonic()
            if self._aborted or (self._stop_at is not None and now >= self._stop_at):
                return "over"
            return "whole" if now >= began + seconds else "cut"

    def _time_left(self) -> float | None:
        return None if self._stop_at is None else max(LAST_TRY_SECONDS, self._stop_at - time.monotonic())
