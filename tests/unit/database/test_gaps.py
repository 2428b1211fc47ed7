"""Deleted rows leave no byte in a file, also where they stood before they moved; and nothing else is changed."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from hookline.database import gaps, sqlite
from hookline.database.connect import empty_log, overwrite_deleted
from hookline.database.connection import transaction
from hookline.database.gaps import overwrite_gaps
from hookline.database.sqlite import Connection, connect, engine

PEOPLE = 4_000
GONE = range(0, PEOPLE, 3)


def name(person: int) -> str:
    """A text that is in no other row."""
    return hashlib.sha1(str(person).encode()).hexdigest()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of some hundred pages that have split and were filled again, in slices of fifty."""
    monkeypatch.setattr(gaps, "PAGES_PER_SLICE", 50)
    monkeypatch.setattr(gaps, "PAGES_PER_READ", 8)
    path = tmp_path / "people.db"
    engine.connect(path).close()
    with closing(connect(path, synchronous="NORMAL")) as connection:
        overwrite_deleted(connection)
        with transaction(connection) as execute:
            execute("CREATE TABLE ids (id TEXT, person INTEGER, PRIMARY KEY (id)) WITHOUT ROWID")
            execute("CREATE TABLE persons (person INTEGER PRIMARY KEY, traits TEXT)")
        seeded = random.Random(1)
        for person in range(PEOPLE):
            connection.execute("INSERT INTO ids VALUES (?, ?)", (name(person), person))
            connection.execute("INSERT INTO persons VALUES (?, ?)", (person, name(person)))
            other = seeded.randrange(person + 1)
            traits = " ".join([name(other)] * seeded.randrange(1, 12))
            connection.execute("UPDATE persons SET traits = ? WHERE person = ?", (traits, other))
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[Connection]:
    """A connection that has deleted every third person, which is in the file, and has few pages in memory."""
    with closing(connect(path, synchronous="NORMAL")) as opened:
        overwrite_deleted(opened)
        with transaction(opened):
            delete(opened)
        assert empty_log(opened)
        yield opened


def delete(connection: Connection) -> None:
    """Take out those who go."""
    connection.executemany("DELETE FROM ids WHERE person = ? AND id = ?", [(each, name(each)) for each in GONE])
    connection.executemany("DELETE FROM persons WHERE person = ?", [(each,) for each in GONE])


EVERYTHING = "SELECT sum(length(id) + person) FROM ids", "SELECT sum(length(traits)) FROM persons"


def write_everything(connection: Connection) -> None:
    """Change every row, so that every page is written as the connection has it."""
    with transaction(connection) as execute:
        execute("UPDATE persons SET traits = upper(traits)")
        execute("UPDATE ids SET person = -person")


def left_in(path: Path) -> list[int]:
    """Return who is left in the file and its log, of those who went."""
    data = b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))
    return [person for person in GONE if name(person).encode() in data]


def assert_whole(connection: Connection) -> None:
    """Everybody else is there, as they were."""
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    stay = sorted(set(range(PEOPLE)) - set(GONE))
    rows = connection.execute("SELECT id, person FROM ids ORDER BY person").fetchall()
    assert rows == [(name(person), person) for person in stay]
    for person, traits in connection.execute("SELECT person, traits FROM persons"):
        assert set(traits.split()) == {name(person)}


def test_nothing_is_left_of_deleted_rows(path: Path, connection: Connection) -> None:
    """Overwriting rows where they stand is not enough; and done again, there is nothing to do."""
    assert left_in(path)
    assert overwrite_gaps(path)
    assert left_in(path) == []
    assert_whole(connection)
    before = path.read_bytes()
    assert overwrite_gaps(path)
    assert path.read_bytes()[4_096:] == before[4_096:]


