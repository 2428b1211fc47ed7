"""Copies what else is in a data folder: the index, keys, the ring of progress."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from hookline.index.run import SUFFIX as RUN_SUFFIX
from hookline.transfer.state import Progress, Tell

_ELSEWHERE = {"journal", "run", "lock", "moved", "database"}
"""Names that a move brings over in another way, or not at all."""
_DATABASE_PARTS = (".db", ".db-wal", ".db-shm", ".db-journal", ".new", ".tmp")


class FilesCopy:
    """The copy of the data folder ``old`` in ``new``."""

    def __init__(self, old: Path, new: Path, tell: Tell) -> None:
        self._old = old
        self._new = new
        self._tell = tell

    def fill(self) -> None:
        """Copy the index's runs that are not there yet: they never change."""
        self._copy([path for path in self._files() if path.suffix == RUN_SUFFIX])

    def finish(self) -> None:
        """With the folder at rest: copy everything, and remove runs that are gone."""
        files = list(self._files())
        self._copy(files)
        for path in (self._new / "index").rglob("*"):
            if path.is_file() and not (self._old / path.relative_to(self._new)).exists():
                path.unlink()

    def _files(self) -> Iterator[Path]:
        for path in sorted(self._old.rglob("*")):
            inside = path.relative_to(self._old)
            if path.is_file() and inside.parts[0] not in _ELSEWHERE and not path.name.endswith(_DATABASE_PARTS):
                yield path

    def _copy(self, files: list[Path]) -> None:
        progress = Progress(self._tell, "index and keys, bytes", sum(map(_size, files)))
        for path in files:
            size = _size(path)
            target = self._new / path.relative_to(self._old)
            if path.suffix != RUN_SUFFIX or not target.exists() or target.stat().st_size != size:
                _copy_durably(path, target)
            progress.add(size)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a run that retention took meanwhile
        return 0


def _copy_durably(path: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.moving")
    try:
        shutil.copy2(path, temporary)
    except FileNotFoundError:  # as above
        temporary.unlink(missing_ok=True)
        return
    fd = os.open(temporary, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.replace(target)
