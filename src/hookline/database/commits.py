"""Noticing that a database went back in time: a backup was put back, a replica that was behind took over, or the
server crashed and had not written yet what it had confirmed.

Every transaction of a role counts one number up in the database it writes to (``user_version`` of a file, a row of
``hookline.commits`` on PostgreSQL), and the last one that was confirmed stands in ``last-commits`` of the data folder,
through a mapping of memory: it costs no system call and outlives the process. A database that is behind it lacks what
was confirmed. A role finds that at its start, at the first connection after an outage, or in its next transaction, of
which nothing is written; it says so and ends, and its next process takes up from where the database is.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, get_args
from uuid import uuid4

import msgspec

from hookline.database.location import DatabaseLocation, Schema, Which
from hookline.database.sqlite import DatabaseAway, FileConnection, FileCursor
from hookline.telemetry.log import logger
from hookline.telemetry.notices import KINDS
from hookline.whole_file import is_readable

FILE = "last-commits"
NUMBER_MAX = 2**31 - 1
"""Of a file's ``user_version``; at ten commits a second it begins again after seven years."""

REPORTED_SECONDS = 86_400.0
"""How long people are told of it."""
ALONE = bytes(16)
"""The writer of a file."""

AFFECTED: Mapping[Which, str] = {
    "control": "changes of connections, accounts, tokens, replays and notices that were confirmed since then are gone,"
    " and what waited for a destination that had to be made anew has to be replayed",
    "deliver": "events whose delivery stood there alone are sent again",
    "insights": "time series and schemas have a gap",
    "privacy": "deletion requests and suppressions that were confirmed since then are gone",
    "profiles": "people and audiences are read again from the journal; people erased since then may be back",
}
"""By database: what it means."""


MAY_LOSE_A_MOMENT = frozenset({"deliver", "insights", "profiles"})
"""Files of which a power cut takes the last commits as a whole; what they tell of is then made again."""
MOMENT_COMMITS_MAX = 50
"""About what ``deliver`` commits in five seconds."""


class DatabaseWentBack(DatabaseAway):
    """Commits of this process are not in the database any more. Nothing of the transaction was written,
    and nothing will be: the process is told to end, and the next one takes up from where the database is.
    """


class Highest(NamedTuple):
    """The highest numbers that control gave away, which may not be given away for something else."""

    version: int = 0
    lane: int = 0
    action: int = 0


class Commits:
    """The commits of this data folder to one database; safe to share between threads."""

    def __init__(self, folder: Path, which: Which, *, is_shared: bool, booted_ms: int | None = None) -> None:
        """``is_shared``: other data folders may write to the database, as they may on PostgreSQL; ``booted_ms`` is when
        the machine was started."""
        self._booted_ms = _booted_ms() if booted_ms is None else booted_ms
        self._which = which
        self._run = folder / "run"
        self._slot = _Slot(folder / FILE, which)
        kept = self._slot.read()
        self.highest = kept.highest
        if is_shared != (kept.writer not in (b"", ALONE)):  # at the beginning, and once it has moved
            kept = _Record(uuid4().bytes if is_shared else ALONE)
        self.writer = kept.writer or ALONE
        """Tells the commits of this data folder from those of others that share the database."""
        self.known, self._at_ms = kept.number, kept.at_ms
        """The number of the last commit that was confirmed."""
        self._lock = threading.Lock()
        self.on_done: Callable[[], None] = lambda: None
        """Called after each commit, on whichever thread made it."""
        self.is_behind = False
        """Whether the database was found behind since ``begin``."""
        self._found = 0

    def begin(self, found: int, found_ms: int = 0) -> None:
        """Take up from the number that is in the database, and say so when that is behind; of PostgreSQL it is known
        when it was committed."""
        if found < self.known:
            if self._is_of_power_cut(self.known - found):
                logger().info("database_lost_a_moment", database=self._which, commits=self.known - found)
            else:
                self._report(found, found_ms)
        self.known = found
        self._save()

    def check(self, number: int, found_ms: int = 0) -> None:
        """Raise DatabaseWentBack when the last known commit is not there, of which the one before ``number`` is asked
        for; this process is then told to end."""
        if number > self.known:
            return
        with self._lock:
            is_first, self.is_behind = not self.is_behind, True
        if is_first:
            self._found = number - 1
            self._report(number - 1, found_ms)
            self._slot.write(self._kept(number - 1))
            os.kill(os.getpid(), signal.SIGTERM)
        raise DatabaseWentBack(
            f"the {self._which} database is behind what was committed to it; this process ends, and the next one takes"
            " up from there"
        )

    def go_on_behind(self) -> None:
        """Let this process, before it ends, write what is true whatever the database lacks."""
        self.known = self._found

    def done(self, number: int) -> None:
        """The transaction with this number was committed."""
        self.known, self._at_ms = number, time.time_ns() // 1_000_000
        self._save()
        self.on_done()

    def give_away(self, **numbers: int) -> None:
        """Remember numbers that control is about to give away."""
        for name, number in numbers.items():
            if number > getattr(self.highest, name):
                self.highest = self.highest._replace(**{name: number})
                self._save()

    def _save(self) -> None:
        if not self.is_behind:
            self._slot.write(self._kept(self.known))

    def _kept(self, number: int) -> _Record:
        return _Record(self.writer, number, self._at_ms, self.highest)

    def _is_of_power_cut(self, lost: int) -> bool:
        """Return whether a machine that has started again since may have lost these by the design of the file, which is
        brought to the disk more seldom than it is committed to."""
        may = self.writer == ALONE and self._which in MAY_LOSE_A_MOMENT and lost <= MOMENT_COMMITS_MAX
        return may and self._at_ms < self._booted_ms

    def _report(self, found: int, found_ms: int) -> None:
        lost = self.known - found
        since = f"between {_clock(found_ms)} and {_clock(self._at_ms)}" if found_ms else f"before {_clock(self._at_ms)}"
        detail = f"{lost} commits of this machine, made {since}, are not in it; {AFFECTED[self._which]}"
        next_step = KINDS["database_went_back"].next_step
        logger().error("database_went_back", database=self._which, detail=detail, next_step=next_step)
        note = WentBack(self._which, detail, lost)
        with suppress(OSError):  # it is in the log
            self._run.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = self._run / f"{_note_name(self._which)}.{os.getpid()}"
            temporary.write_bytes(msgspec.json.encode(note))
            temporary.replace(self._run / _note_name(self._which))


