"""Partitions of a journal that somebody, or a disk, has damaged: opened, read, appended to and opened again."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from hookline.journal.conformance import a_record
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.local.segment import segment_name
from hookline.journal.port import JournalError
from hookline.journal.reading import read_on
from hookline.journal.record import Record
from tests.fuzz.cases import Cases

CASES = 400
RECORDS, PER_GROUP, PER_SESSION = 60, 5, 20
SEGMENT_BYTES = 64 * 1024
BODY_BYTES = 2_000
DAMAGED_BYTES_MAX = 3_000
NAMES = (
    "copy of {}",
    "{}.bak",
    "old-{}",
    "00000000000000000003.seg",
    "99999999999999999999.seg",
    "-1.seg",
    ".seg",
    "x.cut",
)
"""What a copy of a segment is called."""
RUINS = ("flip", "zeros", "noise", "cut", "longer", "gone", "copy", "exchanged")
IN_PLACE = frozenset({"flip", "zeros", "noise", "cut", "longer"})
"""Damage of one file alone."""


def record(number: int) -> Record:
    """The record with this offset."""
    return a_record(number, body=b"%06d" % number * (BODY_BYTES // 6))


def opened(journal: Path) -> LocalAppender:
    """The journal, ready to be appended to."""
    return LocalAppender(journal, retention_seconds=1e6, retention_bytes=1 << 40, segment_bytes=SEGMENT_BYTES)


def append(journal: Path, groups: Sequence[Sequence[Record]]) -> None:
    """Open it, append group by group, and close it."""

    async def run() -> None:
        appender = opened(journal)
        try:
            for group in groups:
                await appender.append(list(group))
        finally:
            await appender.close()

    asyncio.run(run())


def read(journal: Path) -> tuple[dict[int, Record], int]:
    """What is read, by its offset, and the end."""
    with closing(LocalReader(journal)) as reader:
        end = reader.end(0)
        groups = list(read_on(reader, 0, 0, end, lambda lost: None))
    return {group.first_offset + at: each for group in groups for at, each in enumerate(group.records)}, end


def ruin(random: Random, folder: Path) -> tuple[str, Path]:
    """Do something to a file of the partition; return what, and to which."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    segments = [path for path in files if path.suffix == ".seg"] or files
    path = random.choice(files if random.random() < 0.3 else segments)
    what = random.choice(RUINS)
    data = bytearray(path.read_bytes())
    used = max(len(data.rstrip(b"\0")), 1)
    at = random.randrange(used)
    length = random.choice((1, 4, 8, 30, random.randrange(1, DAMAGED_BYTES_MAX)))
    match what:
        case "flip" if data:
            data[min(at, len(data) - 1)] ^= 1 << random.randrange(8)
        case "zeros":
            data[at : at + length] = bytes(min(length, len(data) - at))
        case "noise":
            data[at : at + length] = random.randbytes(min(length, len(data) - at))
        case "cut":
            del data[random.choice((at, used, 0)) :]
        case "longer":
            begin = random.randrange(used)
            data += random.choice((bytes(length), random.randbytes(length), data[begin : begin + length]))
        case "gone":
            path.unlink()
            return what, path
        case "copy":
            (folder / random.choice(NAMES).format(path.name)).write_bytes(data)
            return what, path
        case "exchanged":
            other = random.choice(segments)
            theirs = other.read_bytes()
            other.write_bytes(data)
            path.write_bytes(theirs)
            return what, path
    path.write_bytes(data)
    return what, path


def check_recovery(random: Random, whole: Path, journal: Path) -> None:
    """What is read was written, at its place; what nobody touched is read; it can be gone on with."""
    shutil.rmtree(journal, ignore_errors=True)
    shutil.copytree(whole, journal)
    firsts = sorted(int(path.stem) for path in (journal / "0").glob("*.seg"))
    done = [ruin(random, journal / "0") for _ in range(random.choice((1, 1, 1, 2, 3)))]
    try:
        append(journal, [])
        found, end = read(journal)
    except JournalError:
        return
    for offset, each in found.items():
        assert each == record(offset), f"{offset} is {each.message_id}"
    if all(what in IN_PLACE and path.suffix == ".seg" for what, path in done):
        touched = {path.name for _, path in done}
        bounds = zip(firsts, [*firsts[1:], RECORDS], strict=True)
        kept = [n for first, after in bounds if segment_name(first) not in touched for n in range(first, after)]
        assert set(kept) <= found.keys(), done
    append(journal, [[record(end)], [record(end + 1)]])
    again, last = read(journal)
    assert last == end + 2
    assert again == found | {end: record(end), end + 1: record(end + 1)}, done


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal of several segments, written by as many processes as there are sessions."""
    journal = tmp_path_factory.mktemp("whole") / "journal"
    for begin in range(0, RECORDS, PER_SESSION):
        firsts = range(begin, begin + PER_SESSION, PER_GROUP)
        append(journal, [[record(n) for n in range(first, first + PER_GROUP)] for first in firsts])
    found, end = read(journal)
    assert (len(found), end) == (RECORDS, RECORDS)
    assert len(list((journal / "0").glob("*.seg"))) > 1
    return journal


def test_no_damage_makes_a_record_another(cases: Cases, whole: Path, tmp_path: Path) -> None:
    """Opened with what is whole, or refused as documented."""
    number = cases.run("journal", CASES, lambda random: check_recovery(random, whole, tmp_path / "journal"))
    print(f"{number} damaged journals")
