"""Which database file is damaged, and what to do: for the role that met it, the notice, and ``hookline doctor``."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from hookline.database import home
from hookline.database.sqlite import DatabaseBroken, OperationalError, connect, engine
from hookline.telemetry.log import logger
from hookline.whole_file import write_whole

CHECK_SECONDS = 10.0
"""How long a role that ends because of damage looks for where it is."""
MARK = "damaged-"
"""In ``run/`` of the data folder, before a file's name: what a role that cannot work with it has found, and when."""
_STEPS = 10_000


def damage_of(path: Path, seconds: float = CHECK_SECONDS) -> str | None:
    """Return what is wrong with the pages of a file, None when nothing is, as far as that can be looked at in
    the time."""
    try:
        with closing(connect(path, read_only=True)) as connection:
            until = time.monotonic() + seconds
            connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
            found = connection.execute("PRAGMA quick_check(1)").fetchone()
    except OperationalError:  # locked, or interrupted: nothing found in the time
        return None
    except engine.DatabaseError as error:
        return str(error)
    return None if found is None or found[0] == "ok" else " ".join(str(found[0]).split())


def how_to_mend(path: Path) -> str:
    """Return what to do about a damaged file."""
    if path.name in home.COSTS:
        return (
            f"stop Hookline and put {path.name} back from a snapshot, in place of it, {path.name}-wal and"
            f" {path.name}-shm. To go on without it: move all three away, then hookline renew {path.name}"
        )
    return f"stop Hookline and move {path.name}, {path.name}-wal and {path.name}-shm away: it is made anew, empty"


def find_damaged(folder: Path, damage: Callable[[Path], str | None] = damage_of) -> list[tuple[Path, str]]:
    """Return the damaged files of a data folder, each with what is wrong with it."""
    return [(path, reason) for path in sorted(folder.glob("*.db")) if (reason := damage(path)) is not None]


def explain(folder: Path, error: BaseException) -> bool:
    """Log which file of a data folder is damaged and what to do, and note it for control; return False when the error
    tells of no damage."""
    if type(error) not in (
        engine.DatabaseError,
        DatabaseBroken,
    ):  # its subclasses are other things: locks, wrong statements, no room
        return False
    found = find_damaged(folder)
    for path, reason in found:
        logger().error("database_damaged", file=str(path), error=reason, next_step=how_to_mend(path))
        with suppress(OSError):
            mark(folder, path, reason)
    if not found:
        next_step = f"hookline doctor looks at the databases in {folder}; put the damaged one back from a snapshot"
        logger().error("database_damaged", file="", error=str(error), next_step=next_step)
    return True


def mark(folder: Path, path: Path, reason: str) -> None:
    """Note for control that a role cannot work with this file."""
    write_whole(folder / "run" / f"{MARK}{path.name}", f"{reason}\n".encode())


def marked(folder: Path, younger_than_seconds: float) -> list[tuple[str, str]]:
    """Return the files that roles have met lately, each with what is wrong with it."""
    found: list[tuple[str, str]] = []
    for each in sorted((folder / "run").glob(MARK + "*.db")):
        try:
            if time.time() - each.stat().st_mtime < younger_than_seconds:
                found.append((each.name.removeprefix(MARK), each.read_text().strip()))
        except FileNotFoundError:
            continue
    return found
