"""Which database a data folder has, and what happens when the settings name another one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from hookline.database.installation import verify_installation, wait_for_database, wait_for_version
from hookline.database.location import NOTE_FILE, Schema
from hookline.database.migrate import HEADS
from hookline.database.open import ensure
from hookline.database.sqlite import DatabaseUnusable
from hookline.settings import Database, Journal, Settings
from tests.postgres import PostgresServer

AWAY = "postgresql://hookline@127.0.0.1:1/hookline"


@pytest.fixture
def urls(postgres: PostgresServer) -> Iterator[list[str]]:
    """Two empty databases."""
    with ExitStack() as stack:
        yield [stack.enter_context(postgres.database()) for _ in range(2)]


def settings_of(folder: Path, url: str, journal: str = "local") -> Settings:
    """Settings of a data folder with this database."""
    folder.mkdir(exist_ok=True)
    return Settings(data_dir=str(folder), database=Database(url=url), journal=Journal(url=journal))


def begin(settings: Settings) -> None:
    """What a role does first."""
    verify_installation(settings)
    asyncio.run(wait_for_database(settings, asyncio.Event()))


def test_files_leave_no_note(tmp_path: Path) -> None:
    """By default nothing is noted or asked."""
    begin(settings_of(tmp_path, "local"))
    assert not (tmp_path / NOTE_FILE).exists()


def test_who_would_write_to_newer_tables_stands_by(tmp_path: Path, postgres: PostgresServer) -> None:
    """It goes on by itself once the tables are those it knows, and no other role is held up."""
    with postgres.database() as url:
        settings = settings_of(tmp_path, url)
        begin(settings)
        ensure(Schema(url, "deliver"), "deliver")
        put = "UPDATE hookline_deliver.alembic_version SET version_num = 'deliver_00{}'"
        postgres.run(url, put.format(99))

        async def waits() -> None:
            waiting = asyncio.create_task(wait_for_version(settings, "deliver", asyncio.Event()))
            await wait_for_version(settings, "profiles", asyncio.Event())
            await asyncio.to_thread(lambda: None)
            assert not waiting.done()
            postgres.run(url, put.format(f"{HEADS['deliver']:02}"))
            await waiting

        asyncio.run(waits())


def test_roles_that_start_together_make_their_schemas(tmp_path: Path, postgres: PostgresServer) -> None:
    """Each makes its own at the same moment, and what they note together is there already."""
    with postgres.database() as url:
        begin(settings_of(tmp_path, url))
        assert postgres.run(url, "SELECT name FROM hookline.parts") == []
        with ThreadPoolExecutor(len(HEADS)) as together:
            list(together.map(lambda which: ensure(Schema(url, which), which), HEADS))
        assert {name for (name,) in postgres.run(url, "SELECT name FROM hookline.parts")} == set(HEADS)


def test_a_folder_comes_back_to_its_database(tmp_path: Path, urls: list[str]) -> None:
    """As often as it likes, by whatever name the server has."""
    begin(settings_of(tmp_path, urls[0]))
    begin(settings_of(tmp_path, urls[0] + "&application_name=other"))


def test_a_folder_goes_neither_to_another_database_nor_to_files(tmp_path: Path, urls: list[str]) -> None:
    """It would begin anew there, and deliver everything again."""
    begin(settings_of(tmp_path, urls[0]))
    with pytest.raises(DatabaseUnusable, match=r"test_\d+ at .* is not the one"):
        begin(settings_of(tmp_path, urls[1]))
    with pytest.raises(DatabaseUnusable, match=r"set database\.url"):
        begin(settings_of(tmp_path, "local"))


def test_a_folder_with_files_does_not_go_to_postgresql(tmp_path: Path) -> None:
    """What is in them would be left behind; no server is asked."""
    ensure(tmp_path / "deliver.db", "deliver")
    with pytest.raises(DatabaseUnusable, match="hookline migrate-to"):
        verify_installation(settings_of(tmp_path, AWAY))


def test_a_database_stays_with_its_local_journal(tmp_path: Path, urls: list[str]) -> None:
    """Its places mean nothing in the journal of another folder."""
    begin(settings_of(tmp_path / "a", urls[0]))
    with pytest.raises(DatabaseUnusable, match="belongs to another journal"):
        begin(settings_of(tmp_path / "b", urls[0]))


def test_folders_share_a_database_beside_one_topic(tmp_path: Path, urls: list[str]) -> None:
    """On Kafka several machines have the same journal; another topic is another one."""
    begin(settings_of(tmp_path / "a", urls[0], "kafka://a:9092/events"))
    begin(settings_of(tmp_path / "b", urls[0], "kafka://b:9092/events"))
    with pytest.raises(DatabaseUnusable, match="topic events"):
        begin(settings_of(tmp_path / "c", urls[0], "kafka://a:9092/others"))


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the PostgreSQL client the sentence says what to install."""
    monkeypatch.setattr("hookline.database.installation.find_spec", lambda name: None)
    with pytest.raises(DatabaseUnusable, match=r"pip install '\.\[postgres\]'"):
        verify_installation(settings_of(tmp_path, AWAY))


def test_a_url_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """At once, by what is wrong with it."""
    with pytest.raises(DatabaseUnusable, match="nosuchoption"):
        verify_installation(settings_of(tmp_path, AWAY + "?nosuchoption=1"))


@pytest.mark.parametrize("url", ["me:geheim@[::1x/hookline", "me:geheim%zz@db/hookline", "db/h?password=geheim%zz"])
def test_a_password_is_not_told(tmp_path: Path, url: str) -> None:
    """Also where the client library quotes what it cannot read."""
    with pytest.raises(DatabaseUnusable, match="cannot be read") as refused:
        verify_installation(settings_of(tmp_path, f"postgresql://{url}"))
    assert "geheim" not in str(refused.value)


def test_without_a_server_it_is_waited_for(tmp_path: Path) -> None:
    """Until told to stop."""

    async def wait() -> bool:
        stop = asyncio.Event()
        waiting = asyncio.create_task(wait_for_database(settings_of(tmp_path, AWAY), stop))
        done, _ = await asyncio.wait([waiting], timeout=0.5)
        stop.set()
        await waiting
        return not done

    assert asyncio.run(wait())


def test_a_database_from_before_turns_had_epochs_gets_a_place_for_them(
    tmp_path: Path, postgres: PostgresServer, urls: list[str]
) -> None:
    """The first role of a newer version that meets it makes the table."""
    begin(settings_of(tmp_path, urls[0]))
    postgres.run(urls[0], "DROP TABLE hookline.turns")
    begin(settings_of(tmp_path, urls[0]))
    assert postgres.run(urls[0], "SELECT count(*) FROM hookline.turns") == [(0,)]
