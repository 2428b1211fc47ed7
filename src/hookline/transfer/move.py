"""Move a data folder to Kafka and PostgreSQL, step by step: databases, journal, and the index, keys and rings beside
them.

``prepare`` copies beside the service that works on the old folder, again and again until little is left. ``finish``
copies the rest with that folder at rest, and ends with one mark on it: before that the old folder is the installation
and nothing of it has changed, after it the new one is. Either may be interrupted anywhere and called again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from hookline.extras import install_extra
from hookline.index.run import SUFFIX as RUN_SUFFIX
from hookline.journal.folder import Moved, read_moved, remove_moved, write_moved
from hookline.journal.opening import FOLDER, claim, journal_in, open_reader
from hookline.settings import Settings
from hookline.telemetry.crashpoints import crash_point
from hookline.transfer.state import NAME as STATE
from hookline.transfer.state import MoveFailed, Progress, State, Tell, load
from hookline.whole_file import write_whole

_ELSEWHERE = {"journal", "run", "lock", "moved", "database"}
"""Names that a move brings over in another way, or not at all."""
_DATABASE_PARTS = (".db", ".db-wal", ".db-shm", ".db-journal", ".new", ".tmp")
_INDEX, _EVENT_FILES = "index", "files"
"""Folders whose files change only by an erasure: runs of the index, and what destinations of the kind files wrote."""


class FilesCopy:
    """The copy of the data folder ``old`` in ``new``."""

    def __init__(self, old: Path, new: Path, tell: Tell) -> None:
        self._old = old
        self._new = new
        self._tell = tell

    def fill(self) -> None:
        """Copy what is not there yet of what changes only by an erasure."""
        self._copy([path for path in self._files() if self._stays(path)])

    def finish(self) -> None:
        """With the folder at rest: copy everything else, and remove what is gone."""
        files = list(self._files())
        self._copy(files)
        for path in (path for name in (_INDEX, _EVENT_FILES) for path in (self._new / name).rglob("*")):
            if path.is_file() and not (self._old / path.relative_to(self._new)).exists():
                path.unlink()
        # The mark that follows may be on another disk: what it makes count has to be there after a power cut, by name.
        for folder in (self._new, *(path for path in self._new.rglob("*") if path.is_dir())):
            _sync(folder)

    def _files(self) -> Iterator[Path]:
        for part in sorted(self._old.iterdir()):
            if part.name in _ELSEWHERE:
                continue
            # From each part on its own: one that is a link, as the index to another disk, is not followed from above.
            for path in sorted(part.rglob("*")) if part.is_dir() else (part,):
                if path.is_file() and not path.name.endswith(_DATABASE_PARTS):
                    yield path

    def _stays(self, path: Path) -> bool:
        return path.suffix == RUN_SUFFIX or path.relative_to(self._old).parts[0] == _EVENT_FILES

    def _copy(self, files: list[Path]) -> None:
        progress = Progress(self._tell, "files, index and keys, bytes", sum(map(_size, files)))
        for path in files:
            size = _size(path)
            target = self._new / path.relative_to(self._old)
            if not self._stays(path) or _written(target) != _written(path):
                _copy_durably(path, target)
            progress.add(size)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a run that retention took meanwhile
        return 0


def _written(path: Path) -> tuple[int, int] | None:
    """Return what a copy has in common with its original, until an erasure changes that."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns


