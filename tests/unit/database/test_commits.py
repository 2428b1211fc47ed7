"""What a data folder knows of its last commits, in files and in PostgreSQL: one that is gone is noticed."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from hookline.app import notify_of_changes
from hookline.database import commits as module
from hookline.database.commits import FILE, Commits, DatabaseWentBack, Highest, commits_of, found_behind
from hookline.database.connect import connect
from hookline.database.location import Which, location_of
from hookline.database.open import count_commits, ensure
from hookline.database.postgres.installation import verify_installation
from hookline.journal.local.disk import PAGE_BYTES
from hookline.journal.reading import CHANGES, listen_for_wakes, take_wakes
from hookline.settings import Database, Settings
from tests.postgres import PostgresServer
from tests.unit.journal.conftest import BadPages, bad_pages

__all__ = ["bad_pages"]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Each test is a process of its own."""
    module._commits.clear()
    yield
    module._commits.clear()


@pytest.fixture(params=["files", "postgresql"])
def settings(request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresServer) -> Iterator[Settings]:
    """An installation with counted commits to the control database."""
    if request.param == "files":
        yield Settings(data_dir=str(tmp_path))
        return
    with postgres.database() as url:
        made = Settings(data_dir=str(tmp_path), database=Database(url=url))
        verify_installation(made)
        yield made


def begin(settings: Settings) -> Commits:
    """As a process that starts."""
    module._commits.clear()
    count_commits(settings, "control")
    commits = commits_of(location_of(settings, "control"))
    assert commits is not None
    return commits


def write(settings: Settings) -> None:
    """Commit something."""
    with closing(connect(location_of(settings, "control"))) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO replay_changes (id, next) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET next = 2"
        )
        connection.execute("COMMIT")


def go_back(settings: Settings, before: Path) -> None:
    """Have the database be as it was before the last two commits; of a file there is a copy."""
    if settings.database.url == "local":
        for suffix in ("-wal", "-shm"):
            (settings.data_path / f"control.db{suffix}").unlink(missing_ok=True)
        shutil.copy(before, settings.data_path / "control.db")
    else:
        with psycopg.connect(settings.database.url, autocommit=True) as session:
            session.execute("UPDATE hookline.commits SET number = number - 2")


def told(settings: Settings) -> list[tuple[str, int]]:
    """Which databases people are told of, and how many commits each lacks."""
    return [(each.which, each.commits) for each in found_behind(settings.data_path, time.time())]


@pytest.fixture
def before(settings: Settings, tmp_path: Path) -> Path:
    """One commit was made, of which there is a copy, and then two more."""
    begin(settings)
    write(settings)
    copy = tmp_path / "before.db"
    if settings.database.url == "local":
        shutil.copy(settings.data_path / "control.db", copy)
    write(settings)
    write(settings)
    return copy


def test_nothing_is_told_while_nothing_is_missing(settings: Settings, before: Path) -> None:
    """Processes that follow each other go on counting."""
    assert begin(settings).known == 3
    write(settings)
    assert begin(settings).known == 4
    assert told(settings) == []


def test_a_commit_that_is_gone_is_told_once_at_the_next_start(settings: Settings, before: Path) -> None:
    """With how many are gone; then all goes on from where the database is."""
    go_back(settings, before)
    begin(settings)
    assert told(settings) == [("control", 2)]
    shutil.rmtree(settings.data_path / "run")
    write(settings)
    assert begin(settings).known == 2
    assert told(settings) == []


@pytest.mark.parametrize("what", [b"", bytes(320), b"x" * 320])
def test_a_file_that_cannot_be_read_knows_nothing(settings: Settings, before: Path, what: bytes) -> None:
    """It is written anew, and nobody is alarmed."""
    (settings.data_path / FILE).write_bytes(what)
    begin(settings)
    write(settings)
    assert told(settings) == []
    assert begin(settings).known in (4, 1)  # of a schema it forgot under which name it counted


def test_a_file_on_a_bad_sector_knows_nothing(settings: Settings, before: Path, bad_pages: BadPages) -> None:
    """To map it ended each role as often as it was started. It is written as a whole, which a disk may take."""
    bad_pages.add(settings.data_path / FILE)
    begin(settings)
    bad_pages.mend()
    assert told(settings) == []
    assert (settings.data_path / FILE).read_bytes()[64:] == bytes(PAGE_BYTES - 64)
    write(settings)
    assert begin(settings).known in (4, 1)


def test_each_commit_is_notified_once_it_is_there(settings: Settings) -> None:
    """Whoever is told finds it; what is not changed is not told."""
    seen: list[int] = []
    commits = begin(settings)
    commits.on_done = lambda: seen.append(commits.known)
    write(settings)
    write(settings)
    assert seen == [commits.known - 1, commits.known]


