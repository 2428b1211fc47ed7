"""Where a data folder was when it last worked: a copy of it is somewhere else, and says so by itself.

The file ``here`` names its own inode and the moment at which it was written; copying, unpacking or putting back makes
another file of it, or leaves another time. A folder that was moved looks the same as a copy: what tells them apart is
whether the original still works.

The file ``journal/ends`` does the same for a journal on its own: how far it went, noted anew while it grows. One that
was put back has either a note that is not where it was written, or one that says more than the journal has.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from pathlib import Path
from uuid import uuid4

import msgspec

from hookline.database.sqlite import DatabaseUnusable
from hookline.telemetry.log import logger

NAME = "here"
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


def read_home(folder: Path) -> tuple[Home | None, bool]:
    """Return where the folder says that it was, and whether it still is there."""
    path = folder / NAME
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
    scratch = path.with_name(f".{path.name}")
    with _NOTING, os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(_Ends(os.fstat(file.fileno()).st_ino, time.time_ns(), ends)))
        file.flush()
        # Renaming sets the time, too, and a disk may take longer than the slack: it is synchronised behind that.
        scratch.replace(path)
        os.fsync(file.fileno())


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
    scratch = folder / f"{NAME}.{os.getpid()}"
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        inode = os.fstat(file.fileno()).st_ino
        home = Home(uuid4().hex, socket.gethostname(), str(folder.resolve()), inode, time.time_ns())
        file.write(msgspec.json.encode(home))
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(folder / NAME)
    return home


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
