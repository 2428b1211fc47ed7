"""Every file of a data folder put back from an older copy, deleted, halved, zeroed or flipped: whatever comes then is
sent, what waited is sent or named, and a part that Hookline cannot work with is named, until it was renewed.

The table is made from the files that are there, so that a new one cannot be forgotten. ``FOLDER_TABLE=all`` plays every
fault of every part, ``=pairs`` every two parts put back together, ``=mixed`` every two with faults that take turns,
``=FAULT``, ``=PART`` or ``=PART+FAULT`` those, several with commas between; without it a few that tell most are played.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import combinations, cycle, product
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.service.crash.put_back import NOT_PARTS, judge
from tests.service.harness import Hookline, Receiver, free_port, webhook

EVENTS = 10
SAMPLE = (
    (("journal", "older"), ("deliver.db", "older")),
    (("index", "older"), ("progress.ring", "flipped"), ("journal/0/00000000000000000000.seg", "older")),
)

Case = tuple[tuple[str, str], ...]
"""Parts, each with what is done to it."""


class Base(NamedTuple):
    """Two copies of a stopped folder, and what was taken by the end of the second one."""

    older: Path
    newer: Path
    taken: list[str]
    destinations: list[dict[str, object]]
    away_port: int


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Base]:
    """A service whose one receiver is away: twice, some events are taken, and it is stopped and copied."""
    folder, away = tmp_path_factory.mktemp("base"), free_port()
    with Receiver() as receiver:
        destinations = [webhook("well", receiver.url()), webhook("away", f"http://127.0.0.1:{away}/")]
        hookline = Hookline(folder, destinations, settings={"deliver.retry_max": "1s"})
        taken: list[str] = []
        for name in ("older", "newer"):
            with hookline:
                taken += [hookline.track() for _ in range(EVENTS)]
                for message_id in taken:
                    hookline.wait_status(message_id, "well", "delivered")
            shutil.copytree(hookline.data, folder / name, ignore=shutil.ignore_patterns(*NOT_PARTS))
        yield Base(folder / "older", folder / "newer", taken, destinations, away)


def put_older(path: Path, older: Path) -> None:
    """Put it back; a database with the log that belongs to it."""
    for name in (path.name, f"{path.name}-wal"):
        there = path.with_name(name)
        shutil.rmtree(there) if there.is_dir() else there.unlink(missing_ok=True)
        was = older.with_name(name)
        if was.exists():
            shutil.copytree(was, there) if was.is_dir() else shutil.copy2(was, there)


def delete(path: Path, _: Path) -> None:
    """Take it away, a database with its log."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.with_name(f"{path.name}-wal").unlink(missing_ok=True)


def halve(path: Path, _: Path) -> None:
    """Cut it in the middle."""
    os.truncate(path, path.stat().st_size // 2)


def zero(path: Path, _: Path) -> None:
    """Leave its size alone."""
    path.write_bytes(bytes(path.stat().st_size))


def flip(path: Path, _: Path) -> None:
    """Flip a bit in the middle of what is not zero."""
    content = bytearray(path.read_bytes())
    at = len(content.rstrip(b"\0")) // 2
    content[at : at + 1] = bytes(each ^ 4 for each in content[at : at + 1])
    path.write_bytes(content)


FAULTS: dict[str, Callable[[Path, Path], None]] = {
    "older": put_older,
    "deleted": delete,
    "halved": halve,
    "zeroed": zero,
    "flipped": flip,
}


def cases(newer: Path) -> list[Case]:
    """The table as far as it is asked for."""
    asked = os.environ.get("FOLDER_TABLE", "")
    found = sorted(path.relative_to(newer).as_posix() for path in newer.rglob("*"))
    if asked in ("pairs", "mixed"):
        tops = sorted(path.name for path in newer.iterdir() if not path.name.endswith("-wal"))
        pairs = combinations(tops, 2)
        if asked == "pairs":
            return [((one, "older"), (other, "older")) for one, other in pairs]
        turns = cycle(product(FAULTS, FAULTS))
        return [
            tuple(
                (part, fault if (newer / part).is_file() else "older") for part, fault in zip(pair, faults, strict=True)
            )
            for pair, faults in zip(pairs, turns, strict=False)
        ]
    every: list[Case] = [
        ((part, fault),)
        for part in found
        for fault in FAULTS
        if (newer / part).is_file() or fault in ("older", "deleted")
    ]
    words = set(asked.split(","))
    return [case for case in every if words & {"all", *case[0], "+".join(case[0])}] if asked else list(SAMPLE)


def play(base: Base, case: Case, folder: Path) -> str:
    """Start a copy that was damaged so; return what is wrong, nothing when all is as it should be."""
    hookline = Hookline(folder, base.destinations, settings={"deliver.retry_max": "1s"})
    shutil.copytree(base.newer, hookline.data)
    for part, fault in case:
        FAULTS[fault](hookline.data / part, base.older / part)
    return judge(hookline, base.away_port, base.taken, [Path(part).name for part, _ in case])


@pytest.mark.timeout(7_200)  # as a whole it is played by hand
def test_the_table(base: Base, tmp_path: Path) -> None:
    """Of none of them is anything silently lost, or taken for sent."""
    wrong: dict[Case, str] = {}
    for number, case in enumerate(cases(base.newer)):
        found = play(base, case, tmp_path / str(number))
        print(case, found or "as it should be", file=sys.stderr, flush=True)
        if found:
            wrong[case] = found
    assert not wrong
