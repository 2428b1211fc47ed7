"""``background`` with ``spool=DIRECTORY``: events are on disk when the call returns, and stay until acknowledged.

A thread sends them in the order of the calls and never gives one up: while the service is away, or refuses the write
key, they wait, for the next process if need be. What processes left that are gone is sent as well, one box at a time.

What is lost when: the end of the process, ``kill -9`` included, loses nothing that a call returned for. A crash of the
machine may lose events of the last second that were not acknowledged yet; see ``Syncer``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from errno import ENOBUFS

from hookline_client.consumers.box_sender import BoxSender, Sent
from hookline_client.consumers.delivery import LOOK_AGAIN_SECONDS, Delivery
from hookline_client.consumers.syncer import Syncer
from hookline_client.errors import CODES, InvalidOption
from hookline_client.ledger import THREADS, Ledger
from hookline_client.log import logger
from hookline_client.options import Options
from hookline_client.receipts import Message
from hookline_client.spool.box import Box
from hookline_client.spool.spool import Spool

ADOPT_SECONDS = 10.0
"""How often boxes of ended processes are looked for."""
FAULT_SECONDS = 1.0
"""The pause after the disk, or our own code, failed."""
ABORT_SECONDS = 0.5
"""Bounds how long the thread is waited for until it notices that it is to end. A request of another process's events, a
handler, or a call that a signal handler interrupted to close, may keep it for longer."""
LAST_TRY_SECONDS = 0.05
"""The least time a try gets at the end of a process."""


class Spooled:
    """The spool and the thread that empties it."""

    def __init__(self, options: Options, ledger: Ledger) -> None:
        if options.on_full != "drop_new":
            raise InvalidOption("invalid_option", f"with a spool on_full can only be drop_new, not {options.on_full!r}")
        self._options = options
        self._ledger = ledger
        self._spool = Spool(options.spool or "", options.write_key, options.spool_bytes)
        self._delivery = Delivery(options, ledger)
        self._closing = False
        self._begin()

    def _begin(self) -> None:
        # Re-entrant: a handler, a destructor or a signal may track in the middle of a call of the same thread.
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)  # the thread waits here for events and for its next turn
        self._done = threading.Condition(self._lock)  # callers wait here for outcomes
        self._thread: threading.Thread | None = None
        self._is_idle = False
        self._is_ended = False
        self._is_letting_go = False
        self._is_appending = False
        self._adopted: Box | None = None
        self._adopting = threading.Lock()  # a child must know every box whose lock it has inherited
        self._sender = BoxSender(self._options.batch_size, self._delivery, self._ledger)
        self._queued = self._finished = self._flush_to = self._flushing = 0
        self._doubtful = 0  # of those queued: calls that were ended in the middle
        self._last_flush = time.monotonic()
        self._adopt_at = 0.0
        self._syncer = Syncer(lambda: self._guarded(self._sync), lambda: self._queued > self._finished)
        self._stop_at: float | None = None

    def enqueue(self, message: Message) -> bool:
        """Write a message to the disk, and wake the thread when there are enough of them."""
        with self._lock:
            code, reason = self._append(message[1])
            if not code:
                self._ledger.queued()
                self._syncer.wrote()
                waiting = self._queued - self._finished
                if self._thread is None:
                    self._start()
                elif self._is_idle and (waiting == 1 or waiting >= self._options.flush_at):
                    self._work.notify()
        if code:
            self._ledger.dropped((message,), code, reason)
        elif self._options.debug:
            self.flush(self._options.timeout_seconds)
        return not code

    def flush(self, timeout: float | None) -> int:
        """Send what was written before; return how many of it are not acknowledged after ``timeout`` seconds.

        A refusal ends the wait too: repeating does not help, and the events are safe.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            target, refusals = self._queued, self._sender.refusals
            self._flush_to = max(self._flush_to, target)
            self._sender.poke()
            self._work.notify()
            if self._thread is None:
                self._start()
            if not self._waits_for_itself():
                self._flushing += 1
                try:
                    self._wait_done(lambda: self._finished >= target or self._sender.refusals > refusals, deadline)
                finally:  # after a Ctrl-C too: as long as somebody waits, pauses are short
                    self._flushing -= 1
            return max(0, target - self._finished)

    def close(self, timeout: float) -> int:
        """Flush, then end the thread. Nothing is lost: what is left stays on disk for the next process."""
        stop_at = time.monotonic() + timeout
        with self._lock:
            is_first, self._closing = not self._closing, True
            if is_first:
                self._stop_at = stop_at
        if not is_first:  # somebody is closing already: wait for that
            self.flush(timeout)
            return 0
        left = self.flush(timeout) if self._queued else 0
        with self._lock:
            self._is_ended = True
            self._work.notify()
            self._done.notify_all()
            self._syncer.end()
            thread, cannot_end = self._thread, self._waits_for_itself()
        if left:
            self._delivery.close()
        if cannot_end:
            pass  # a call that was interrupted still writes to the box: the thread lets go of it, or the process's end
        elif thread is None:
            self._guarded(self._let_go)
        else:
            # Not a wait on the lock: a call that was interrupted in the middle must keep the thread from it.
            thread.join(ABORT_SECONDS)
            if self._is_letting_go:
                thread.join(max(0.0, stop_at - time.monotonic()))
        if left:
            logger().warning("%d events stay in the spool %s", left, self._options.spool)
        return 0

    def before_fork(self) -> None:
        """Hold the lock, so that the copy finds everything in order."""
        self._delivery.before_fork()
        self._adopting.acquire()
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._lock.release()
        self._adopting.release()
        self._delivery.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """Begin with a box of its own and without a thread; the parent keeps its boxes."""
        self._spool.forget()
        if self._adopted is not None:
            self._adopted.forget()
        self._delivery.after_fork_in_child()
        self._begin()

    def _append(self, line: bytes) -> tuple[str, str]:
        if self._closing:
            return "closed", CODES["closed"]
        outer, self._is_appending = self._is_appending, True
        try:
            self._spool.append(line)
            self._queued += 1  # here: where it is not counted yet, a signal handler may not wait
        except OSError as error:
            if error.errno == ENOBUFS:
                return "queue_full", f"{CODES['queue_full']} ({error})"
            return "spool_failed", f"{CODES['spool_failed']} ({error})"
        except BaseException:  # of a signal handler, before the write or behind it: the thread that sends will see
            self._queued += 1
            self._doubtful += 1
            self._work.notify()
            raise
        finally:
            self._is_appending = outer
        return "", ""

    def _waits_for_itself(self) -> bool:
        """Return whether whoever holds the lock is the thread that sends, in a handler, or keeps the box from it, in a
        call that a signal handler interrupted: neither can wait for what that thread does."""
        return self._is_appending or self._thread is threading.current_thread()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=THREADS, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is ending: what was written is sent by the next process
            return
        self._thread = self._thread or thread

    def _wait_done(self, condition: Callable[[], bool], deadline: float | None) -> None:
        while not condition() and self._thread is not None and not self._is_ended:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            # A signal handler that flushes while the condition is looked at has had the last notification.
            self._done.wait(LOOK_AGAIN_SECONDS if left is None else min(left, LOOK_AGAIN_SECONDS))

    def _run(self) -> None:
        with self._lock:
            self._thread = self._thread or threading.current_thread()
            if self._thread is not threading.current_thread():
                return  # a signal handler's call came in the middle of the start, and started another one
        while True:
            with self._lock:
                while not self._is_ended:
                    pause = self._pause()
                    if pause <= 0:
                        break
                    self._is_idle = True
                    self._work.wait(pause)
                    self._is_idle = False
                if self._is_ended:
                    break
            self._guarded(self._turn)
        self._guarded(self._let_go)

    def _pause(self) -> float:
        """Seconds until there is something to do."""
        now = time.monotonic()
        dues = [self._adopt_at] if self._adopted is None else [self._sender.next_try_at]
        if self._queued > self._finished:
            is_due = self._is_flush_due(now)
            dues.append(max(self._sender.next_try_at, now if is_due else self._last_flush + self._options.flush_after))
        return min(dues) - now

    def _is_flush_due(self, now: float) -> bool:
        waiting = self._queued - self._finished
        is_old = now >= self._last_flush + self._options.flush_after
        return waiting > 0 and (
            self._closing or is_old or self._flush_to > self._finished or waiting >= self._options.flush_at
        )

    def _turn(self) -> None:
        now = time.monotonic()
        if self._adopted is None and now >= self._adopt_at:
            self._adopt_at = now + ADOPT_SECONDS
            try:
                with self._adopting:
                    self._adopted = self._spool.adopt()
            except OSError as error:
                self._failed(error)
        if now >= self._sender.next_try_at and self._is_flush_due(now):
            self._send_own(now)
        if now >= self._sender.next_try_at and self._adopted is not None:
            try:
                self._send_adopted(self._adopted)
            except OSError as error:  # of that box: it must neither keep the others nor slow down what is ours
                if self._spool.put_off(self._adopted):
                    self._adopt_at = 0.0
                self._adopted = None
                self._failed(error)

    def _send_own(self, now: float) -> None:
        with self._lock:
            if self._flush_to <= self._finished:
                self._flush_to = self._queued
            self._last_flush = now
            box, expected = self._spool.box, self._queued
        sent = Sent(0, 0) if box is None else self._send(box, is_own=True)
        with self._lock:
            missing = 0 if sent.found else expected - self._finished
            lost = max(0, missing - self._doubtful)
            self._finished += sent.done + missing
            if self._finished == self._queued:
                self._doubtful = 0
            self._done.notify_all()
        if lost:  # events are not where they were written: somebody removed them
            if box is not None:
                box.give_up()
            self._ledger.report("spool_damaged", CODES["spool_damaged"], lost)

    def _send_adopted(self, box: Box) -> None:
        if not self._send(box, is_own=False).found:
            box.close()
            self._adopted, self._adopt_at = None, 0.0

    def _send(self, box: Box, is_own: bool) -> Sent:
        left = None if self._stop_at is None else max(LAST_TRY_SECONDS, self._stop_at - time.monotonic())
        return self._sender.send(box, is_own, left, self._flushing > 0)

    def _sync(self) -> None:
        box = self._spool.box
        if box is not None:
            box.sync()

    def _guarded(self, step: Callable[[], object]) -> None:
        """The border of the thread: a disk that fails, or a fault of ours, is told and does not end it."""
        try:
            step()
        except OSError as error:
            self._failed(error)
            self._sender.next_try_at = time.monotonic() + FAULT_SECONDS
        except Exception:  # noqa: BLE001 - told to the log
            logger().exception("the spool could not be worked on")
            self._sender.next_try_at = time.monotonic() + FAULT_SECONDS

    def _failed(self, error: OSError) -> None:
        self._ledger.report("spool_failed", f"{CODES['spool_failed']} ({error})")

    def _let_go(self) -> None:
        """Close everything; done by the thread, if there is one, when it has ended its last request."""
        self._delivery.close()
        self._is_letting_go = True  # from here on only the disk takes time
        self._spool.forget_removed()
        for box in (self._spool.box, self._adopted):
            if box is not None:
                self._guarded(box.close)