def test_what_others_hold_in_memory_does_not_come_back(
    path: Path, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that reads every page just before it is zeroed, and writes all of them before the run ends, reads
    them again first."""
    monkeypatch.setattr(gaps, "PAGES_PER_SLICE", 10_000)
    monkeypatch.setattr(gaps, "PASSES_MAX", 1)
    connection.execute("PRAGMA cache_size = -64000")
    overwrite, work = gaps._Overwriting._overwrite, gaps._Overwriting._slice

    def read_before(self: gaps._Overwriting, layout: gaps._Layout, first: int) -> bool:
        for query in EVERYTHING:
            connection.execute(query).fetchall()
        return overwrite(self, layout, first)

    def write_after(self: gaps._Overwriting, layout: gaps._Layout, first: int) -> bool:
        done = work(self, layout, first)
        write_everything(connection)
        return done

    monkeypatch.setattr(gaps._Overwriting, "_overwrite", read_before)
    monkeypatch.setattr(gaps._Overwriting, "_slice", write_after)
    assert overwrite_gaps(path)
    assert left_in(path) == []
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_pages_zeroed_by_a_run_that_was_ended_do_not_come_back(
    path: Path, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others hold them in memory still, and the next run finds nothing to zero."""
    connection.execute("PRAGMA cache_size = -64000")
    for query in EVERYTHING:
        connection.execute(query).fetchall()
    real = gaps._Overwriting._overwrite

    def ended(self: gaps._Overwriting, layout: gaps._Layout, first: int) -> bool:
        for each in range(0, 10_000, gaps.PAGES_PER_SLICE):
            real(self, layout, each)
        raise OSError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(gaps._Overwriting, "_overwrite", ended)
        with pytest.raises(sqlite.DatabaseFailing):
            overwrite_gaps(path)
    assert overwrite_gaps(path)
    write_everything(connection)
    assert empty_log(connection)
    assert left_in(path) == []


def test_who_reads_for_long_is_in_the_way(path: Path, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said to be done while somebody reads the file as it was; afterwards it can be."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_SECONDS", 0.05)
    with closing(connect(path, read_only=True)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM ids").fetchall()
        assert not overwrite_gaps(path)
    assert overwrite_gaps(path)
    assert left_in(path) == []
    assert_whole(connection)


def test_who_writes_for_long_is_in_the_way(path: Path, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits no longer than other writers do."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_SECONDS", 0.05)
    connection.execute("BEGIN IMMEDIATE")
    assert not overwrite_gaps(path)
    connection.execute("ROLLBACK")
    assert overwrite_gaps(path)


def test_a_page_that_does_not_look_right_stays_as_it_is(path: Path, connection: Connection) -> None:
    """Where its rows would begin in the gap, or the gap beyond the page; all others are zeroed."""
    connection.close()
    data = bytearray(path.read_bytes())
    bad = [at for at in range(4_096, len(data), 4_096) if data[at] in (10, 13)][:3]
    for at, begins in zip(bad, (4_096, 65_535, 1), strict=True):
        data[at + 5 : at + 7] = begins.to_bytes(2, "big")
    path.write_bytes(data)
    assert overwrite_gaps(path)
    now = path.read_bytes()
    assert all(now[at : at + 4_096] == data[at : at + 4_096] for at in bad)
    assert now[4_096:] != data[4_096:]


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    """One whose pages SQLite moves has pages that may look like others."""
    path = tmp_path / "moving.db"
    with closing(engine.connect(path, isolation_level=None)) as made:
        made.execute("PRAGMA auto_vacuum = FULL")
        made.execute("CREATE TABLE t (x)")
    assert not overwrite_gaps(path)


def test_a_file_that_was_replaced_is_another(path: Path, connection: Connection, tmp_path: Path) -> None:
    """The descriptor that is kept is of the file that was there; who has the name now is worked on."""
    assert overwrite_gaps(path)
    connection.close()
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    os.rename(copy, path)
    with closing(connect(path)) as new:
        with transaction(new) as execute:
            execute("INSERT INTO persons VALUES (-1, 'new')")
        assert overwrite_gaps(path)
        found = new.execute("PRAGMA integrity_check").fetchall()
    assert found == [("ok",)]
    assert b"new" in path.read_bytes()
    open_files = {os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")}
    assert not any("deleted" in each and path.name in each for each in open_files)


def test_a_run_drops_no_lock_of_the_process(path: Path, connection: Connection) -> None:
    """Without the lock that says who has the file open, another process could take itself for the last one, and would
    remove the log."""
    assert overwrite_gaps(path)
    script = (
        "import fcntl, sys\n"
        "with open(sys.argv[1], 'r+b') as file:\n"
        "    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)"  # SQLite's shared range
    )
    tried = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True)
    assert "BlockingIOError" in tried.stderr


WRITER = """
import sys
from pathlib import Path
from hookline.database.connect import overwrite_deleted
from hookline.database.connection import transaction
from hookline.database.sqlite import connect
each = connect(Path(sys.argv[1]), synchronous="NORMAL")
overwrite_deleted(each)
each.execute("CREATE TABLE IF NOT EXISTS written (number INTEGER PRIMARY KEY, text TEXT)")
for number in range(100_000):
    with transaction(each) as execute:
        execute("INSERT INTO written VALUES (?, ?)", (number, "w" * (number % 900)))
        execute("UPDATE persons SET traits = traits || ' ' || substr(traits, 1, 40) WHERE person = ?", (number % 4000,))
    print(number, flush=True)
"""
RUNNER = """
import sys
from pathlib import Path
from hookline.database import gaps
gaps.PAGES_PER_SLICE = 5
while True:
    gaps.overwrite_gaps(Path(sys.argv[1]))
    print("run", flush=True)
"""


def start(script: str, path: Path) -> subprocess.Popen[str]:
    """Start a process that works on the file, and wait for its first line."""
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def end(process: subprocess.Popen[str]) -> list[str]:
    """End it in the middle of what it does; return what else it said."""
    process.send_signal(signal.SIGKILL)
    said, _ = process.communicate(timeout=60)
    return said.splitlines()


def test_another_process_that_writes_loses_nothing(path: Path, connection: Connection) -> None:
    """What it has committed is there, and the file is whole; nothing comes back of who went before."""
    with closing(connect(path)) as own:
        writer = start(WRITER, path)
        for _ in range(10):
            overwrite_gaps(path)  # in vain, maybe: it writes without a pause
        written = end(writer)
        assert overwrite_gaps(path)
        last = int(written[-1]) if written[-1:] and written[-1].isdigit() else 0
        assert own.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = own.execute("SELECT number, length(text) FROM written ORDER BY number").fetchall()
        assert len(rows) > last
        assert rows == [(number, number % 900) for number in range(len(rows))]
    assert left_in(path) == []


def test_a_run_that_is_killed_harms_nothing(path: Path, connection: Connection) -> None:
    """At any moment, beside somebody who writes; the next one does the rest."""
    writer = start(WRITER, path)
    try:
        for _ in range(3):
            end(start(RUNNER, path))
            with closing(connect(path, read_only=True)) as reader:
                assert reader.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        end(writer)
    assert overwrite_gaps(path)
    assert left_in(path) == []


def test_other_threads_of_the_process_write_meanwhile(path: Path, connection: Connection) -> None:
    """Each with a connection of its own, and nothing is lost."""
    stop, counts = threading.Event(), [0, 0]
    connection.execute("CREATE TABLE written (thread INTEGER, number INTEGER)")

    def write(thread: int) -> None:
        with closing(connect(path, synchronous="NORMAL")) as own:
            while not stop.is_set():
                with suppress(sqlite.DatabaseLocked), transaction(own) as execute:
                    execute("INSERT INTO written VALUES (?, ?)", (thread, counts[thread]))
                    counts[thread] += 1

    threads = [threading.Thread(target=write, args=(each,)) for each in range(2)]
    for each in threads:
        each.start()
    for _ in range(5):
        overwrite_gaps(path)
    stop.set()
    for each in threads:
        each.join(60)
    assert overwrite_gaps(path)
    found = connection.execute("SELECT thread, count(*) FROM written GROUP BY thread ORDER BY thread").fetchall()
    assert found == [(thread, count) for thread, count in enumerate(counts) if count]
    assert_whole(connection)
    assert left_in(path) == []
