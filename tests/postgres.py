"""A PostgreSQL server of the tests' own: as it is installed on this machine, in a folder that goes with it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import psycopg

from hookline.bench.service import free_port
from hookline.database.location import Schema, Which
from hookline.database.open import ensure

USER = "postgres"
"""Who runs the server when root runs the tests: the server refuses to be root's."""
OWNER = "hookline"
"""Of all databases; a superuser."""
PLAIN_USER = "plain"
"""Of the service, where rights are taken away: an administrator has all of them always."""
TEMPLATE = "hookline_template"
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 1 << 30
"""More than the server of a test run ever has there; a container may have less."""
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30
SETTINGS = {
    "fsync": "off",  # tests kill processes, whose writes outlive them; none of them cuts a server's power
    "shared_buffers": "32MB",
    "max_connections": "60",
    "max_wal_size": "256MB",
    "min_wal_size": "32MB",
    "autovacuum": "off",
    "password_encryption": "scram-sha-256",
    "log_min_messages": "fatal",
}


class PostgresServer:
    """A running server; each test gets databases of its own in it."""

    folder: Path

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        in_memory: bool = False,
        primary: PostgresServer | None = None,
    ) -> None:
        """``settings`` of the server take the place of the tests' own, or stand beside them.

        ``in_memory``: its files are in memory where there is room, for who makes many databases and cuts no power. On a
        disk each of them is seven hundred files and takes ten times as long to make.
        """
        self._bin = _programs()
        self._settings = {**SETTINGS, **(settings or {})}
        # Beside pytest's folders, which only their owner may enter.
        parent = MEMORY if in_memory and _has_room(MEMORY) else None
        if primary is not None:  # on its disk, so that either one's data can take the other's place
            parent = primary.folder.parent
        self.folder = Path(tempfile.mkdtemp(prefix="hookline-postgres-", dir=parent))
        self._user = USER if os.getuid() == 0 else None
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self._count = 0
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        if primary is None:
            self._run("initdb", "--no-sync", "--auth=trust", f"--username={OWNER}", "--encoding=UTF8", "--no-locale")
        else:
            address = ("-h", str(primary.folder), "-p", str(primary.port), "-U", OWNER)
            self._run("pg_basebackup", *address, "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        given = [f"--{name}={value}" for name, value in self._settings.items()]
        address = [f"--unix_socket_directories={self.folder}", "--listen_addresses=127.0.0.1", f"--port={self.port}"]
        command = [str(self._bin / "postgres"), "-D", str(self.folder / "data"), *given, *address]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, user=self._user, stdout=log, stderr=log, extra_groups=self._groups)
        end = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            assert time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT ends its sessions first, SIGQUIT is as a crash."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(STOP_SECONDS_MAX)
            self.process = None

    def replica(self) -> PostgresServer:
        """A standby that follows this server, made from a copy of it."""
        assert self.process is not None
        return PostgresServer(self._settings, primary=self)

    def stand_still(self) -> None:
        """As a standby: take nothing more from the primary."""
        self.admin("ALTER SYSTEM SET primary_conninfo = ''")
        self.admin("SELECT pg_reload_conf()")
        end = time.monotonic() + START_SECONDS_MAX
        while self.admin("SELECT 1 FROM pg_stat_wal_receiver"):
            assert time.monotonic() < end, "the standby still follows"
            time.sleep(0.02)

    def promote(self) -> None:
        """As a standby: be the primary from now on."""
        assert self.admin("SELECT pg_promote()") == [(True,)]

    def remove(self) -> None:
        """Stop it and leave nothing behind."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder)

    def url(self, database: str) -> str:
        """Where a database is, by the socket."""
        return f"postgresql://{OWNER}@/{database}?host={quote(str(self.folder), safe='')}&port={self.port}"

    def plain_url(self, database: str) -> str:
        """The URL of a database for a user who is not the server's administrator, and may make schemas in it."""
        self._make_plain_user()
        self.admin(f"GRANT CREATE ON DATABASE {database} TO {PLAIN_USER}")
        return self.url(database).replace(f"//{OWNER}@", f"//{PLAIN_USER}@")

    @contextmanager
    def database(self, template: str = "template0") -> Iterator[str]:
        """The URL of a new database, which goes afterwards."""
        self._count += 1
        name = f"test_{self._count}"
        # Copying takes a checkpoint before, which costs nothing in memory, and a third less work than logging pages.
        strategy = "FILE_COPY" if self.folder.parent == MEMORY else "WAL_LOG"
        self.admin(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY {strategy}")
        try:
            yield self.url(name)
        finally:  # its connections go with it
            self.admin(f"DROP DATABASE {name} WITH (FORCE)")

    def make_template(self) -> None:
        """A database that has all schemas, to make others from."""
        # In a language whose order of letters is not that of bytes: ours must not depend on it.
        self.admin(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de'")
        for which in get_args(Which):
            ensure(Schema(self.url(TEMPLATE), which), which)

    def admin(self, statement: str) -> list[Any]:
        """Run a statement in the server's own database."""
        return self.run(self.url("postgres"), statement)

    def run(self, url: str, statement: str) -> list[Any]:
        """Run a statement in a database."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET statement_timeout = 0")
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []

    def dump(self, url: str) -> str:
        """What is in a database, as statements that ``run`` takes: nothing for psql alone is among them."""
        options = ["--inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges"]
        done = subprocess.run(
            [str(self._bin / "pg_dump"), *options, url], capture_output=True, text=True, check=True, timeout=60
        )
        return "".join(line for line in done.stdout.splitlines(keepends=True) if not line.startswith("\\"))

    def _make_plain_user(self) -> None:
        if not self.admin(f"SELECT 1 FROM pg_roles WHERE rolname = '{PLAIN_USER}'"):
            self.admin(f"CREATE ROLE {PLAIN_USER} LOGIN")

    def for_plain_role(self, url: str) -> str:
        """The URL by which an ordinary role comes to a database, in which it may do nothing yet."""
        name = url.partition("?")[0].rpartition("/")[2]
        self._make_plain_user()
        self.admin(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
        self.admin(f"GRANT CONNECT ON DATABASE {name} TO {PLAIN_USER}")
        return url.replace(f"//{OWNER}@", f"//{PLAIN_USER}@")

    @property
    def _groups(self) -> list[int] | None:
        return [] if self._user is not None else None

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            return bool(self.admin("SELECT 1"))
        except psycopg.OperationalError:
            return False

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._bin / program), "-D", str(self.folder / "data"), *arguments]
        done = subprocess.run(
            command, user=self._user, extra_groups=self._groups, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def _has_room(folder: Path) -> bool:
    return folder.is_dir() and shutil.disk_usage(folder).free >= MEMORY_BYTES_MIN


def _programs() -> Path:
    """The folder of the newest server that is installed: Debian keeps it out of PATH."""
    places = [Path("/usr/lib/postgresql"), Path("/usr/local/lib/postgresql")]
    found = [path for place in places for path in place.glob("*/bin/postgres")]
    if found:
        return max(found, key=lambda path: float(path.parent.parent.name)).parent
    in_path = shutil.which("postgres")
    assert in_path is not None, "PostgreSQL is not installed: sh scripts/test-needs.sh installs it"
    return Path(in_path).resolve().parent
