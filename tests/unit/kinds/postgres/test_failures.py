"""What keeps a destination from writing is said in a sentence that tells what to do."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hookline.kinds.answers import ACCEPTED
from hookline.kinds.postgres.sink import open_sink
from hookline.kinds.sink import SinkContext, SinkFailed
from hookline.telemetry.crashpoints import ENVIRONMENT_NAME
from tests.postgres import PLAIN_USER, PostgresServer
from tests.unit.kinds.postgres.warehouse import Warehouse, event

SECRET_USER = "guarded"


@pytest.fixture
def guarded(warehouse: Warehouse) -> Iterator[Warehouse]:
    """A database to which one user comes with a password only."""
    server = warehouse.server
    rules = server.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"host all {SECRET_USER} 127.0.0.1/32 scram-sha-256\nhost all banned all reject\n{before}")
    server.admin(f"CREATE ROLE {SECRET_USER} LOGIN PASSWORD 'right'")
    server.admin(f"GRANT CREATE ON DATABASE {warehouse.name} TO {SECRET_USER}")
    server.admin("SELECT pg_reload_conf()")
    try:
        yield warehouse
    finally:
        rules.write_text(before)
        server.admin("SELECT pg_reload_conf()")
        warehouse.run(f"DROP OWNED BY {SECRET_USER}")
        server.admin(f"DROP ROLE {SECRET_USER}")


def refused(warehouse: Warehouse, **settings: Any) -> str:
    """Why nothing is written with these settings."""
    with pytest.raises(SinkFailed) as failure:
        warehouse.write(event(), **settings)
    return str(failure.value)


def test_a_password_is_needed_and_checked(guarded: Warehouse) -> None:
    """The right one is taken; the sentence about a wrong one does not contain it."""
    said = refused(guarded, user=SECRET_USER, password="wrong-one")
    assert f"refuses the password of the user {SECRET_USER}; correct the settings user and password" in said
    assert "wrong-one" not in said
    assert "refuses the password" in refused(guarded, user=SECRET_USER)
    assert guarded.write(event(), user=SECRET_USER, password="right") == [ACCEPTED]


@pytest.mark.parametrize("name", ["PGPASSWORD", "PGPASSFILE"])
def test_a_password_of_hooklines_own_user_is_for_nobody(
    guarded: Warehouse, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever names a server would else be sent it: the driver looks for one where none is given."""
    own = tmp_path / "pgpass"
    own.write_text("*:*:*:*:right\n")
    own.chmod(0o600)
    monkeypatch.setenv(name, {"PGPASSWORD": "right", "PGPASSFILE": str(own)}[name])
    assert "refuses the password" in refused(guarded, user=SECRET_USER)


def test_settings_that_lead_nowhere(guarded: Warehouse) -> None:
    """Each says which of them to correct."""
    assert "the database nowhere does not exist" in refused(guarded, database="nowhere")
    assert "add a line to its pg_hba.conf" in refused(guarded, user="banned")
    assert "does not speak TLS" in refused(guarded, sslMode="require")
    assert "cannot be resolved" in refused(guarded, host="nowhere.invalid")
    assert "no connection to 127.0.0.1:1; check that the server runs" in refused(guarded, port=1)


def test_an_address_that_may_not_be_contacted_is_not(warehouse: Warehouse) -> None:
    """Neither by name nor by number, and nobody is asked for a connection."""
    warehouse.allowed.clear()
    assert "127.0.0.1 is in a network that is not allowed" in refused(warehouse)
    assert "is in a network that is not allowed" in refused(warehouse, host="localhost")
    assert warehouse.tables() == set()


