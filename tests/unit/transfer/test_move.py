"""A move before it begins, and the way back: what is refused, and that nothing is touched then."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hookline.cli.admin_api import CommandFailed
from hookline.cli.service import lock, migrate_to
from hookline.cli.service.migrate_to import MoveReport, stopped
from hookline.cli.target import Target
from hookline.database.open import ensure
from hookline.journal.folder import Moved, read_moved, write_moved
from hookline.journal.opening import FOLDER, journal_in
from hookline.settings import Collect, Database, Journal, Seconds, Settings
from hookline.transfer.move import FilesCopy, Move, check, undo
from hookline.transfer.state import MoveFailed

TOPIC = "kafka://127.0.0.1:1/events"
INDEX_BYTES = 1_000_000
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def old(tmp_path: Path) -> Settings:
    """A data folder with a database and an index."""
    settings = Settings(data_dir=str(tmp_path / "old"))
    (settings.data_path / "index" / "0").mkdir(parents=True)
    (settings.data_path / "index" / "0" / "1.run").write_bytes(bytes(INDEX_BYTES))
    ensure(settings.data_path / "control.db", "control")
    return settings


def settings_in(folder: Path) -> Settings:
    """Those of an installation on servers that are away."""
    database = Database(url="postgresql://x@127.0.0.1:1/x")
    return Settings(data_dir=str(folder), journal=Journal(url=TOPIC), database=database)


def begin(old: Settings, new: Settings) -> None:
    """Begin a move, or take it up, and let go of it."""
    Move(old, new, lambda _: None).close()


def test_a_folder_that_is_not_there_is_not_moved(tmp_path: Path) -> None:
    """A wrong name is no empty installation."""
    with pytest.raises(MoveFailed, match=r"there is no installation in .*typo"):
        check(Settings(data_dir=str(tmp_path / "typo")), settings_in(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_folder_within_the_old_one_is_no_place_to_move_to(old: Settings, tmp_path: Path) -> None:
    """It would be copied into itself, and removed with the old one; neither is the old one by another path."""
    link = tmp_path / "link"
    link.symlink_to(old.data_path)
    for inside in (old.data_path / "cluster", link / "deep" / "cluster"):
        with pytest.raises(MoveFailed, match="is inside"):
            check(old, settings_in(inside))
    with pytest.raises(MoveFailed, match="to another folder"):
        check(old, settings_in(link))


def test_a_move_that_is_taken_up_needs_no_room_for_what_is_there(
    old: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is still to be copied is asked for."""
    new, free = settings_in(tmp_path / "new"), INDEX_BYTES
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, free))
    with pytest.raises(MoveFailed, match="make room"):
        begin(old, new)
    free = INDEX_BYTES + (old.data_path / "control.db").stat().st_size
    begin(old, new)
    shutil.copytree(old.data_path / "index", new.data_path / "index")
    shutil.copy(old.data_path / "control.db", new.data_path / "control.snapshot")
    free -= INDEX_BYTES
    begin(old, new)
    free -= 1  # a newer snapshot stands beside the one that is there
    with pytest.raises(MoveFailed, match="make room"):
        begin(old, new)
    free += INDEX_BYTES
    begin(old, new)
    (old.data_path / "files" / "lake").mkdir(parents=True)
    (old.data_path / "files" / "lake" / "1.parquet").write_bytes(bytes(INDEX_BYTES))
    with pytest.raises(MoveFailed, match="make room"):
        begin(old, new)


def test_an_index_on_another_disk_is_brought_over(old: Settings, tmp_path: Path) -> None:
    """By the link to it in the data folder."""
    elsewhere, new = tmp_path / "elsewhere", tmp_path / "new"
    shutil.move(old.data_path / "index", elsewhere)
    (old.data_path / "index").symlink_to(elsewhere)
    FilesCopy(old.data_path, new, lambda _: None).finish()
    assert (new / "index" / "0" / "1.run").stat().st_size == INDEX_BYTES
    assert not (new / "index").is_symlink()


