"""Database files with damaged pages: the role says which and what to do; a notice and doctor tell it, too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service.crash.begun import Begun
from tests.service.harness import Hookline, Receiver, free_port, wait_until, webhook

PAGE_BYTES = 4096


def ruin(path: Path) -> None:
    """Overwrite every page but the first with ones, as a disk that was half written does."""
    whole = path.read_bytes()
    path.write_bytes(whole[:PAGE_BYTES] + b"\xff" * (len(whole) - PAGE_BYTES))
    for log in (path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        log.unlink(missing_ok=True)


def doctor(hookline: Hookline) -> str:
    """What hookline doctor prints."""
    command = [sys.executable, "-m", "hookline.cli.main", "doctor", "--config", str(hookline.folder / "hookline.yaml")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    """A service that has sent an event, before anything of it is damaged."""
    with Receiver(port=free_port()) as receiver:
        hookline = Hookline(tmp_path_factory.mktemp("whole"), [webhook("crm", receiver.url())])
        with hookline:
            receiver.wait_for(hookline.track())
    return Begun(hookline, receiver.port)


def test_a_damaged_database_is_named(new_hookline: Callable[..., Hookline], whole: Begun) -> None:
    """Deliver ends with one line that names its file; doctor says it stopped and running, a notice while running."""
    hookline = whole.copied(new_hookline)
    hookline.write_files()
    path = hookline.data / "deliver.db"
    ruin(path)
    assert f"{path} is damaged" in doctor(hookline)
    with Receiver(port=whole.port) as receiver, hookline:
        waiting = hookline.track()
        wait_until(lambda: hookline.api("GET", "notices?state=open&kind=database_damaged").json["items"])
        assert f"{path} is damaged" in doctor(hookline)
    assert "database_damaged" in hookline.log
    assert "Traceback" not in hookline.log
    assert receiver.of(waiting) == []


@pytest.mark.parametrize("name", ["control.db", "insights.db"])
def test_other_databases_are_named_as_well(new_hookline: Callable[..., Hookline], whole: Begun, name: str) -> None:
    """Without a traceback, whichever role it is."""
    hookline = whole.copied(new_hookline)
    ruin(hookline.data / name)
    hookline.launch()
    wait_until(lambda: "database_damaged" in hookline.log)
    hookline.kill9()
    assert str(hookline.data / name) in hookline.log
    assert "Traceback" not in hookline.log