class WentBack(msgspec.Struct, frozen=True):
    """Hold what a role found, for control to tell people."""

    which: Which
    detail: str
    commits: int


def found_behind(folder: Path, now_seconds: float) -> list[WentBack]:
    """Return the databases that roles of this data folder found behind within the last day."""
    found = []
    for which in get_args(Which):
        note = folder / "run" / _note_name(which)
        try:
            if abs(now_seconds - note.stat().st_mtime) < REPORTED_SECONDS:
                found.append(msgspec.json.decode(note.read_bytes(), type=WentBack))
        except (FileNotFoundError, msgspec.MsgspecError):
            continue
    return found


def begin_counting(location: DatabaseLocation, commits: Commits) -> None:
    """From now on every connection of this process to the database counts what it commits."""
    _commits[location] = commits


def commits_of(location: DatabaseLocation) -> Commits | None:
    """Return what counts this process's commits to a database; None where nobody asked for that."""
    return _commits.get(location)


def any_went_back() -> bool:
    """Return whether this process ends because a database of its own went back."""
    return any(each.is_behind for each in _commits.values())


def schemas_counted(url: str) -> list[tuple[Schema, Commits]]:
    """Return the schemas of a PostgreSQL database in which they are counted."""
    return [(place, each) for place, each in _commits.items() if isinstance(place, Schema) and place.url == url]


class _CountedCursor(FileCursor):
    connection: CountedConnection

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        connection = self.connection
        if sql == "BEGIN IMMEDIATE":
            connection.begun = connection.total_changes
        elif sql == "COMMIT" and connection.total_changes != connection.begun:
            ((number,),) = super().execute("PRAGMA user_version").fetchall()
            number = number % NUMBER_MAX + 1
            super().execute(f"PRAGMA user_version = {number}")
            done = super().execute(sql)
            connection.begun = connection.total_changes
            connection.commits.done(number)
            return done
        return super().execute(sql, parameters)


class CountedConnection(FileConnection):
    """A connection to a file that counts the transactions in which it changed something."""

    cursors = _CountedCursor
    commits: Commits
    begun = 0
    """Rows changed by the connection before the open transaction."""


class _Record(NamedTuple):
    writer: bytes = b""
    number: int = 0
    at_ms: int = 0
    highest: Highest = Highest()


class _Slot:
    """A database's part of the file. One that cannot be read knows nothing, and is written anew."""

    _FIELDS = struct.Struct("<16sQQQQQ")
    _SUM = struct.Struct("<I")
    _BYTES = 64

    def __init__(self, path: Path, which: Which) -> None:
        names = get_args(Which)
        self._at = names.index(which) * self._BYTES
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = len(names) * self._BYTES
            if not is_readable(descriptor):
                os.pwrite(descriptor, bytes(mmap.PAGESIZE), 0)  # as a whole: a part of a bad place cannot be written
            if os.fstat(descriptor).st_size < size:
                os.pwrite(descriptor, b"\0", size - 1)  # what others wrote meanwhile stays
            if hasattr(os, "posix_fallocate"):  # a hole would have to be filled when the disk is full
                os.posix_fallocate(descriptor, 0, size)
            self._map = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)

    def read(self) -> _Record:
        text = self._map[self._at : self._at + self._BYTES]
        fields = text[: self._FIELDS.size]
        if self._SUM.unpack_from(text, self._FIELDS.size) != (zlib.crc32(fields),):
            return _Record()
        writer, number, at_ms, *highest = self._FIELDS.unpack(fields)
        return _Record(writer, number, at_ms, Highest(*highest))

    def write(self, kept: _Record) -> None:
        fields = self._FIELDS.pack(kept.writer, kept.number, kept.at_ms, *kept.highest)
        text = fields + self._SUM.pack(zlib.crc32(fields))
        self._map[self._at : self._at + len(text)] = text


_commits: dict[DatabaseLocation, Commits] = {}


def _note_name(which: Which) -> str:
    return f"went-back-{which}.json"


def _booted_ms() -> int:
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return int((time.time() - time.clock_gettime(clock)) * 1000)


def _clock(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