def test_a_name_is_connected_to_at_the_address_that_was_checked(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver does not look the name up again: here it would find nothing."""
    asked: list[object] = []

    def look_up(name: object, *_: object, **__: object) -> list[object]:
        asked.append(name)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", warehouse.server.port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert warehouse.write(event(), host="warehouse.invalid") == [ACCEPTED]
    assert asked == ["warehouse.invalid"]


def test_a_user_without_the_right_to_make_schemas(warehouse: Warehouse) -> None:
    """The sentence has the statement that grants it, and then it works."""
    warehouse.server.for_plain_role(warehouse.url)
    said = refused(warehouse, user=PLAIN_USER)
    assert f"GRANT CREATE ON DATABASE {warehouse.name} TO {PLAIN_USER}" in said
    warehouse.run(f"GRANT CREATE ON DATABASE {warehouse.name} TO {PLAIN_USER}")
    assert warehouse.write(event(), user=PLAIN_USER) == [ACCEPTED]


def test_a_user_who_may_not_change_the_tables(warehouse: Warehouse) -> None:
    """Rows that fit are written; for others the sentence says what is missing."""
    warehouse.server.for_plain_role(warehouse.url)
    warehouse.write(event(properties={"a": 1}))
    assert "GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE" in refused_after(
        warehouse, f"GRANT USAGE ON SCHEMA site TO {PLAIN_USER}"
    )
    warehouse.run(f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA site TO {PLAIN_USER}")
    assert warehouse.write(event(properties={"a": 2}), user=PLAIN_USER) == [ACCEPTED]
    with pytest.raises(SinkFailed, match=r"ALTER TABLE … OWNER TO plain"):
        warehouse.write(event(properties={"b": 2}), user=PLAIN_USER)


def refused_after(warehouse: Warehouse, statement: str) -> str:
    """Why a plain user cannot write the usual row after a statement."""
    warehouse.run(statement)
    with pytest.raises(SinkFailed) as failure:
        warehouse.write(event(properties={"a": 2}), user=PLAIN_USER)
    return str(failure.value)


def test_a_database_that_lacks_characters_is_refused(warehouse: Warehouse) -> None:
    """Before an event meets one of them."""
    server = warehouse.server
    server.admin("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    try:
        assert "has the encoding LATIN1" in refused(warehouse, database="latin")
    finally:
        server.admin("DROP DATABASE latin")


def test_a_database_that_only_reads_says_so(warehouse: Warehouse) -> None:
    """A standby answers like that."""
    warehouse.run(f"ALTER DATABASE {warehouse.name} SET default_transaction_read_only = on")
    assert "this server only reads; set host to the primary" in refused(warehouse)


def test_a_connection_that_was_cut_is_made_again(warehouse: Warehouse) -> None:
    """In the midst of use it costs one attempt; one that was quiet is looked at first."""
    with warehouse.open() as sink:
        sink.write([event()])
        cut(warehouse)
        with pytest.raises(SinkFailed, match=r"terminating connection|connection to the server was lost"):
            sink.write([event()])
        assert sink.write([event()]) == [ACCEPTED]
        cut(warehouse)
        sink._server._used -= 60
        assert sink.write([event()]) == [ACCEPTED]
    assert len(warehouse.rows("site.tracks")) == 3
    sink.close()


def cut(warehouse: Warehouse) -> None:
    """End the sink's session."""
    named = "application_name = 'hookline warehouse'"
    assert warehouse.server.admin(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {named}")


def test_somebody_who_locks_a_table_is_not_waited_for_without_end(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says whose fault it is."""
    from hookline.kinds.postgres import connection

    monkeypatch.setattr(
        connection, "BOUNDS", connection.BOUNDS.replace("lock_timeout = '10s'", "lock_timeout = '50ms'")
    )
    with warehouse.open() as sink:
        sink.write([event()])
        with psycopg.connect(warehouse.url) as other:
            other.execute("LOCK TABLE site.tracks IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(SinkFailed, match=r"somebody else holds a lock"):
                sink.write([event()])
        assert sink.write([event()]) == [ACCEPTED]


def test_a_server_that_stands_still_is_given_up(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """It closes nothing and answers nothing; the thread of the sink must not wait for ever."""
    from hookline.database.postgres import sessions

    monkeypatch.setattr(sessions, "QUIET_SECONDS", 0.3)
    own = PostgresServer(in_memory=True)
    still = Warehouse(own, own.url("postgres"), warehouse.folder)
    assert own.process is not None
    try:
        with still.open() as sink:
            sink.write([event()])
            ((pid,),) = own.admin("SELECT pid FROM pg_stat_activity WHERE application_name = 'hookline warehouse'")
            for each in (pid, own.process.pid):
                os.kill(each, signal.SIGSTOP)
            with pytest.raises(SinkFailed):
                sink.write([event()])
            for each in (own.process.pid, pid):
                os.kill(each, signal.SIGCONT)
            assert sink.write([event()]) == [ACCEPTED]
    finally:
        own.remove()


def test_without_the_driver_a_sentence_says_what_to_install(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra is not installed everywhere."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "hookline.kinds.postgres.sink.find_spec", lambda name: None if name == "psycopg" else find(name)
    )
    context = SinkContext("warehouse", warehouse.folder, lambda _: None, lambda *_: None)
    with pytest.raises(SinkFailed, match=r"pip install '\.\[postgres\]'"):
        open_sink(context, warehouse.settings())


PROGRAM = """
import sys
from pathlib import Path
from types import SimpleNamespace
from tests.unit.kinds.postgres.warehouse import Warehouse, event
warehouse = Warehouse(SimpleNamespace(port=int(sys.argv[1])), sys.argv[2], Path(sys.argv[3]))
with warehouse.open() as sink:
    for batch in range(4):
        events = [event(userId=f"u{number}", properties={"batch": batch}) for number in range(50)]
        events += [event("identify", userId=f"u{number}", traits={"batch": batch}) for number in range(50)]
        sink.write(events)
"""


@pytest.mark.parametrize("point", ["warehouse.before_commit:3", "warehouse.after_commit:3"])
def test_a_killed_process_repeats_what_it_had_without_a_trace(warehouse: Warehouse, point: str) -> None:
    """Killed just before and just after a commit, then run again with the same events: each row is there once."""
    arguments = [sys.executable, "-c", PROGRAM, str(warehouse.server.port), warehouse.url, str(warehouse.folder)]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    killed = subprocess.run(arguments, env={**environment, ENVIRONMENT_NAME: point}, timeout=120, check=False)
    assert killed.returncode == -9
    batches = 2 if point.startswith("warehouse.before") else 3
    assert len(warehouse.rows("site.tracks")) == 50 * batches
    before = warehouse.everything()
    subprocess.run(arguments, env=environment, timeout=120, check=True)
    after = warehouse.everything()
    assert len(after["tracks"]) == len(after["order_completed"]) == len(after["identifies"]) == 200
    for table in ("tracks", "order_completed", "identifies"):
        assert [row for row in after[table] if row in before[table]] == before[table]
    assert {row["batch"] for row in after["users"]} == {3}


def test_psycopg_is_imported_only_where_it_is_used() -> None:
    """Reading the kind, as every process that lists kinds does, needs no driver."""
    program = "import sys, hookline.kinds.postgres.sink as s; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
