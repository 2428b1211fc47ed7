"""A role whose turn was taken over while it stood still writes nothing when it goes on: it says so and stands by."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
from psycopg.errors import DeadlockDetected

from tests.postgres import PostgresServer
from tests.service.client import Answer
from tests.service.harness import Hookline, Receiver, free_port, is_ready, wait_until, webhook
from tests.service.profiles.test_audience import audience, traits_sent

ORDERS = 400
END_THE_TURN = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hookline {} turn'"
NOTE_WHO_WRITES = """
CREATE TABLE IF NOT EXISTS public.writes (writer TEXT, written TEXT);
CREATE OR REPLACE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO public.writes VALUES (current_setting('application_name'), TG_TABLE_NAME); RETURN NULL; END $$;
DO $$ DECLARE name TEXT; BEGIN
  FOR name IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = ANY ('{SCHEMAS}') LOOP
    EXECUTE 'CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON ' || name || ' EXECUTE FUNCTION public.note()';
  END LOOP; END $$
"""


@contextmanager
def second(hookline: Hookline, role: str) -> Iterator[int]:
    """Another process of a role, as on a machine that has the same journal; the server knows it by that name. Gives the
    port where it is asked."""
    folder, port = hookline.folder / f"second-{free_port()}", free_port()
    (folder / "run").mkdir(parents=True)
    for name in ("journal", "run/collect.sock"):
        (folder / name).symlink_to(hookline.data / name)
    for name in ("database", "admin-token"):
        shutil.copy(hookline.data / name, folder / name)
    settings = {
        "HOOKLINE_DATA_DIR": str(folder),
        "HOOKLINE_DATABASE_URL": hookline.settings["database.url"] + "&application_name=second",
        "HOOKLINE_CONTROL_LISTEN": f"127.0.0.1:{port}",
    }
    command = [sys.executable, "-m", "hookline.cli.main", role, "--config", str(hookline.folder / "hookline.yaml")]
    with (
        (hookline.folder / "log").open("ab") as log,
        subprocess.Popen(command, env={**os.environ, **settings}, stdout=log, stderr=log) as process,
    ):
        try:
            yield port
        finally:
            process.kill()


@pytest.fixture
def writers(server: PostgresServer, database_url: str) -> Callable[[], set[tuple[str, str]]]:
    """Answers with who wrote to which tables, since it was asked last."""

    def asked() -> set[tuple[str, str]]:
        return set(server.run(database_url, "DELETE FROM public.writes RETURNING writer, written"))

    return asked


def note_who_writes(server: PostgresServer, url: str, schemas: str) -> None:
    """From now on, in the tables of these schemas. The service works on them, and may hold one and want another."""
    while True:
        with suppress(DeadlockDetected):
            server.run(url, NOTE_WHO_WRITES.replace("SCHEMAS", schemas))
            return


def resume(hookline: Hookline, pid: int, role: str) -> None:
    """Let it go on, and wait until it has ended and stands by as a new process."""
    stood_by = hookline.log.count('"standing_by"')
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: pid not in hookline.members(), what="it has ended")
    wait_until(lambda: hookline.log.count('"standing_by"') > stood_by, what="it stands by")
    assert hookline.role(role)


def test_profiles_that_stood_still_write_nothing(
    on_postgres: Callable[..., Hookline],
    receiver: Receiver,
    server: PostgresServer,
    database_url: str,
    writers: Callable[[], set[tuple[str, str]]],
) -> None:
    """What was read meanwhile is not read again, and the place is never set back."""
    hookline = on_postgres(webhook("crm", receiver.url()))
    hookline.definitions = {"audiences": [audience("buyers", {"event": "Order"})]}
    with hookline:
        hookline.track("Order", userId="u")
        wait_until(lambda: "u" in traits_sent(receiver), what="profiles are at work")
        note_who_writes(server, database_url, "hookline_profiles")
        place = "SELECT sum(next_offset) FROM hookline_profiles.places"
        old = hookline.role("profiles")
        os.kill(old, signal.SIGSTOP)
        ((before,),) = server.run(database_url, place)
        batch = [{"type": "track", "event": "Order", "userId": "u"}] * ORDERS
        assert hookline.post("/v1/batch", {"batch": batch}).status == 200
        with second(hookline, "profiles"):
            server.run(database_url, END_THE_TURN.format("profiles"))
            wait_until(lambda: server.run(database_url, place)[0][0] >= before + ORDERS, what="it is taken over")
            writers()
            resume(hookline, old, "profiles")
            assert {writer for writer, _ in writers()} <= {"second"}
        hookline.track("Order", userId="after")
        wait_until(lambda: "after" in traits_sent(receiver), what="the first has it again")
    assert "turn_lost" in hookline.log


def test_a_control_that_stood_still_writes_nothing(
    on_postgres: Callable[..., Hookline],
    receiver: Receiver,
    server: PostgresServer,
    database_url: str,
    writers: Callable[[], set[tuple[str, str]]],
) -> None:
    """A change that is asked of it is refused, and not made beside those of the one that has its turn."""
    with on_postgres(webhook("crm", receiver.url())) as hookline, ThreadPoolExecutor() as threads:
        note_who_writes(server, database_url, "hookline_control, hookline_privacy")

        def suppress() -> Answer | None:
            try:
                return hookline.api("POST", "deletion-requests", {"userId": "u", "action": "suppress"})
            except OSError:  # it ended before it answered
                return None

        old = hookline.role("control")
        os.kill(old, signal.SIGSTOP)
        asked = threads.submit(suppress)
        with second(hookline, "control") as port:
            server.run(database_url, END_THE_TURN.format("control"))
            wait_until(lambda: is_ready(port), what="it is taken over")
            writers()
            resume(hookline, old, "control")
            assert {writer for writer, _ in writers()} <= {"second"}
            answer = asked.result()
            assert answer is None or answer.status == 503
        hookline.wait_ready()
        assert hookline.api("GET", "deletion-requests").json["items"] == []
    assert "turn_lost" in hookline.log