@pytest.mark.parametrize("name", ["index/0/1.run", "files/lake/shop/part-1.ndjson"])
def test_whose_events_were_erased_is_not_brought_over(old: Settings, tmp_path: Path, name: str) -> None:
    """An erasure changes a file that was copied before, or removes it: the copy follows, and all others stay."""
    file, new = old.data_path / name, tmp_path / "new"
    gone = file.with_name(f"gone{file.suffix}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"users of events")
    gone.write_bytes(b"users of events")
    copy = FilesCopy(old.data_path, new, lambda _: None)
    copy.fill()
    assert (new / gone.relative_to(old.data_path)).exists()
    inode = (new / name).stat().st_ino
    copy.fill()
    assert (new / name).stat().st_ino == inode  # what has not changed is not copied again
    file.write_bytes(bytes(file.stat().st_size))
    later_ns = file.stat().st_mtime_ns + 1_000_000_000
    os.utime(file, ns=(later_ns, later_ns))  # file systems write times down in steps
    gone.unlink()
    copy.finish()
    assert (new / name).read_bytes() == file.read_bytes()
    assert not (new / gone.relative_to(old.data_path)).exists()


def test_the_way_back_from_another_installation_is_refused(old: Settings, tmp_path: Path) -> None:
    """Settings that the folder was not moved to lead to a database that others use: nothing is asked or changed there,
    and the folder stays moved."""
    write_moved(old.data_path, Moved(folder=str(tmp_path / "new"), journal=TOPIC, at=1, ends={0: 0}))
    with pytest.raises(MoveFailed, match=r"was moved to .*new already"):
        undo(old, settings_in(tmp_path / "other"), leave_events=False)
    assert read_moved(old.data_path) is not None


def test_a_move_goes_on_when_nobody_reads_of_it(old: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service may be stopped just then."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        report = MoveReport(old, old, as_json=False)
        for line in ("one", "another"):
            report.tell(line)


class EndsEarly(Move):
    """One that cannot do its last steps, because the servers are away just then."""

    def prepare(self) -> None:
        """Leave it at that."""

    def finish(self) -> None:
        """Write the mark, and no more."""
        write_moved(self._old.data_path, Moved(folder=str(self._new.data_path), journal=TOPIC, at=1, ends={0: 0}))
        raise MoveFailed("PostgreSQL is away")


def test_a_move_that_lacks_its_last_steps_asks_for_them(
    old: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The old folder starts no more then: it must not be said to be as it was."""
    asyncio.run(journal_in(old.data_path / FOLDER).appender(old).close())
    new = {
        "data_dir": str(tmp_path / "new"),
        "journal": {"url": TOPIC},
        "database": {"url": "postgresql://x@127.0.0.1:1/x"},
    }
    file = tmp_path / "cluster.yaml"
    file.write_text(json.dumps(new))
    monkeypatch.setattr(migrate_to, "Move", EndsEarly)
    monkeypatch.setattr(migrate_to.log, "configure", lambda *_: None)  # else all later tests log to this one's stream
    with pytest.raises(CommandFailed, match="PostgreSQL is away"), service_in(old.data_path, ends_after=0):
        migrate_to.move(Target(data_dir=old.data_dir), file, prepare=False, as_json=False)
    said = capsys.readouterr().out
    assert ("run this again" in said, "start it as before" in said) == (True, False)


@contextmanager
def service_in(folder: Path, ends_after: float) -> Iterator[None]:
    """A process that holds the folder, and ends so long after it was asked to."""
    work = f"lock.hold_for_supervisor({str(folder)!r}); print(flush=True)"
    asked = f"signal.sigwait({{signal.SIGTERM}}); time.sleep({ends_after})"
    ready = "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})"
    program = f"import signal, time; from hookline.cli.service import lock; {ready}; {work}; {asked}"
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert running.stdout is not None
        assert running.stdout.readline()
        yield
    finally:
        running.kill()
        running.communicate()


def test_a_service_that_still_takes_calls_is_waited_for(old: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a balancer needs to notice comes on top of what a service takes to end."""
    monkeypatch.setattr(migrate_to, "STOP_SECONDS", 0.0)
    draining = Settings(data_dir=old.data_dir, collect=Collect(drain_delay=Seconds(300.0)))
    lock.prepare(old.data_dir)
    with service_in(old.data_path, ends_after=0.5), stopped(draining, lambda _: None) as was_running:
        assert was_running


def test_a_service_that_does_not_end_in_time_is_named_as_ending(old: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was asked to, so it will not be there any more: somebody has to start it again."""
    monkeypatch.setattr(migrate_to, "STOP_SECONDS", 0.0)
    lock.prepare(old.data_dir)
    refused = pytest.raises(MoveFailed, match="is still ending: once it has ended, start it again")
    with service_in(old.data_path, ends_after=300.0), refused, stopped(old, lambda _: None):
        pass
