"""Know a data folder again: where it was when it last worked, so that a copy of it says so, and which parts it has
had, so that one that is gone is missed.

The file ``here`` names its own inode and the moment at which it was written; copying, unpacking or putting back makes
another file of it, or leaves another time. A folder that was moved looks the same as a copy: what tells them apart is
whether the original still works.

The file ``journal/ends`` does the same for a journal on its own: how far it went, noted anew while it grows. One that
was put back has either a note that is not where it was written, or one that says more than the journal has.

An empty database beside a journal is worse than none: all write keys would be unknown, everything would be sent again,
or people who asked not to be would be. The names stand in a small file; a folder of an older version gets it at its
first start, with what is there. ``hookline renew`` takes a name out of it, after saying what that costs.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import msgspec

from hookline.database.sqlite import DatabaseUnusable, connect, engine
from hookline.telemetry.log import logger
from hookline.whole_file import write_whole

HERE_NAME = "here"
ENDS = "journal/ends"
SLACK_NS = 2_000_000_000
"""Between the moment that the file names and the one that the file system noted."""

_NOTING = threading.Lock()


class Home(msgspec.Struct, frozen=True):
    """The content of the file; ``id`` is made up with each new place."""

    id: str
    host: str
    path: str
    inode: int
    at_ns: int

    def __str__(self) -> str:
        return f"{self.path} on {self.host}"


class _Ends(msgspec.Struct, frozen=True):
    inode: int
    at_ns: int
    ends: dict[int, int]


_Note = TypeVar("_Note", Home, _Ends)


def read_home(folder: Path) -> tuple[Home | None, bool]:
    """Return where the folder says that it was, and whether it still is there."""
    path = folder / HERE_NAME
    try:
        home, status = msgspec.json.decode(path.read_bytes(), type=Home), path.stat()
    except (OSError, msgspec.MsgspecError):
        return None, False
    return home, _is_where_written(status, home.inode, home.at_ns)


def read_ends(folder: Path) -> dict[int, int] | None:
    """Return how far a data folder's journal went, by partition; None where the note was put back, or is not there."""
    path = folder / ENDS
    try:
        note, status = msgspec.json.decode(path.read_bytes(), type=_Ends), path.stat()
    except (OSError, msgspec.MsgspecError):
        return None
    return note.ends if _is_where_written(status, note.inode, note.at_ns) else None


def note_ends(folder: Path, ends: dict[int, int]) -> None:
    """Note how far the journal is; for its one appender, from any thread. Raise OSError."""
    path = folder / ENDS
    with _NOTING:
        _write_note(path, path.with_name(f".{path.name}"), lambda inode, at_ns: _Ends(inode, at_ns, ends))


def _write_note(path: Path, scratch: Path, made: Callable[[int, int], _Note]) -> _Note:
    """Write a note that names its own file and time, by which a copy is seen to be one; return it."""
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        note = made(os.fstat(file.fileno()).st_ino, time.time_ns())
        file.write(msgspec.json.encode(note))
        file.flush()
        # Renaming sets the time, too, and a disk may take longer than the slack: it is synchronised behind that.
        scratch.replace(path)
        os.fsync(file.fileno())
    return note


def _is_where_written(status: os.stat_result, inode: int, at_ns: int) -> bool:
    return status.st_ino == inode and all(
        abs(each - at_ns) <= SLACK_NS for each in (status.st_mtime_ns, status.st_ctime_ns)
    )


def settle(folder: Path) -> Home:
    """Note that the folder is where it is now, and say so if it was somewhere else."""
    home, is_there = read_home(folder)
    if home is not None and is_there:
        return home
    if home is not None:
        next_step = "nothing to do where it was moved or put back; of a folder and its copy only one may work"
        logger().warning("data_folder_moved", was=str(home), next_step=next_step)
    return _write_note(
        folder / HERE_NAME,
        folder / f"{HERE_NAME}.{os.getpid()}",
        lambda inode, at_ns: Home(uuid4().hex, socket.gethostname(), str(folder.resolve()), inode, at_ns),
    )


def refuse_copy(folder: Path) -> None:
    """Raise DatabaseUnusable when the folder is a copy of one that works on this machine right now."""
    home, is_there = read_home(folder)
    if home is None or is_there or home.path == str(folder.resolve()):
        return
    original = Path(home.path)
    its, is_original = read_home(original)
    if is_original and its == home and _works(original):
        raise DatabaseUnusable(copied(folder, str(original)))


