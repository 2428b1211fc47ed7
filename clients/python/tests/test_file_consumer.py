"""The ``file`` consumer: never in the way of the application, and everything counted."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hookline_client import Client
from hookline_client.log_file import LogFile
from limits import file_size_limit
from open_files import open_files


def written(path: Path) -> list[str]:
    """The event names in the file."""
    return [json.loads(line)["event"] for line in path.read_bytes().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log is."""
    return tmp_path / "app.log"


def test_every_call_is_a_line_when_it_returns(path: Path) -> None:
    """A call leaves one line with its messageId in the file; flush has nothing to do."""
    with Client("key", consumer="file", filename=str(path), receipts=True) as client:
        message_id = client.track("u1", "Signed Up", {"plan": "pro"})
        assert json.loads(path.read_bytes())["messageId"] == message_id
        result = client.flush()
    assert (result.handed_over, result.waiting, result.ok) == (1, 0, True)
    assert [receipt.message_id for receipt in result.receipts] == [message_id]


def test_a_program_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon does: a path is about the folder in which the client was made, where the uploader looks."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    client = Client("key", consumer="file", filename="app.log")
    client.track("u1", "before")
    monkeypatch.chdir("elsewhere")
    client.track("u1", "after")
    assert written(tmp_path / "app.log") == ["before", "after"]


def test_a_full_disk_is_counted_and_told(path: Path) -> None:
    """Calls return None while the disk is full, the error handler hears why, and writing goes on by itself."""
    told: list[str] = []
    client = Client("key", consumer="file", filename=str(path), error_handler=lambda code, message: told.append(code))
    client.track("u1", "before")
    with file_size_limit(path.stat().st_size + 50):
        assert client.track("u1", "lost") is None
    assert client.track("u1", "after") is not None
    assert written(path) == ["before", "after"]
    assert (client.stats.handed_over, client.stats.dropped, told) == (2, 1, ["file_failed"])


def test_a_missing_folder_is_counted_and_told(tmp_path: Path) -> None:
    """A folder that is not there costs the events, not the application; once it is there, they are written."""
    path = tmp_path / "later" / "app.log"
    client = Client("key", consumer="file", filename=str(path))
    assert client.track("u1", "lost") is None
    path.parent.mkdir()
    assert client.track("u1", "kept") is not None
    assert written(path) == ["kept"]


def test_a_locked_file_is_told_as_busy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that holds the file for too long costs the event and has a code of its own."""
    told: list[str] = []
    monkeypatch.setattr(LogFile, "append", lambda self, line: (_ for _ in ()).throw(TimeoutError("held")))
    client = Client("key", consumer="file", filename=str(path), error_handler=lambda code, message: told.append(code))
    assert client.track("u1", "lost") is None
    assert told == ["file_busy"]


def test_a_handler_may_track_too(path: Path) -> None:
    """An event that the error handler tracks is written as well, where the file that failed can be written again."""
    names, told = ["lost too", "third"], []

    def handle(code: str, message: str) -> None:
        told.append(code)
        if len(told) != 2:
            client.track("u1", names.pop(0))

    client = Client("key", consumer="file", filename=str(path), error_handler=handle)
    client.track("u1", "first")
    with file_size_limit(0):
        assert client.track("u1", "lost") is None
    client.track("u1", "")
    assert written(path) == ["first", "third"]
    assert told == ["file_failed", "file_failed", "missing_event"]


@contextmanager
def signal_in_a_line(handle: Callable[[], object]) -> Iterator[None]:
    """Have the handler run where the line of the event ``outer`` is about to be written."""
    write = os.write

    def interrupted(file: int, data: bytes) -> int:
        if b'"outer"' in data:
            patch.setattr(os, "write", write)
            signal.raise_signal(signal.SIGUSR1)
        return write(file, data)

    previous = signal.signal(signal.SIGUSR1, lambda *_: handle())
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "write", interrupted)
            yield
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_a_signal_handler_may_track_in_the_middle_of_a_line(path: Path) -> None:
    """A signal that comes while its thread writes adds its event behind the line; both are whole and counted."""
    client = Client("key", consumer="file", filename=str(path))
    with signal_in_a_line(lambda: client.track("u1", "inner")):
        client.track("u1", "outer")
    assert written(path) == ["outer", "inner"]
    assert client.stats.handed_over == 2


def test_a_signal_handler_may_track_and_end_the_program(path: Path) -> None:
    """The call that it interrupted never returns, its own did: that event is in the file, and counted."""
    client = Client("key", consumer="file", filename=str(path))

    def end() -> None:
        assert client.track("u1", "inner") is not None
        client.close()
        sys.exit(0)

    with signal_in_a_line(end), pytest.raises(SystemExit):
        client.track("u1", "outer")
    assert written(path) == ["inner"]
    assert (client.stats.handed_over, client.stats.dropped) == (1, 0)


def test_an_event_of_a_signal_handler_survives_the_next_signal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its call has returned, and a second handler ends the program where its line is to be written."""
    client = Client("key", consumer="file", filename=str(path))
    append = LogFile.append

    def ended(log: LogFile, line: bytes) -> None:
        monkeypatch.setattr(LogFile, "append", append)
        sys.exit(0)

    def handle() -> None:
        assert client.track("u1", "inner") is not None
        monkeypatch.setattr(LogFile, "append", ended)

    with signal_in_a_line(handle), pytest.raises(SystemExit):
        client.track("u1", "outer")
    assert written(path) == ["outer", "inner"]
    assert client.stats.handed_over == 2


def test_a_signal_handler_may_close_in_the_middle_of_a_line(path: Path) -> None:
    """That line is written to its end; what is tracked afterwards is dropped, and no file stays open."""
    client = Client("key", consumer="file", filename=str(path))
    with signal_in_a_line(client.close):
        assert client.track("u1", "outer") is not None
    assert client.track("u1", "late") is None
    assert written(path) == ["outer"]
    assert open_files(path) == []


def test_parent_and_child_write_to_one_file(path: Path) -> None:
    """After a fork both go on, each with a lock of its own."""
    client = Client("key", consumer="file", filename=str(path))
    client.track("u1", "before")
    child = os.fork()
    if child == 0:
        client.track("u1", "child")
        os._exit(0 if client.stats.handed_over == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    client.track("u1", "parent")
    assert written(path) == ["before", "child", "parent"]


def test_after_close_calls_are_dropped(path: Path) -> None:
    """A closed client refuses calls and says so; closing again is nothing."""
    client = Client("key", consumer="file", filename=str(path))
    client.close()
    client.close()
    assert client.track("u1", "late") is None
    assert client.stats.dropped == 1
    assert not path.exists()
