"""Where a service's processes write their lines: never waiting for whoever reads them. Standard library only.

A line is written at once where that cannot wait, as nearly always. Else a thread writes it, which is there only as long
as something waits; what is more than it may hold, or cannot be written, is dropped and counted. All processes of a
service share the log's open file, so it cannot be made non-blocking: it may be a terminal, or another program's too.
"""

from __future__ import annotations

import atexit
import fcntl
import io
import os
import select
import stat
import sys
import termios
import time
from _thread import RLock, start_new_thread  # the module above them would be the largest of a supervisor's
from collections import deque
from collections.abc import Callable

WAITING_BYTES_MAX = 256 * 1024
LINE_BYTES_MAX = 64 * 1024
"""What has no end by then is written as if it had."""
ATOMIC_BYTES = 4096
"""What a pipe takes whole or not at all (PIPE_BUF)."""
PIPE_BYTES_MIN = 65_536
"""A smaller pipe, as the kernel gives when a user has many, has no room for five processes at once."""
FREE_PART = 4
"""A line is written at once while a pipe holds no more than one part of so many: of 16 pages at most 9 are in use then,
and each of the processes that look at the same moment finds one of its own."""
END_SECONDS = 0.5
"""What still waits when a process ends is tried for so long."""
_GET_PIPE_BYTES = getattr(fcntl, "F_GETPIPE_SZ", None)


class LogStream(io.TextIOBase):
    """A text stream over a descriptor, for ``sys.stdout`` and ``sys.stderr``. Any thread may write."""

    def __init__(self, descriptor: int) -> None:
        self.dropped_line: Callable[[int], str] = _dropped_line
        """Makes the line that tells how many were dropped."""
        self._descriptor = descriptor
        mode = os.fstat(descriptor).st_mode
        self._is_file, self._is_pipe = stat.S_ISREG(mode), stat.S_ISFIFO(mode)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._lock = RLock()
        self._begun = ""
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._dropped = 0
        self._has_thread = False

    def write(self, text: str) -> int:
        """Write what has become whole lines; never waits, never fails."""
        with self._lock:
            self._begun += text
            if "\n" in text or len(self._begun) > LINE_BYTES_MAX:
                whole, end, rest = self._begun.rpartition("\n")
                self._begun = rest if end else ""
                self._take((whole + end or rest).encode(errors="backslashreplace"))
        return len(text)

    def drain(self, seconds: float = END_SECONDS) -> None:
        """Give what waits so much time; for a process that is about to end."""
        with self._lock:
            rest, self._begun = self._begun, ""
            if rest:
                self._take(rest.encode(errors="backslashreplace"))
        deadline = time.monotonic() + seconds
        while self._has_thread and time.monotonic() < deadline:
            time.sleep(0.005)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        """It is for writing alone."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return what lines are written in."""
        return "utf-8"

    def _take(self, data: bytes) -> None:
        if not self._has_thread and self._has_room(len(data)):
            notice = self.dropped_line(self._dropped).encode() if self._dropped else b""
            if _written(self._descriptor, notice + data):
                self._dropped = 0
            else:
                self._dropped += _lines(data)
        elif self._waiting_bytes + len(data) > WAITING_BYTES_MAX:
            self._dropped += _lines(data)
        else:
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            if not self._has_thread:
                self._start()

    def _has_room(self, size: int) -> bool:
        """Return whether so many bytes can be written, or refused, without waiting."""
        if self._is_file:
            return True
        found = self._poll.poll(0)
        if found and not found[0][1] & select.POLLOUT:
            return True  # the reader is gone: that is said at once
        return bool(found) and size <= ATOMIC_BYTES and (not self._is_pipe or _is_nearly_empty(self._descriptor))

    def _start(self) -> None:
        try:
            start_new_thread(self._write_waiting, ())
            self._has_thread = True
        except RuntimeError:  # the system refuses threads
            self._dropped += sum(map(_lines, self._waiting))
            self._waiting.clear()
            self._waiting_bytes = 0

    def _write_waiting(self) -> None:
        is_well = True
        while True:
            with self._lock:
                if self._waiting:
                    data = self._waiting.popleft()
                    lines = _lines(data)
                    self._waiting_bytes -= len(data)
                elif self._dropped and is_well:
                    data, lines = self.dropped_line(self._dropped).encode(), self._dropped
                    self._dropped = 0
                else:
                    self._has_thread = False
                    return
            is_well = _written(self._descriptor, data)
            if not is_well:
                with self._lock:
                    self._dropped += lines


def install() -> tuple[LogStream, LogStream]:
    """Make standard output and standard error such streams, opening those that were closed; return both."""
    open_closed()
    streams = LogStream(1), LogStream(2)
    sys.stdout, sys.stderr = streams
    atexit.register(drain)
    return streams


def open_closed() -> None:
    """Open those of the three standard streams that were closed (``>&-``), to nobody."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # Else the next file that is opened would have this number, and what is written would go there.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def drain() -> None:
    """Give what waits for standard output and error a moment, before this process ends."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, LogStream):
            stream.drain()
        elif stream is not None:
            stream.flush()


def _is_nearly_empty(pipe: int) -> bool:
    if _GET_PIPE_BYTES is None:
        return True
    size = fcntl.fcntl(pipe, _GET_PIPE_BYTES)
    held = int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
    return size >= PIPE_BYTES_MIN and held * FREE_PART <= size


def _written(descriptor: int, data: bytes) -> bool:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        return False
    return True


def _lines(data: bytes) -> int:
    return max(1, data.count(b"\n"))


def _dropped_line(count: int) -> str:
    return f"hookline: log_lines_dropped: {count} lines could not be written meanwhile\n"
