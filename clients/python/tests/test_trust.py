"""Two users in one folder: what the other put there is neither used nor removed, and the sentence says what to do."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hookline_client.log_file import LogFile
from hookline_client.spool.spool import Spool
from hookline_client.testing import RecordingTransport
from hookline_client.trust import NotTrusted
from hookline_client.uploader.exit_code import ExitCode
from hookline_client.uploader.report import Report
from hookline_client.uploader.uploader import Uploader

NOBODY = 65_534
EVENTS = 50
LINE = '{"type":"track","event":"e","userId":"u","messageId":"m%d"}\n'
PLACE = json.dumps({"upload": "x", "offset_bytes": 10_000_000})


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everyone may write to, as /tmp is."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def log(shared: Path) -> Path:
    """A log of this user's there."""
    path = shared / "analytics.log"
    path.write_text("".join(LINE % number for number in range(EVENTS)))
    return path


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make a file another user's; without root's rights, this user another one."""

    def give(path: Path) -> None:
        if os.getuid() == 0:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    return give


def upload(log: Path) -> tuple[ExitCode, list[str]]:
    """One run; how it ended, and the messageIds that went out."""
    transport = RecordingTransport()
    code = Uploader(str(log), transport, Report(), 0.0, sleep=lambda seconds: None).run()
    return code, [event["messageId"] for event in transport.events]


def everything(folder: Path) -> dict[str, str]:
    """What stands in the folder."""
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def as_other_user(work: Callable[[], int]) -> int:
    """Do something in a process of another user's where root may make one; return its exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("name", ["lock", "uploading", "uploading.place", "uploading.place.new", "rejected"])
def test_a_file_of_another_user_beside_the_log_is_not_used(
    log: Path, give_away: Callable[[Path], None], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A place that says all was done, a taken file with other events: nothing of ours is lost over it."""
    with log.open("a") as file:
        file.write("no event\n")  # so that there is something to set aside
    if name.startswith("uploading."):  # as a run leaves it that was ended
        log.rename(log.with_name("analytics.log.uploading"))
    theirs = log.with_name(f"analytics.log.{name}")
    theirs.write_text(LINE % 99 if name == "uploading" else PLACE)
    theirs.chmod(0o666)
    give_away(theirs)
    code, sent = upload(log)
    assert code is ExitCode.DISK
    assert "m99" not in sent
    kept = everything(log.parent)
    assert theirs.name in kept
    assert "m49" in "".join(kept.values())
    assert "nothing is removed" in capsys.readouterr().err


def test_another_user_cannot_make_a_run_forget_events(log: Path) -> None:
    """The other way round, with processes of two users: this one plants a place, that one uploads its log."""
    place = log.with_name("analytics.log.uploading.place")
    place.write_text(PLACE)
    place.chmod(0o666)
    if os.getuid() == 0:
        os.chown(log, NOBODY, NOBODY)
    else:
        os.link(place, log.with_name("planted"))  # of one user only this can be told from a file of its own
    os.rename(log, log.with_name("analytics.log.uploading"))
    assert as_other_user(lambda: int(upload(log)[0])) == ExitCode.DISK
    kept = everything(log.parent)
    assert kept["analytics.log.uploading"].count("\n") == EVENTS
    assert kept["analytics.log.uploading.place"] == PLACE


@pytest.mark.parametrize("mode", [0o620, 0o602])
@pytest.mark.parametrize("name", ["lock", "uploading.place", "rejected"])
def test_a_file_that_others_may_write_to_is_not_used(log: Path, name: str, mode: int) -> None:
    """What it says may be anybody's word, although it is ours."""
    with log.open("a") as file:
        file.write("no event\n")
    if name == "uploading.place":
        log.rename(log.with_name("analytics.log.uploading"))
    ours = log.with_name(f"analytics.log.{name}")
    ours.write_text(PLACE)
    ours.chmod(mode)
    assert upload(log)[0] is ExitCode.DISK
    assert ours.read_text() == PLACE


@pytest.mark.parametrize("make", [os.link, os.symlink])
@pytest.mark.parametrize("name", ["", ".lock", ".uploading", ".uploading.place", ".rejected"])
def test_another_name_of_a_file_of_ours_is_not_used(
    log: Path, tmp_path: Path, name: str, make: Callable[[Path, Path], None]
) -> None:
    """Somebody may give a file of ours the name that an upload uses, and have it sent and removed."""
    with log.open("a") as file:
        file.write("no event\n")
    if name.startswith(".uploading."):
        log.rename(log.with_name("analytics.log.uploading"))
    diary = log.with_name("diary")
    diary.write_text(LINE % 99)
    link = log.with_name(f"analytics.log{name}")
    link.unlink(missing_ok=True)
    make(diary, link)
    code, sent = upload(log)
    assert code is ExitCode.DISK
    assert "m99" not in sent
    assert diary.read_text() == LINE % 99
    assert os.path.lexists(link)


def test_the_log_of_another_user_is_not_taken_away(log: Path, give_away: Callable[[Path], None]) -> None:
    """Not even its name is changed, which root could do."""
    give_away(log)
    assert upload(log) == (ExitCode.DISK, [])
    assert "analytics.log" in everything(log.parent)


def test_a_link_by_another_name_is_not_written_to(log: Path) -> None:
    """The file consumer writes to no file that has a second name in a folder of everybody's."""
    os.link(log, log.with_name("planted"))
    with pytest.raises(NotTrusted, match="has another name"):
        LogFile(str(log)).append(b"{}")


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_spool_that_others_may_write_to_is_not_used(shared: Path, mode: int) -> None:
    """Neither written to, nor are boxes in it taken for ours."""
    spool = Spool(str(shared), "wk_site", 1 << 20)
    spool.append(LINE.encode())
    assert spool.box is not None
    folder = Path(spool.box.folder)
    spool.forget()
    folder.parent.chmod(mode)
    with pytest.raises(NotTrusted, match="may be written to by others"):
        spool.append(b"{}")
    with pytest.raises(NotTrusted):
        spool.adopt()
    folder.parent.chmod(0o700)
    assert spool.adopt() is not None


def test_a_spool_of_another_user_is_not_used(shared: Path, give_away: Callable[[Path], None]) -> None:
    """Somebody may have made the folder first, whose name follows from the write key, or put a link there."""
    spool = Spool(str(shared), "wk_site", 1 << 20)
    spool.append(LINE.encode())
    assert spool.box is not None
    folder = Path(spool.box.folder).parent
    spool.forget()
    target = folder.rename(shared / f"elsewhere-{time.monotonic_ns()}")
    folder.symlink_to(target)
    with pytest.raises(NotTrusted, match="is not a folder"):
        spool.append(b"{}")
    folder.unlink()
    folder.mkdir(0o700)
    give_away(folder)
    with pytest.raises(NotTrusted, match="belongs to another user"):
        spool.append(b"{}")
