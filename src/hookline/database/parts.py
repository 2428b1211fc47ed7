"""Which parts a data folder has had, so that one that is gone is missed, and never made anew in silence.

An empty database beside a journal is worse than none: all write keys would be unknown, everything would be sent again,
or people who asked not to be would be. The names stand in a small file; a folder of an older version gets it at its
first start, with what is there. ``hookline renew`` takes a name out of it, after saying what that costs.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hookline.database.sqlite import connect, engine
from hookline.telemetry.log import logger
from hookline.whole_file import write_whole

NAME = "parts"

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
        return frozenset((folder / NAME).read_text(errors="replace").split())
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
    write_whole(folder / NAME, "".join(f"{name}\n" for name in sorted(names)).encode())
