"""The log file of the ``file`` consumer: whole lines, whoever else writes, takes the file away or is killed."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest

from hookline_client import log_file
from hookline_client.log_file import LogFile
from limits import file_size_limit


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log is."""
    return tmp_path / "app.log"


def test_lines_are_appended_to_a_file_nobody_else_reads(path: Path) -> None:
    """Each line ends with a line end; the file belongs to its user alone, whatever the umask."""
    previous = os.umask(0)
    try:
        log = LogFile(str(path))
        log.append(b'{"a":1}')
        log.append(b'{"a":2}')
    finally:
        os.umask(previous)
    assert path.read_bytes() == b'{"a":1}\n{"a":2}\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_a_killed_writer_left_is_closed_first(path: Path) -> None:
    """Half a line of a process that was killed in its write is not glued to the next line."""
    log = LogFile(str(path))
    log.append(b"first")
    with path.open("ab") as killed:
        killed.write(b'{"half":')
    log.append(b"second")
    LogFile(str(path)).append(b"third")
    assert path.read_bytes() == b'first\n{"half":\nsecond\nthird\n'


def test_a_full_disk_leaves_whole_lines_only(path: Path) -> None:
    """A line that does not fit raises and leaves nothing behind; when there is room again, lines are written again."""
    log = LogFile(str(path))
    log.append(b"a" * 600)
    with file_size_limit(1_000):
        for _ in range(2):
            with pytest.raises(OSError, match="too large"):
                log.append(b"b" * 600)
        log.append(b"c" * 100)
    log.append(b"d" * 600)
    assert [line[:1] for line in path.read_bytes().splitlines()] == [b"a", b"c", b"d"]
    assert len(path.read_bytes()) == 600 + 100 + 600 + 3


def test_a_process_stopped_with_the_lock_delays_the_others_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is not released ends in TimeoutError, at once from then on; once released, writing works."""
    monkeypatch.setattr(log_file, "LOCK_WAIT_SECONDS", 0.05)
    log = LogFile(str(path))
    log.append(b"before")
    stopped = os.open(path, os.O_RDWR)
    fcntl.flock(stopped, fcntl.LOCK_EX)
    with pytest.raises(TimeoutError):
        log.append(b"never")
    monkeypatch.setattr(log_file, "LOCK_WAIT_SECONDS", 3_600.0)  # the second try does not wait, or the test hangs
    with pytest.raises(TimeoutError):
        log.append(b"never")
    os.close(stopped)
    log.append(b"after")
    assert path.read_bytes() == b"before\nafter\n"


def test_links_and_pipes_are_refused(path: Path, tmp_path: Path) -> None:
    """Whoever puts a link or a pipe at the path neither gets the events elsewhere nor hangs the application."""
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        LogFile(str(path)).append(b"line")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(PermissionError):
        LogFile(str(path)).append(b"line")
    assert not (tmp_path / "elsewhere").exists()


def test_another_users_file_in_a_folder_for_all_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In /tmp somebody else could put the file there first and read what is written: that is refused."""
    path.parent.chmod(0o1777)
    path.touch()
    if os.geteuid() == 0:
        os.chown(path, 1234, 1234)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 1234)
    with pytest.raises(PermissionError):
        LogFile(str(path)).append(b"line")


def test_a_file_that_is_always_replaced_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that never names the open file ends in an error, not in an endless loop."""
    monkeypatch.setattr(log_file, "_status", lambda path: None)
    with pytest.raises(OSError, match="replaced"):
        LogFile(str(path)).append(b"line")
