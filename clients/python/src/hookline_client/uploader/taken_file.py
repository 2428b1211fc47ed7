"""Takes a log file away from its writers without losing a line, and removes it when all of it is done.

Beside ``app.log`` stand ``app.log.uploading`` (what was taken), ``app.log.uploading.place`` (how far its upload is).
The order of the steps makes every one of them a place to be killed at:

1. No taken file is there: a place that is there belongs to one that is done. It is removed.
2. The log is renamed; from now on writers make a new one.
3. The lock of the taken file is waited for (``log_file``): then its last line is written. It is brought to the disk,
   so that a power cut cannot take back what was uploaded and leave a place beyond the end.
4. Batches go out, the place follows. A place that is there belongs to this taken file, because of 1.
5. The taken file is removed, then its place.
"""

from __future__ import annotations

import fcntl
import os
import time
from hashlib import sha256
from types import TracebackType

from hookline_client.trust import check_log
from hookline_client.uploader.place_file import Place, PlaceFile
from hookline_client.uploader.synced import rename_synced, unlink_synced

WRITERS_WAIT_SECONDS = 10.0
"""Writers hold the lock for one write. One that was stopped in it is waited for so long, then the next run tries."""
WRITERS_POLL_SECONDS = 0.002


class TakenFile:
    """The taken file of the log at ``log_path``, open for reading, with its place. Use ``take``."""

    def __init__(self, path: str, places: PlaceFile) -> None:
        self.path = path
        # Writable only because some file systems give an exclusive lock to none else.
        self.file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            check_log(os.fstat(self.file), path)
        except OSError:
            os.close(self.file)
            raise
        self._places = places
        self.place = Place("")

    def __enter__(self) -> TakenFile:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        os.close(self.file)

    @classmethod
    def take(cls, log_path: str) -> TakenFile | None:
        """Go on with what an earlier run left, else take the log away; None when there is nothing to upload.

        TimeoutError when a writer did not let go; OSError when the folder or the file does not allow it.
        """
        path = f"{log_path}.uploading"
        places = PlaceFile(f"{path}.place")
        if not os.path.lexists(path):
            places.remove()
            if _size_bytes(log_path) == 0:
                return None
            rename_synced(log_path, path)
        taken = cls(path, places)
        try:
            taken._settle()
        except BaseException:
            os.close(taken.file)
            raise
        return taken

    @property
    def size_bytes(self) -> int:
        """How long the file is."""
        return os.fstat(self.file).st_size

    def keep_place(self) -> None:
        """Write down how far the upload is; it is on disk afterwards."""
        self._places.write(self.place)

    def remove(self) -> bool:
        """Remove the file and its place. False, and nothing done, when it grew: its writer knows no lock (PHP's)."""
        self._wait_for_writers()
        try:
            if self.size_bytes > self.place.offset_bytes:
                return False
            unlink_synced(self.path)
        finally:
            fcntl.flock(self.file, fcntl.LOCK_UN)
        self._places.remove()
        return True

    def _settle(self) -> None:
        self._wait_for_writers()
        fcntl.flock(self.file, fcntl.LOCK_UN)
        os.fsync(self.file)
        place = self._places.read()
        if place is None or place.offset_bytes > self.size_bytes:  # beyond the end it is another file's
            place = Place(self._name())
        self.place = place

    def _name(self) -> str:
        """Names this upload, without a place too: nobody writes any more, so the time of the last write stays.

        messageIds of lines that have none are made of it, so that a repeat has the same.
        """
        status = os.fstat(self.file)
        return sha256(f"{status.st_dev} {status.st_ino} {status.st_mtime_ns}".encode()).hexdigest()[:32]

    def _wait_for_writers(self) -> None:
        deadline = time.monotonic() + WRITERS_WAIT_SECONDS
        while True:
            try:
                return fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"a process writes to {self.path} and does not end") from None
                time.sleep(WRITERS_POLL_SECONDS)


def _size_bytes(path: str) -> int:
    """The size of the log, 0 when there is none. NotTrusted before it is renamed, which would take it from others."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return 0
    check_log(status, path)
    return status.st_size