def test_control_tells_the_roles_beside_it_of_its_commits(settings: Settings) -> None:
    """Of files; on PostgreSQL there are others who write, so everybody looks by themselves."""
    (settings.data_path / "run").mkdir()
    listening = [listen_for_wakes(settings.socket_path(f"{role}.wake")) for role in ("collect", "deliver")]
    begin(settings)
    notify_of_changes(settings)
    assert [take_wakes(each) for each in listening] == [set(), set()]
    write(settings)
    told = {CHANGES} if settings.database.is_local else set()
    assert [take_wakes(each) for each in listening] == [told, told]
    for each in listening:
        each.close()
    write(settings)  # nobody needs to be there


def test_numbers_that_were_given_away_are_kept(settings: Settings) -> None:
    """Whatever becomes of the database."""
    begin(settings).give_away(version=7, lane=3)
    begin(settings).give_away(version=5, action=9)
    assert begin(settings).highest == Highest(version=7, lane=3, action=9)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The signals by which this process is told to end."""
    heard: list[int] = []
    kept = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    yield heard
    signal.signal(signal.SIGTERM, kept)


@pytest.mark.parametrize("settings", ["postgresql"], indirect=True)
def test_a_running_process_writes_nothing_more_and_ends(settings: Settings, before: Path, ended: list[int]) -> None:
    """The transaction that finds it is undone, and so is each later one, but for what is true whatever was lost."""
    commits = begin(settings)
    connection = connect(location_of(settings, "control"))
    connection.execute("SELECT 1")
    go_back(settings, before)
    for _ in range(2):
        with pytest.raises(DatabaseWentBack):
            connection.execute("UPDATE replay_changes SET next = 9")
    assert connection.execute("SELECT next FROM replay_changes").fetchall() == [(2,)]
    commits.go_on_behind()
    connection.execute("UPDATE replay_changes SET next = 9")
    connection.close()
    assert (ended, told(settings)) == ([signal.SIGTERM], [("control", 2)])
    assert begin(settings).known == 2


@pytest.mark.parametrize("settings", ["postgresql"], indirect=True)
def test_a_disk_that_takes_no_note_of_it_keeps_no_process_alive(
    settings: Settings, before: Path, ended: list[int]
) -> None:
    """End a role that can write nothing any more; it went on, and the next one did not start."""
    begin(settings)
    (settings.data_path / "run").write_bytes(b"in the way")
    connection = connect(location_of(settings, "control"))
    connection.execute("SELECT 1")
    go_back(settings, before)
    with closing(connection), pytest.raises(DatabaseWentBack):
        connection.execute("UPDATE replay_changes SET next = 9")
    assert ended == [signal.SIGTERM]
    go_back(settings, before)
    assert begin(settings).known == 0


@pytest.mark.parametrize("settings", ["postgresql"], indirect=True)
def test_the_first_connection_after_an_outage_finds_it(settings: Settings, before: Path, ended: list[int]) -> None:
    """Also where nothing is to be written, and in whatever schema it reads."""
    ensure(location_of(settings, "deliver"), "deliver")
    go_back(settings, before)
    connection = connect(location_of(settings, "deliver"), read_only=True)
    with closing(connection), pytest.raises(DatabaseWentBack):
        connection.execute("SELECT 1")
    assert ended == [signal.SIGTERM]


@pytest.mark.parametrize("settings", ["postgresql"], indirect=True)
def test_what_must_last_asks_for_it_by_name(settings: Settings) -> None:
    """The default of a database may be to confirm what a crash takes back."""
    ensure(location_of(settings, "control"), "control")
    with psycopg.connect(settings.database.url, autocommit=True) as session:
        session.execute(f"ALTER DATABASE {session.info.dbname} SET synchronous_commit = off")
    with closing(connect(location_of(settings, "control"))) as connection:
        assert connection.execute("SELECT current_setting('synchronous_commit')").fetchall() == [("on",)]


LATER_MS = 2**41
"""When the machine is started again."""


@pytest.mark.parametrize(
    ("which", "lost", "booted_ms", "is_told"),
    [
        ("deliver", 3, LATER_MS, False),
        ("deliver", 3, 0, True),
        ("deliver", 99, LATER_MS, True),
        ("control", 3, LATER_MS, True),
    ],
)
def test_what_a_power_cut_may_take_is_no_going_back(
    tmp_path: Path, which: Which, lost: int, booted_ms: int, is_told: bool
) -> None:
    """The last moment of a file that promises no more, gone with the machine, is told to nobody; all else is."""
    Commits(tmp_path, which, is_shared=False).done(200)
    Commits(tmp_path, which, is_shared=False, booted_ms=booted_ms).begin(200 - lost)
    assert [each.commits for each in found_behind(tmp_path, time.time())] == [lost] * is_told