def copied(folder: Path, original: str) -> str:
    """Return the sentence about a copy, and what to do."""
    return (
        f"{folder} is a copy of {original}, which is in use: what waits there would be sent twice. Stop that one"
        " first, and this one goes on in its place; or begin with an empty folder"
    )


def _works(folder: Path) -> bool:
    return any(_lives(lock) for lock in (folder / "lock", *(folder / "run").glob("*.lock")))


def _lives(lock: Path) -> bool:
    """Return whether somebody holds it. The number in it may be another installation's process by now."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


PARTS_NAME = "parts"

COSTS = {
    "control.db": "all sources, destinations, audiences and write keys are gone but for those of the connections file,"
    " and so are accounts, tokens, replays, notices and the audit log; calls with a lost key are answered 401, and what"
    " waited for a destination that has to be made anew has to be replayed",
    "deliver.db": "every event that the journal keeps is sent again to every destination; retries that wait, dead"
    " letters and the status of past deliveries are gone",
    "privacy.db": "nobody is suppressed any more, so events of people who objected are stored and delivered again;"
    " deletion requests that are under way are forgotten",
    "privacy-key": "nobody who is on the suppression list is recognised any more: each has to be suppressed again",
    "profiles.db": "people, audiences and computed traits are made again from the events that the journal still keeps;"
    " what was known from older ones is gone, and all memberships are synced anew",
}
"""What it means to begin with an empty one. What is not named here is made anew by itself."""


class PartMissing(Exception):
    """Something is gone that the data folder had; the message says what to do."""


def missing(folder: Path) -> list[str]:
    """Return the parts that were there and are not, but for those that can be made anew without harm."""
    return [name for name in sorted(noted(folder)) if name in COSTS and not (folder / name).exists()]


def require(folder: Path) -> None:
    """Raise PartMissing when one is missing."""
    gone = missing(folder)
    if gone:
        raise PartMissing(sentence(folder, gone[0]))


def sentence(folder: Path, name: str) -> str:
    """Return what to do about one that is missing."""
    return (
        f"{folder / name} is missing, and was there: put it back from a snapshot. To go on without it:"
        f" hookline renew {name}, which says what that costs"
    )


def noted(folder: Path) -> frozenset[str]:
    """Return the parts that the folder has had."""
    try:
        return frozenset((folder / PARTS_NAME).read_text(errors="replace").split())
    except FileNotFoundError:
        # A folder of an older version: who is on the list was put there with the key.
        return frozenset(["privacy-key"] if _has_suppressions(folder / "privacy.db") else [])


def made(path: Path, content: str = "") -> None:
    """Note that a part is there, durably, and a word that tells what is in it, of one that never changes; hold its
    folder (``held``) meanwhile."""
    names = noted(path.parent)
    wanted = {path.name, f"{path.name}={content}"} if content else {path.name}
    if not wanted <= names:
        _write(path.parent, names | wanted)


def is_as_noted(path: Path, content: str) -> bool:
    """Return whether a part is what it was when it was made, as far as that was noted."""
    before = [each for each in noted(path.parent) if each.startswith(f"{path.name}=")]
    return not before or f"{path.name}={content}" in before


def check_new(path: Path) -> None:
    """Before a part is made: raise PartMissing when it was there once and cannot be done without."""
    if path.name in noted(path.parent):
        if path.name in COSTS:
            raise PartMissing(sentence(path.parent, path.name))
        logger().warning("part_made_anew", part=path.name, reason="it is missing; what it held is gone")


def forget(folder: Path, name: str) -> None:
    """Let a missing part be made anew at the next start."""
    with held(folder):
        _write(folder, frozenset(each for each in noted(folder) if each.partition("=")[0] != name))


@contextmanager
def held(folder: Path) -> Iterator[int]:
    """Keep others from making parts of the folder; give its descriptor."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _has_suppressions(path: Path) -> bool:
    try:
        with closing(connect(path, read_only=True)) as connection:
            return connection.execute("SELECT 1 FROM suppressions LIMIT 1").fetchone() is not None
    except engine.Error:  # none there, or none that can be read: whoever opens it says so
        return False


def _write(folder: Path, names: frozenset[str]) -> None:
    write_whole(folder / PARTS_NAME, "".join(f"{name}\n" for name in sorted(names)).encode())
