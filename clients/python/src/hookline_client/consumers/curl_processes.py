"""Batches through ``curl`` processes: the transport of the ``fork_curl`` consumer."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import threading
import time
from collections.abc import Sequence

from hookline_client.answer import Answer
from hookline_client.consumers.curl_answer import answer_of, no_answer
from hookline_client.consumers.curl_command import CurlCommand
from hookline_client.errors import CODES
from hookline_client.http_transport import ANSWER_BYTES_MAX
from hookline_client.receipts import Message

POLL_SECONDS = 1.0
"""How often a process is looked at whose pipe does not end: a fork of ours in the wrong moment may hold it open."""
GRACE_SECONDS = 2.0
"""How long after its time a process is ended: curl ends itself."""
LAST_RETRIES_MAX = 10
"""Retries of a process that nobody watches, with the growing pauses of curl."""

_COMPLAINT = re.compile(rb"curl: \((\d+)\) (.*)")


class CurlProcesses:
    """One process per batch, and one at a time, until ``close``; then processes that nobody watches.

    The thread that sends waits for the end of its process, so there is never a zombie. What the service answers is
    passed over, unless ``reads_answers``, or unless it says to try again.
    """

    def __init__(self, command: CurlCommand, timeout_seconds: float, retries: int, reads_answers: bool) -> None:
        self._command = command
        self._timeout_seconds = timeout_seconds
        self._retries = min(retries, LAST_RETRIES_MAX)
        self._reads_answers = reads_answers
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._watch: _Watch | None = None

    def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
        """Send one batch; without an answer of the service it is an answer with status 0 and a code."""
        seconds = self._timeout_seconds if timeout_seconds is None else min(timeout_seconds, self._timeout_seconds)
        with self._lock:
            if self._closed:
                return self.hand_over([batch])
            try:
                watch = self._watch = _Watch(self._command.start([batch], seconds), batch)
            except OSError as error:
                return _not_started(error)
        watch.wait(seconds + GRACE_SECONDS)
        with self._lock:
            self._watch = None
            watch.close()
        if watch.instead is not None:
            return watch.instead
        number = watch.process.returncode
        if number:
            return no_answer(*_complaint(number, bytes(watch.said)))
        return _shown(bytes(watch.shown), self._reads_answers)

    def close(self) -> None:
        """A ``send`` that waits in another thread ends at once; another process takes its batch, and tries longer."""
        with self._lock:
            self._closed = True
            if self._watch is not None:
                self._watch.leave(self.hand_over([self._watch.batch]))

    def hand_over(self, batches: Sequence[Sequence[Message]]) -> Answer:
        """Leave these to a process that goes on without this one, and tries again by itself."""
        try:
            reap(self._command.start_alone(batches, self._timeout_seconds, self._retries))
        except OSError as error:
            return _not_started(error)
        return Answer(0)

    def forked(self) -> None:
        """The process under way is the parent's; only our copies of its pipes are to be closed."""
        if self._watch is not None:
            self._watch.forget()
        self._begin()


class _Watch:
    """Waits for one process, until it ends, the time is over, or somebody says to leave it."""

    def __init__(self, process: subprocess.Popen[bytes], batch: Sequence[Message]) -> None:
        self.process = process
        self.batch = batch
        self.instead: Answer | None = None
        self.said = bytearray()
        self.shown = bytearray()
        self._woken, self._wake = os.pipe()

    def wait(self, seconds: float) -> None:
        """Wait for the end. A process that takes longer, or was left, is killed."""
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            for stream, kept in ((self.process.stdout, self.shown), (self.process.stderr, self.said)):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ, kept)
            while len(selector.get_map()) > 1 and self.instead is None:
                ready = selector.select(max(0.0, min(POLL_SECONDS, deadline - time.monotonic())))
                if not ready and (time.monotonic() >= deadline or self.process.poll() is not None):
                    break
                for key, _ in ready:
                    if key.fd != self._woken:
                        _read(selector, key)
        self._end(0.0 if self.instead is not None else max(1.0, deadline - time.monotonic()))

    def leave(self, instead: Answer) -> None:
        """Have ``wait`` return: this is the answer."""
        self.instead = instead
        os.write(self._wake, b".")

    def close(self) -> None:
        """Close the pipe that ``leave`` writes to."""
        os.close(self._woken)
        os.close(self._wake)

    def forget(self) -> None:
        """Close everything in a process whose child this is not."""
        self.process.returncode = 0  # nothing to wait for
        self._close_streams()
        self.close()

    def _end(self, seconds: float) -> None:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._close_streams()

    def _close_streams(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def _read(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    data = os.read(key.fd, 65536)
    if not data:
        selector.unregister(key.fileobj)
    elif len(key.data) < ANSWER_BYTES_MAX:
        key.data.extend(data)


def _not_started(error: OSError) -> Answer:
    return Answer(0, "curl_failed", f"{CODES['curl_failed']} ({error})")


def reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process in a thread: nobody else does, and it must not stay as a zombie."""
    try:
        threading.Thread(target=process.communicate, name="hookline-curl", daemon=True).start()
    except RuntimeError:  # the interpreter is ending, and the system takes over its children
        process.returncode = 0  # so that nobody warns of it


def _complaint(number: int, said: bytes) -> tuple[int, str]:
    found = _COMPLAINT.search(said)
    if found is not None:
        return int(found[1]), found[2].decode(errors="replace").strip()
    return (28, "ended because it took too long") if number < 0 else (number, "")


def _shown(shown: bytes, whole: bool) -> Answer:
    head, _, body = shown.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    while len(words) > 1 and words[1].startswith(b"1"):  # 100 Continue
        head, _, body = body.partition(b"\r\n\r\n")
        words = head.split(b" ", 2)
    return answer_of(int(words[1]) if len(words) > 1 and words[1].isdigit() else 0, head, body, whole)
