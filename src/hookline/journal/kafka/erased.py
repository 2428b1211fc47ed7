"""Which records were erased. Kafka cannot overwrite a message, so the offsets are kept beside the journal and readers
blank what is there; the bytes go when retention takes them.

One file per partition in ``erased/``, each offset eight bytes, little-endian, in no order. Written by the processes of
the data folder that erase, one at a time; readers look whether the file is another one or was written to.
"""

from __future__ import annotations

import errno
import fcntl
import os
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = "erased"
_OFFSET_BYTES = 8
_NONE: frozenset[int] = frozenset()


class ErasedPlaces:
    """The erased offsets, for one reader."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self._known: dict[int, tuple[tuple[int, int, int], frozenset[int]]] = {}

    def of(self, partition: int) -> frozenset[int]:
        """Return the erased offsets of a partition as they are now."""
        path = self._folder / str(partition)
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return _NONE
        version = (found.st_ino, found.st_size, found.st_mtime_ns)
        known = self._known.get(partition)
        if known is None or known[0] != version:
            known = self._known[partition] = (version, frozenset(_load(path)))
        return known[1]


class ErasedLog:
    """Writes them down."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self._positions = ErasedPlaces(folder)

    def add(self, partition: int, offsets: Iterable[int]) -> None:
        """Keep these offsets too; durable on return."""
        wanted = set(offsets)
        if wanted <= self._positions.of(partition):
            return
        with self._alone():
            new = sorted(wanted - self._positions.of(partition))
            if new:
                self._write(self._folder / str(partition), "ab", new)

    def forget_below(self, partition: int, start: int) -> None:
        """Let go of offsets that the journal no longer keeps, once they are half of all."""
        if not self._positions.of(partition):
            return
        with self._alone():
            kept = [offset for offset in self._positions.of(partition) if offset >= start]
            if 2 * len(kept) < len(self._positions.of(partition)):
                path = self._folder / str(partition)
                self._write(path.with_suffix(".new"), "wb", sorted(kept))
                os.replace(path.with_suffix(".new"), path)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Collect and deliver of a data folder both write: not at the same time."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield
        finally:
            os.close(held)

    def _write(self, path: Path, mode: str, offsets: list[int]) -> None:
        data = b"".join(offset.to_bytes(_OFFSET_BYTES, "little") for offset in offsets)
        with open(path, mode, buffering=0) as file:
            size = file.tell() // _OFFSET_BYTES * _OFFSET_BYTES
            file.truncate(size)  # nobody has heard of one that was torn
            try:
                if file.write(data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)  # what is there would be taken for noted
                raise
        if not size:  # its name may be new, too
            for folder in (self._folder, self._folder.parent):
                fd = os.open(folder, os.O_RDONLY)
                os.fsync(fd)
                os.close(fd)


def _load(path: Path) -> array[int]:
    data = path.read_bytes()
    offsets = array("Q")
    offsets.frombytes(data[: len(data) // _OFFSET_BYTES * _OFFSET_BYTES])
    return offsets
