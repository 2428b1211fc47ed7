"""A directory in which the processes of an application keep their events until the service has acknowledged them.

``DIRECTORY/KEY/BOX/``: KEY is made of the write key, so that no event is ever sent with another source's key; each
process has a box of its own. A box whose process is gone is adopted by any other that spools with the same write key.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time

from hookline_client.spool.box import FOLDER_MODE, Box
from hookline_client.trust import check_own_folder

INFANT_SECONDS_MAX = 3600.0
"""A box takes milliseconds to make; one that is older than this without being visible never will be."""


class Spool:
    """The spool of one write key, and this process's box in it. ``append`` from any thread, the rest from one.

    Its folder must be this user's, with nobody else who may write there: so is everything in it, then.
    """

    def __init__(self, directory: str, write_key: str, bytes_max: int) -> None:
        self._folder = os.path.join(directory, hashlib.sha256(write_key.encode()).hexdigest()[:16])
        self._bytes_max = bytes_max
        self.box: Box | None = None
        self._removed: list[Box] = []
        """Those that were ours until somebody removed their folder; ``append`` may not close what the other reads."""
        self._put_off: dict[str, int] = {}
        """How often which boxes were let go, by folder: one that cannot be read must not keep those behind it."""

    def append(self, line: bytes) -> None:
        """Keep an event. OSError when it cannot be written, or ``bytes_max`` wait already."""
        if self.box is None:
            self.box = self._create()
        if self.box.waiting_bytes + len(line) >= self._bytes_max:
            raise OSError(errno.ENOBUFS, f"{self._bytes_max:,} bytes wait in it already", self._folder)
        try:
            self.box.append(line)
        except FileNotFoundError:  # somebody removed its folder, and it needs another file
            if self.box.waiting_bytes:
                raise  # what is still open of it is sent first
            self._removed.append(self.box)
            self.box = None
            self.box = self._create()
            self.box.append(line)

    def adopt(self) -> Box | None:
        """Take over the oldest box whose process is gone, last those that were put off most; None when there is none.

        OSError when a box cannot be taken over, and there is no other.
        """
        self.forget_removed()
        failure: OSError | None = None
        try:
            check_own_folder(self._folder)
            folders = [os.path.join(self._folder, name) for name in os.listdir(self._folder)]
        except FileNotFoundError:
            return None
        for folder in sorted(folders, key=lambda folder: (self._put_off.get(folder, 0), folder)):
            if os.path.basename(folder).startswith("."):
                _remove_infant(folder)
            elif self.box is None or folder != self.box.folder:
                try:
                    adopted = Box.adopt(folder)
                except OSError as error:
                    failure = error
                    continue
                if adopted is not None:
                    return adopted
        if failure is not None:
            raise failure
        return None

    def put_off(self, adopted: Box) -> bool:
        """Let go of a box that cannot be read; return True if that is for the first time."""
        times = self._put_off[adopted.folder] = self._put_off.get(adopted.folder, 0) + 1
        adopted.forget()
        return times == 1

    def forget(self) -> None:
        """In a child after fork: the box is its parent's."""
        self.forget_removed()
        box, self.box = self.box, None
        if box is not None:
            box.forget()

    def forget_removed(self) -> None:
        """Close what is still open of boxes whose folder somebody removed."""
        while self._removed:
            self._removed.pop().forget()

    def _create(self) -> Box:
        for folder in (os.path.dirname(self._folder), self._folder):  # the mode is only for the last one that is made
            os.makedirs(folder, FOLDER_MODE, exist_ok=True)
        check_own_folder(self._folder)
        created = Box.create(self._folder)
        if self.box is None:
            return created
        created.close()  # a signal handler made a call in the middle of this one, and has a box by now
        return self.box


def _remove_infant(folder: str) -> None:
    try:
        if time.time() - os.stat(folder).st_mtime > INFANT_SECONDS_MAX:
            for name in os.listdir(folder):
                os.unlink(os.path.join(folder, name))
            os.rmdir(folder)
    except OSError:  # another process was quicker
        pass