def _copy_durably(path: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.moving")
    try:
        before = path.stat()
        shutil.copy2(path, temporary)
        # An erasure in the middle of the copy is then seen.
        os.utime(temporary, ns=(before.st_atime_ns, before.st_mtime_ns))
    except FileNotFoundError:  # as above
        temporary.unlink(missing_ok=True)
        return
    _sync(temporary)
    temporary.replace(target)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


BEHIND_EVENTS = 2_000
"""So few events are copied while the service is stopped that nobody waits for them."""
PARTITIONS_ADVISED = 12
"""So many processes can share them, and two, three, four or six have equal shares."""
ROUNDS_MAX = 20
"""Of copying beside the service: one that takes events more quickly than they can be copied is stopped all the same."""


def check(old: Settings, new: Settings) -> None:
    """Raise MoveFailed when these settings cannot be moved to."""
    if not (old.data_path / "control.db").exists():
        raise MoveFailed(f"there is no installation in {old.data_path}: name its folder with --data-dir")
    if not (old.journal.is_local and old.database.is_local):
        raise MoveFailed(f"{old.data_path} does not contain its journal and databases: there is nothing to move")
    if not new.journal.url.startswith("kafka://"):
        raise MoveFailed("in the new settings file, set journal.url: kafka://host:port,host:port/topic")
    if not new.database.url.startswith("postgresql://"):
        raise MoveFailed("in the new settings file, set database.url: postgresql://user@host:5432/database")
    if new.data_path.resolve() == old.data_path.resolve():
        raise MoveFailed("in the new settings file, set data_dir to another folder: the old one is kept as it is")
    if old.data_path.resolve() in new.data_path.resolve().parents:
        raise MoveFailed(f"{new.data_path} is inside {old.data_path}: set data_dir to a folder beside that")
    for module, extra in (("confluent_kafka", "kafka"), ("psycopg", "postgres")):
        if find_spec(module) is None:
            raise MoveFailed(f"moving needs the extra named {extra}: {install_extra('kafka,postgres')}")
    partitions = _partitions(old.data_path)
    if new.journal.partitions < partitions:
        where = "journal.partitions of the new settings file"
        raise MoveFailed(f"the journal has {partitions} partitions: set {where} to {partitions} or more")


def warnings_of(new: Settings) -> list[str]:
    """Return what is wiser to be changed before the move than after it."""
    partitions = new.journal.partitions
    if partitions >= PARTITIONS_ADVISED:
        return []
    return [
        f"journal.partitions is {partitions}: no more deliver processes than that can share the work;"
        f" {PARTITIONS_ADVISED} are advised. You can add partitions later, but users then move between partitions, and"
        " repeats may go unrecognised for dedup.window. It is better to raise it in the running installation"
        " first, and to move a day later"
    ]


class Move:
    """One move; whoever calls holds the locks of both folders as ``prepare`` and ``finish`` say."""

    def __init__(self, old: Settings, new: Settings, tell: Tell) -> None:
        """Begin it or take it up; raise MoveFailed where something else is in the way."""
        from hookline.journal.kafka.address import address_of
        from hookline.transfer.database_copy import DatabaseCopy
        from hookline.transfer.journal_copy import JournalCopy

        self._old = old
        self._new = new
        self._tell = tell
        self._state: State = load(new.data_path, old.data_path, new.journal.url)
        _check_disk(old.data_path, new.data_path)
        claim(new)
        self._journal = JournalCopy(old.data_path / FOLDER, new, address_of(new), self._state, tell)
        self._databases = DatabaseCopy(old.data_path, new, self._state, tell)
        self._files = FilesCopy(old.data_path, new.data_path, tell)

    def prepare(self) -> None:
        """Copy beside the service until little is left; only the new folder's lock is needed."""
        self._databases.open()
        self._journal.open()
        self._files.fill()
        self._journal.fill()
        crash_point("transfer.journal_copied")
        self._databases.fill()
        crash_point("transfer.databases_copied")
        behind = self._journal.behind()
        for _ in range(ROUNDS_MAX):
            if behind <= BEHIND_EVENTS:
                break
            self._journal.fill()
            before, behind = behind, self._journal.behind()
            if behind >= before:
                self._tell(f"journal: {behind:,} events behind and no longer catching up")
                break
        self._journal.drop_padding()

    def finish(self) -> None:
        """With the service stopped and the locks of both folders held: copy the rest, and let the new one count."""
        from hookline.journal.kafka.appender import TOPIC_FILE

        _recover(self._old)
        self._journal.fill()
        self._journal.finish()
        self._databases.finish()
        crash_point("transfer.rest_copied")
        self._files.finish()
        write_whole(self._new.data_path / FOLDER / TOPIC_FILE, self._state.topic.encode())
        moved = Moved(
            folder=str(self._new.data_path),
            journal=self._new.journal.url,
            at=int(time.time() * 1000),
            ends=self._journal.ends(),
        )
        write_moved(self._old.data_path, moved)
        crash_point("transfer.marked")
        release(self._old, self._new)

    def close(self) -> None:
        """Let go of files and connections."""
        self._journal.close()


def is_moved(old: Settings, new: Settings) -> bool:
    """Return whether the old folder has the mark that it was moved to the new one; raise MoveFailed when to another
    one."""
    return _moved(old, new) is not None


def _moved(old: Settings, new: Settings) -> Moved | None:
    moved = read_moved(old.data_path)
    if moved is not None and moved.folder != str(new.data_path):
        raise MoveFailed(f"{old.data_path} was moved to {moved.folder} already: name the settings file of that one")
    return moved


def release(old: Settings, new: Settings) -> None:
    """The last steps after the mark; idempotent."""
    if not (new.data_path / STATE).exists():
        return
    from hookline.transfer.database_copy import DatabaseCopy

    state = load(new.data_path, old.data_path, new.journal.url)
    DatabaseCopy(old.data_path, new, state, lambda _: None).release()
    for snapshot in new.data_path.glob("*.snapshot*"):
        snapshot.unlink()
    (new.data_path / STATE).unlink()


def undo(old: Settings, new: Settings, leave_events: bool) -> int:
    """Make the old folder count again; return how many events of the new journal stay behind, which raises MoveFailed
    unless ``leave_events``. The new service must be stopped."""
    from hookline.journal.kafka.address import address_of, parse_address
    from hookline.journal.kafka.topic import Watermarks

    moved = _moved(old, new)
    if moved is None:
        raise MoveFailed(f"{old.data_path} was not moved: it is still in use")
    watermarks = Watermarks(parse_address(moved.journal, address_of(new).access))
    try:
        numbers = range(max(watermarks.partition_count(), len(moved.ends)))  # there may be more of them since
        accepted = sum(watermarks.of(number)[1] - moved.ends.get(number, 0) for number in numbers)
    finally:
        watermarks.close()
    if accepted and not leave_events:
        raise MoveFailed(
            f"{accepted:,} events were stored since the move: let the new installation deliver them first (see"
            " docs/how-to/move-to-kafka-and-postgresql.md), then add --leave-events"
        )
    from hookline.transfer.database_copy import DatabaseCopy

    DatabaseCopy(old.data_path, new, State.begun(old.data_path, new.journal.url), lambda _: None).retire()
    remove_moved(old.data_path)
    return accepted


def _recover(old: Settings) -> None:
    """Have a journal that was not closed well repaired, as its appender does at the start."""
    asyncio.run(journal_in(old.data_path / FOLDER).appender(old).close())


def _partitions(folder: Path) -> int:
    reader = open_reader(folder / FOLDER)
    try:
        return len(reader.partitions())
    finally:
        reader.close()


def _check_disk(old: Path, new: Path) -> None:
    databases = {path: path.stat().st_size for path in old.glob("*.db")}
    # Of a database that is there already, what is taken anew stands beside it until it is whole.
    anew = [size for path, size in databases.items() if (new / path.with_suffix(".snapshot").name).exists()]
    others = (path for name in (_INDEX, _EVENT_FILES) for path in (old / name).rglob("*") if path.is_file())
    left = (path for path in others if not (new / path.relative_to(old)).exists())
    needed = sum(databases.values()) - sum(anew) + max(anew, default=0) + sum(map(_size, left))
    free = shutil.disk_usage(new).free
    if free < needed:
        raise MoveFailed(f"{new} needs about {needed:,} bytes for the move, {free:,} are free: make room")
