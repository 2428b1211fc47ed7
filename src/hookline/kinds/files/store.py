"""Where files are kept: the port that sinks write through, and a folder of this machine.

Every method may raise OSError or SinkFailed. A file appears whole or not at all, and is durable once the call returns.
Paths are relative, with ``/``.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol

from hookline.kinds.sink import SinkFailed
from hookline.telemetry.crashpoints import crash_point

FILE_BYTES_MAX = 256 * 1024 * 1024
"""Of what is read, also once it is decompressed. A file has the events of one write, which are 16 MB as webhooks get
them; an index of 500 manifests may have 60 MB, where each of their writes was of 30,000 people."""
LOCK = "_hookline/lock"
LOCK_SECONDS_MAX = 30.0
LOCK_POLL_SECONDS = 0.02


class Store(Protocol):
    """A place for files."""

    is_fenced: bool
    """Whether ``create`` never takes a name that is there: several processes may write then."""

    def get(self, path: str) -> bytes | None:
        """Return a file, None when there is none."""

    def put_all(self, files: Mapping[str, bytes]) -> None:
        """Write files; one that is there is replaced."""

    def create(self, path: str, data: bytes) -> bool:
        """Write a file; return False, and leave it, when there is one."""

    def change(self, path: str, change: Callable[[bytes], bytes | None]) -> None:
        """Replace a file by what ``change`` makes of it, unless that is None; nothing for one that is not there."""

    def delete_all(self, paths: Sequence[str]) -> None:
        """Take files away, those that are there."""

    def names(self, folder: str, after: str) -> list[str]:
        """Return the names in a folder that come after one, in their order."""

    def leave_nothing(self) -> None:
        """Take away what is there without anything having been put there by others: what opening it has made."""

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes of this machine from writing, where the place can do that."""

    def close(self) -> None:
        """Let go of what is held; may be called twice."""


def too_large(path: str) -> SinkFailed:
    """Return what is said of a file that others must have written, or that is damaged."""
    return SinkFailed(f"{path} is larger than anything that was written there; put it back from a copy")


class FolderStore:
    """A folder, and nothing outside it."""

    is_fenced = True

    def __init__(self, allowed: Path, sub_folder: str) -> None:
        self._allowed = allowed.resolve()
        self.root = (allowed / _checked(sub_folder)).resolve() if sub_folder else self._allowed
        if not self.root.is_relative_to(self._allowed):
            raise PermissionError(f"the folder {sub_folder} leads outside {allowed}; choose another prefix")
        self._made: set[Path] = set()

    def get(self, path: str) -> bytes | None:
        """Return a file, None when there is none."""
        try:
            return self._at(path).read_bytes()
        except FileNotFoundError:
            return None

    def put_all(self, files: Mapping[str, bytes]) -> None:
        """Write files under names of their own, then rename them; their folders are synchronised once."""
        folders: set[Path] = set()
        for path, data in files.items():
            target = self._at(path)
            os.replace(self._written(target, data), target)
            folders.add(target.parent)
            crash_point("files.one_written")
        for folder in folders:
            _sync(folder)

    def create(self, path: str, data: bytes) -> bool:
        """Write a file unless there is one."""
        target = self._at(path)
        temporary = self._written(target, data)
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        _sync(target.parent)
        return True

    def change(self, path: str, change: Callable[[bytes], bytes | None]) -> None:
        """Replace a file; the lock keeps others away meanwhile."""
        before = self.get(path)
        made = None if before is None else change(before)
        if made is not None:
            self.put_all({path: made})

    def delete_all(self, paths: Sequence[str]) -> None:
        """Take files away, and what a crash left of them under another name."""
        folders: set[Path] = set()
        for path in paths:
            target = self._at(path)
            target.unlink(missing_ok=True)
            _temporary(target).unlink(missing_ok=True)
            if target.parent.is_dir():
                folders.add(target.parent)
        for folder in folders:
            _sync(folder)

    def names(self, folder: str, after: str) -> list[str]:
        """Return the names in a folder that come after one."""
        try:
            found = os.listdir(self._at(folder))
        except FileNotFoundError:
            return []
        return sorted(name for name in found if name > after and not name.startswith("."))

    def leave_nothing(self) -> None:
        """Take away the folders that are empty, from the lowest up to the one that is allowed."""
        folders = [self._at(LOCK).parent, self.root, *self.root.parents]
        for folder in folders:
            if not folder.is_relative_to(self._allowed):
                return
            try:
                folder.rmdir()
            except OSError:  # something is in it, or it is not there
                return

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep out other processes, and a sink of this one that has not ended yet."""
        path = self._at(LOCK)
        self._make(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Do nothing: no file is open between calls."""

    def _at(self, path: str) -> Path:
        return self.root / _checked(path)

    def _written(self, target: Path, data: bytes) -> Path:
        self._make(target.parent)
        temporary = _temporary(target)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return temporary

    def _make(self, folder: Path) -> None:
        if folder in self._made and folder.is_dir():
            return
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for each in missing:
            _sync(each.parent)
        if len(self._made) > 1_024:
            self._made.clear()
        self._made.add(folder)


def _lock(descriptor: int) -> None:
    until = time.monotonic() + LOCK_SECONDS_MAX
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise SinkFailed("another process writes to the folder and does not end; stop it") from None
            time.sleep(LOCK_POLL_SECONDS)


def _checked(path: str) -> str:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or "\0" in path:
        raise PermissionError(f"{path} leads outside the folder; choose a prefix without ..")
    return path


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.tmp")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
