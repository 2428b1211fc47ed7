"""The locks of a data folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hookline.cli.service import lock


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A prepared data folder."""
    path = str(tmp_path / "data")
    lock.prepare(path)
    return path


def test_the_folder_is_only_its_owners(folder: str) -> None:
    """Nobody else may look into the data folder or its run folder."""
    assert os.stat(folder).st_mode & 0o077 == 0
    assert os.stat(os.path.join(folder, "run")).st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["a-file", "a-file/below"])
def test_a_folder_that_cannot_be_used_is_named_with_a_next_step(tmp_path: Path, name: str) -> None:
    """Alone, the words of the system would leave people with a number."""
    (tmp_path / "a-file").touch()
    with pytest.raises(OSError, match=rf"the data folder {tmp_path / name} cannot be used .*--data-dir"):
        lock.prepare(str(tmp_path / name))


def test_a_lock_that_cannot_be_opened_names_its_folder(folder: str) -> None:
    """As where another user's service made it."""
    os.mkdir(os.path.join(folder, "lock"))
    with pytest.raises(OSError, match=rf"the data folder {folder} cannot be used .*/lock\); see whose it is"):
        lock.hold_for_supervisor(folder)


def test_a_second_server_is_refused_with_folder_and_process(folder: str) -> None:
    """The refusal names the folder and the process that holds it, so that people know what to stop."""
    lock.hold_for_supervisor(folder)
    with pytest.raises(lock.FolderInUse, match=rf"{folder} is in use .*process {os.getpid()}\b"):
        lock.hold_for_supervisor(folder)


def test_roles_started_alone_share_the_folder(folder: str) -> None:
    """Different roles may run beside each other; the same one may not run twice."""
    lock.hold_for_role(folder, "collect")
    lock.hold_for_role(folder, "deliver")
    with pytest.raises(lock.FolderInUse):
        lock.hold_for_role(folder, "collect")


def test_a_server_is_refused_at_once_beside_roles_started_alone(folder: str) -> None:
    """`up` does not wait for roles that somebody runs on purpose."""
    lock.hold_for_role(folder, "control")
    with pytest.raises(lock.FolderInUse, match="roles started alone"):
        lock.hold_for_supervisor(folder)


def test_a_role_is_refused_beside_a_server(folder: str) -> None:
    """A role started by hand cannot join a folder that a supervisor holds."""
    lock.hold_for_supervisor(folder)
    with pytest.raises(lock.FolderInUse):
        lock.hold_for_role(folder, "deliver")


def test_a_dead_server_nobody_waited_for_holds_nothing(folder: str) -> None:
    """A supervisor that its parent has not reaped is dead all the same: what it left is waited for, not refused."""
    supervisor = os.fork()
    if supervisor == 0:
        held = lock.hold_for_supervisor(folder)
        os.set_inheritable(held, True)
        os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "0.5")
        os._exit(0)
    os.waitid(os.P_PID, supervisor, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
    try:
        assert lock.hold_for_supervisor(folder) > 0
    finally:
        os.waitpid(supervisor, 0)


@pytest.fixture
def left_behind(folder: str) -> None:
    """A role whose supervisor was killed keeps the lock's file open for a moment."""
    ready, ready_write = os.pipe()
    supervisor = os.fork()
    if supervisor == 0:
        held = lock.hold_for_supervisor(folder)
        os.set_inheritable(held, True)
        os.write(ready_write, b"x")
        os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "0.5")
        os._exit(0)
    os.read(ready, 1)
    os.waitpid(supervisor, 0)


@pytest.mark.usefixtures("left_behind")
def test_a_dead_servers_folder_is_taken_once_its_last_role_is_gone(folder: str) -> None:
    """After the supervisor was killed, a new one waits for what it left behind instead of giving up."""
    assert lock.hold_for_supervisor(folder) > 0


def test_a_folder_that_is_left_while_its_lock_is_looked_at_is_taken(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last role of a dead supervisor may end at any moment: what can be shared then is nobody's."""
    held = lock.hold_for_supervisor(folder)
    monkeypatch.setattr(lock, "_holder", lambda file: os.close(held))
    assert lock.hold_for_supervisor(folder) > 0


@pytest.mark.usefixtures("left_behind")
def test_a_role_that_still_takes_calls_is_waited_for(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead supervisor's collect goes on for ``collect.drain_delay`` too."""
    monkeypatch.setattr(lock, "LEFTOVER_WAIT_SECONDS", 0.0)
    assert lock.hold_for_supervisor(folder, drain_delay=300.0) > 0
