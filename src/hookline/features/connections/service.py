"""Open ``control.db`` with the connections file in force before control serves, and find where a new lane begins.

It imports no web framework: the other roles wait for this and need not wait for that.
"""

from __future__ import annotations

from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from hookline.connections.model import Offsets
from hookline.connections.store import Store
from hookline.database.commits import commits_of
from hookline.database.location import location_of
from hookline.database.open import ensure
from hookline.database.steady_clock import steady_clock_of
from hookline.journal.opening import open_reader
from hookline.journal.port import JournalAway
from hookline.outcomes.reader import DeliverReader
from hookline.settings import Settings
from hookline.telemetry.log import logger
from hookline.whole_file import try_to_write_whole


def journal_ends(settings: Settings) -> Offsets:
    """Return one past the last durable offset of every partition; 0 where collect has not stored anything yet. Raise
    JournalAway while that cannot be known."""
    ends = dict.fromkeys(range(settings.journal.partitions), 0)
    folder = settings.data_path / "journal"
    if folder.is_dir():
        reader = open_reader(folder)
        try:
            partitions = reader.partitions()
            if not partitions and not settings.journal.is_local and _was_read(settings):
                # A broker that has just started may not know it yet: a new destination would get all that is kept.
                raise JournalAway("Brokers do not know the journal's topic just now. Try again in a moment")
            ends.update({partition: reader.end(partition) for partition in partitions})
        finally:
            reader.close()
    return ends


def _was_read(settings: Settings) -> bool:
    """Return whether deliver has had events of the journal."""
    with closing(DeliverReader(location_of(settings, "deliver"))) as deliver:
        return any(deliver.next_offsets().values())


PROBLEMS_SHOWN_MAX = 20
APPLIED_FILE = "applied-connections"
"""In the data folder: the digests of connections files that were applied, newest first."""
APPLIED_KEPT_MAX = 50


def was_applied(data_path: Path, document: str) -> bool:
    """Return whether this text was applied as a connections file before."""
    return _digest(document) in _applied(data_path)


def note_applied(store: Store, data_path: Path, document: str) -> None:
    """Keep in mind that this text was applied as a connections file."""
    store.unapplied_file = None
    digest, known = _digest(document), _applied(data_path)
    if known[:1] != [digest]:
        kept = [digest, *(each for each in known if each != digest)][:APPLIED_KEPT_MAX]
        try_to_write_whole(data_path / APPLIED_FILE, "".join(f"{each}\n" for each in kept).encode())


def _digest(document: str) -> str:
    return sha256(document.encode()).hexdigest()


def _applied(data_path: Path) -> list[str]:
    with suppress(OSError, UnicodeDecodeError):
        return (data_path / APPLIED_FILE).read_text("ascii").split()
    return []


class CannotStart(Exception):
    """Control cannot start; the message says why and what to do."""

    code = "cannot_start"


def open_connections(settings: Settings, connections_file: Path | None, boot_id: str | None) -> Store:
    """Open ``control.db``, apply the file, and tell the other roles that the connections of this boot are in force, and
    that whoever is suppressed can be told.

    Raise CannotStart for a file that cannot be applied and never was, DatabaseError for an unusable database,
    DatabaseAway for one that something outside of us keeps from being written to.
    """
    settings.data_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    (settings.data_path / "run").mkdir(mode=0o700, exist_ok=True)
    steady = steady_clock_of(settings)
    store = Store(location_of(settings, "control"), plan_level=settings.plan.level, steady_ms=steady.now_ms)
    try:
        if (commits := commits_of(location_of(settings, "control"))) is not None:
            store.pass_over(commits.highest, lambda: journal_ends(settings))
        if connections_file is not None:
            _apply(store, settings, connections_file)
        ensure(location_of(settings, "privacy"), "privacy")
        store.mark_ready(boot_id or uuid4().hex)
    except BaseException:
        store.close()
        raise
    return store


def _apply(store: Store, settings: Settings, connections_file: Path) -> None:
    from hookline.connections import file  # here: YAML is only read where there is a file
    from hookline.connections.file_shape import shown_after

    document, problems = file.load(connections_file)
    if not problems:
        # Nobody is there to wait for them, and without control they would never be through.
        draining = [each.object.id for each in store.destinations() if each.lane and each.lane.until is not None]
        applied = file.apply(store, document, "file", lambda: journal_ends(settings), draining=draining)
        problems = list(applied.problems)
        for change in applied.changes:
            if change.stale_secret:
                logger().warning("file_has_rotated_secret", destination=change.id, what=change.note)
            elif change.note == file.STILL_DRAINS:
                logger().warning("destination_still_drains", destination=change.id, what=change.note)
    if not problems:
        note_applied(store, settings.data_path, document)
        return
    if was_applied(settings.data_path, document):
        # Somebody has changed since what the file meets. Then it is better to run as before than not to run.
        store.unapplied_file = str(connections_file), f"{problems[0]}{shown_after(problems)}"
        lines = [str(problem) for problem in problems[:PROBLEMS_SHOWN_MAX]]
        logger().error("connections_file_not_applied", file=str(connections_file), problems=lines)
    else:
        lines = [str(problem) for problem in problems[:PROBLEMS_SHOWN_MAX]]
        raise CannotStart(f"{connections_file}: " + "\n  ".join(lines))
