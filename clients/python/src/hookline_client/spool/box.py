"""The folder of one process in a spool: its events in the order of the calls, until they are acknowledged.

``lock`` is locked as long as the process lives; ``0000000001.log`` and so on hold a line per event; ``place`` says up
to where they are acknowledged. A box whose process is gone is adopted: another process takes the lock, sends what is
left and removes the folder. A box becomes visible by a rename, with its lock taken, so that nobody adopts an infant.

An event is in the page cache when ``append`` returns: the end of the process, however it comes, loses nothing. ``sync``
brings it to the disk. A place that is older than it was repeats events, which the service knows by their messageId.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections import deque
from collections.abc import Sequence

from hookline_client.spool.box_place import BoxPlace
from hookline_client.spool.segment import Segment
from hookline_client.spool.segment_reader import SegmentReader

FOLDER_MODE = 0o700
FILE_MODE = 0o600
READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC
SEGMENT_BYTES = 4 * 1024 * 1024
"""A segment is removed when all of it is acknowledged: so much may stay longer than needed."""


class Box:
    """A box that is ours, by ``create`` or ``adopt``. ``append`` from any thread, everything else from one."""

    def __init__(self, folder: str, lock_file: int) -> None:
        self.folder = folder
        self.waiting_bytes = 0
        """Of the events appended here that are not acknowledged."""
        self._lock_file = lock_file
        self._lock = threading.RLock()  # a signal handler may make a call while its thread is in one
        self._numbers = deque(sorted(int(name[:-4]) for name in os.listdir(folder) if name[:-4].isdigit()))
        self._writing: Segment | None = None
        self._reading: SegmentReader | None = None
        self._unsynced: set[int] = set()
        self._place = BoxPlace(os.path.join(folder, "place"))

    @classmethod
    def create(cls, directory: str) -> Box:
        """Make a box of this process in a directory. OSError when there is no room for one."""
        name = f"{time.time_ns():x}-{os.getpid()}-{os.urandom(4).hex()}"
        infant = os.path.join(directory, f".new-{name}")
        os.mkdir(infant, FOLDER_MODE)
        lock_file, box = -1, None
        try:
            lock_file = os.open(os.path.join(infant, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            box = cls(infant, lock_file)
            box._place.write(1, 0)
            box.folder = os.path.join(directory, name)
            os.rename(infant, box.folder)
        except BaseException:  # the next call tries again: nothing of this one may stay, neither folder nor file
            _remove(infant)
            if box is not None:
                box.forget()
            elif lock_file >= 0:
                os.close(lock_file)
            raise
        return box

    @classmethod
    def adopt(cls, folder: str) -> Box | None:
        """Take over a box whose process is gone; None while it lives, and when another process was quicker."""
        lock_path = os.path.join(folder, "lock")
        made = os.O_CREAT if _has_lost_its_lock(folder) else 0
        try:
            lock_file = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC | made, FILE_MODE)
        except FileNotFoundError:
            _remove_empty(folder)  # its removal was interrupted at the end
            return None
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock_file), os.stat(lock_path)):
                return cls(folder, lock_file)
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(lock_file)
            raise
        os.close(lock_file)
        return None

    def append(self, line: bytes) -> None:
        """Keep an event. OSError when it cannot be written; then nothing of it is kept."""
        with self._lock:
            segment = self._writing
            if segment is None or segment.end_bytes >= SEGMENT_BYTES:
                segment = self._begin_segment()
            segment.append(line)
            self._unsynced.add(self._numbers[-1])
            self.waiting_bytes += len(line) + 1

    def read(self, lines_max: int, bytes_max: int) -> list[bytes]:
        """Return the oldest events that are not acknowledged, within the limits; [] when there are none."""
        while self._numbers:
            is_last = len(self._numbers) == 1  # asked first: one that is followed by another gets no more lines
            reader = self._reader()
            lines = [] if reader is None else reader.read(self._place.offset_bytes, lines_max, bytes_max)
            if lines or is_last:
                return lines
            self._remove_first_segment()
        return []

    def acknowledge(self, lines: Sequence[bytes]) -> None:
        """The lines that were read last are done. OSError when only this process will know it."""
        done_bytes = sum(map(len, lines)) + len(lines)
        with self._lock:
            self.waiting_bytes = max(0, self.waiting_bytes - done_bytes)
        self._place.write(self._numbers[0], self._place.offset_bytes + done_bytes)

    def sync(self) -> None:
        """Bring everything appended so far to the disk; nothing to do when it is there. OSError when the disk fails."""
        with self._lock:
            unsynced, self._unsynced = self._unsynced, set()
        try:
            for number in sorted(unsynced):
                _sync(self._path(number))
            if unsynced:  # the names too: of the files, and of the folder
                _sync(self.folder)
                _sync(os.path.dirname(self.folder))
        except OSError:  # there may only be no descriptor to have: the next one brings them to the disk
            with self._lock:
                self._unsynced |= unsynced
            raise

    def close(self) -> None:
        """Let go of it: an empty box is removed, any other is brought to the disk and left to be adopted."""
        try:
            if self.read(1, 1):
                self.sync()
            else:
                _remove(self.folder)
        finally:  # also when the disk fails: as long as we hold its lock, nobody else sends what is in it
            self.forget()

    def forget(self) -> None:
        """Close all files. In a child after fork its parent keeps the box, and the lock."""
        writing, reading, self._writing, self._reading = self._writing, self._reading, None, None
        if writing is not None:
            writing.close()
        if reading is not None:
            reading.close()
        self._place.close()
        file, self._lock_file = self._lock_file, -1
        if file >= 0:
            os.close(file)

    def give_up(self) -> None:
        """What waits is not there to be read: somebody removed it. What is appended from now on counts again."""
        with self._lock:
            self.waiting_bytes = 0

    def _begin_segment(self) -> Segment:
        full, number, segment = self._writing, self._numbers[-1] + 1 if self._numbers else 1, None
        while segment is None:
            try:
                segment = Segment(self._path(number))
            except FileExistsError:  # of a call that was interrupted just here, and may have ended there
                number += 1
        if self._writing is not None and self._writing is not full:
            segment.close()  # a signal handler made a call in the middle of this one, and has a segment by now
            return self._writing
        if full is not None:
            full.close()
        self._writing = segment
        self._numbers.append(number)
        return segment

    def _reader(self) -> SegmentReader | None:
        """The first segment, None when somebody removed its file and it is not the one that is open for writing."""
        number = self._numbers[0]
        if self._reading is None:
            with self._lock:
                is_writing = self._writing is not None and number == self._numbers[-1]
                copy = self._writing.copy() if self._writing is not None and is_writing else -1
            try:
                self._reading = SegmentReader(copy if is_writing else os.open(self._path(number), READ_FLAGS))
            except FileNotFoundError:
                return None
        if self._place.number != number:  # the place was left in a segment that is gone, or was lost
            self._place.write(number, 0)
        return self._reading

    def _remove_first_segment(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()
        with self._lock:
            number = self._numbers.popleft()
            self._unsynced.discard(number)
        try:
            os.unlink(self._path(number))
        except FileNotFoundError:
            pass

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, f"{number:010d}.log")


def _sync(path: str) -> None:
    try:
        file = os.open(path, READ_FLAGS)
    except FileNotFoundError:  # acknowledged meanwhile, and removed
        return
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _has_lost_its_lock(folder: str) -> bool:
    """Return whether somebody removed the lock of a box with events, which our own removal takes last.

    Nobody would ever send them otherwise. If their process lives after all, they are sent twice, which the service
    knows by their messageIds.
    """
    try:
        names = os.listdir(folder)
    except OSError:  # whoever opens the lock says so
        return False
    return "lock" not in names and any(name.endswith(".log") for name in names)


def _remove(folder: str) -> None:
    """Remove a folder with all that is in it, the lock last: until then nobody else has it.

    The place goes after the events, so that none comes again if nobody gets as far as that.
    """
    try:
        for name in sorted(os.listdir(folder), key=lambda name: (name == "lock", name == "place")):
            os.unlink(os.path.join(folder, name))
    except FileNotFoundError:  # somebody else removes it as well
        pass
    _remove_empty(folder)


def _remove_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:  # another process was quicker, or it is not empty
        pass
