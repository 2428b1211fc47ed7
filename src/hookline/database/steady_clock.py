"""The service's own time: what ages, windows and due times are reckoned in, whatever becomes of the wall clock.

It began as the wall clock's, and goes on with the time that the machine has been running. A file in the data folder
carries it from process to process; only after the machine itself was started anew does the wall clock say how much time
has passed, never less than none. Where many machines share a journal, the database's clock is what all of them begin
with. What people see (when an event was received, when an attempt was made) stays the wall clock's.

A ``Clock`` has all three, and is a seam for simulation: the wall clock, the service's own time, and monotonic time for
waiting.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from uuid import UUID
from zlib import crc32

from hookline.database.connect import connect
from hookline.database.location import location_of
from hookline.database.sqlite import DatabaseAway
from hookline.settings import Settings
from hookline.telemetry.log import logger

FILE = "steady-clock"
KEEP_SECONDS = 10.0
"""How often the file is written: after a crash of the machine so much may count twice, as time that has passed."""
SLACK_MS = 60_000
"""A wall clock that is off by less is taken for the same: clocks are slewed all the time."""

_RECORD = struct.Struct("<8sqqq16s")
"""Magic, this clock's time, the wall clock's, the machine's running time (all ms), and which start of the machine."""
_CHECK = struct.Struct("<I")
_MAGIC = b"HOOKTIME"
_NO_BOOT = bytes(16)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Unlike the monotonic clock this one goes on while the machine sleeps.
_RUNNING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SteadyClock:
    """Milliseconds since the epoch that never jump; ``path`` is where they are kept, None for nowhere."""

    def __init__(self, now_ms: int, path: Path | None = None) -> None:
        self._behind_ms = now_ms - _running_ms()
        self._path = path

    def now_ms(self) -> int:
        """Return the service's time."""
        return self._behind_ms + _running_ms()

    @property
    def ahead_ms(self) -> int:
        """By how much the wall clock is ahead of the service's time; 0 for about none, below it where it is behind."""
        ahead = _wall_ms() - self.now_ms()
        return 0 if -SLACK_MS < ahead < SLACK_MS else ahead

    def wall_ms(self, steady_ms: int) -> int:
        """Return a time of this clock as people see it: by the wall clock as it goes now."""
        return steady_ms + self.ahead_ms

    def keep(self) -> None:
        """Write down how far time has come; a disk that refuses only makes the next start know less."""
        if self._path is not None:
            with suppress(OSError):
                fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    _write(fd, self.now_ms())
                finally:
                    os.close(fd)


def steady_clock_of(settings: Settings) -> SteadyClock:
    """Return the clock of this process: that of the data folder, or of the database where many machines share a
    journal. While the database is away it goes on from what this machine has kept of it."""
    path = settings.data_path / FILE
    if settings.is_shared:
        with suppress(DatabaseAway):
            return SteadyClock(_by_database(settings), path)
    return kept_in(path)


def kept_in(path: Path) -> SteadyClock:
    """Return the clock that goes on from what a file says; without the file it begins with the wall clock's time."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)  # roles start together, and must not each find a time of their own
            now_ms = _going_on(os.pread(fd, _RECORD.size + _CHECK.size, 0))
            _write(fd, now_ms)
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        logger().warning("clock_not_kept", path=str(path), error=str(error), next_step="free disk space")
        return SteadyClock(_wall_ms())
    return SteadyClock(now_ms, path)


def _going_on(data: bytes) -> int:
    record, check = data[: _RECORD.size], data[_RECORD.size :]
    if len(check) < _CHECK.size or _CHECK.unpack(check)[0] != crc32(record) or not record.startswith(_MAGIC):
        return _wall_ms()
    _, steady_ms, wall_ms, running_ms, boot = _RECORD.unpack(record)
    by_running = _running_ms() - running_ms
    if boot == _boot() != _NO_BOOT and by_running >= 0:
        return int(steady_ms + by_running)
    return int(steady_ms + max(0, _wall_ms() - wall_ms))


def _write(fd: int, now_ms: int) -> None:
    # In place and within one sector: whoever reads finds one whole record, also after a power cut.
    record = _RECORD.pack(_MAGIC, now_ms, _wall_ms(), _running_ms(), _boot())
    os.pwrite(fd, record + _CHECK.pack(crc32(record)), 0)


def _by_database(settings: Settings) -> int:
    connection = connect(location_of(settings, "deliver"), read_only=True)
    try:
        query = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
        return int(connection.execute(query).fetchone()[0])
    finally:
        connection.close()


def _boot() -> bytes:
    """Return which start of the machine this is; nothing where the system does not say."""
    try:
        return UUID(_BOOT_ID.read_text().strip()).bytes
    except (OSError, ValueError):
        return _NO_BOOT


def _running_ms() -> int:
    return time.clock_gettime_ns(_RUNNING) // 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Clock(Protocol):
    """Say where the time comes from."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch."""

    def steady_ms(self) -> int:
        """Return the service's own time, milliseconds since the epoch: it never jumps, and goes on after a restart."""

    def monotonic(self) -> float:
        """Seconds that never jump, of this process."""


class SystemClock:
    """The machine's clocks, and the data folder's."""

    def __init__(self, steady: SteadyClock) -> None:
        self.steady = steady
        self.steady_ms = steady.now_ms

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch."""
        return int(time.time() * 1000)

    def monotonic(self) -> float:
        """Seconds that never jump, of this process."""
        return time.monotonic()
