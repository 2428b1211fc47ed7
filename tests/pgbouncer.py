"""A PgBouncer of the tests' own before a server of theirs, as it is installed, in a folder that goes with it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import psycopg

from hookline.bench.service import free_port
from tests.postgres import USER, PostgresServer

PROGRAM = os.environ.get("HOOKLINE_TEST_PGBOUNCER", "pgbouncer")
"""Another one may be tried in place of the installed one."""
START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 10.0


class PgBouncer:
    """A running pooler; what is not given is as PgBouncer has it itself. A context manager."""

    def __init__(self, server: PostgresServer, pool_mode: str = "session", **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hookline-pgbouncer-"))
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._user = USER if os.getuid() == 0 else None
        given = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": str(self.folder / "users"),
            "admin_users": "hookline",
            "pool_mode": pool_mode,
            **settings,
        }
        lines = [f"{name} = {value}" for name, value in given.items()]
        databases = f"[databases]\n* = host={server.folder} port={server.port}\n"
        (self.folder / "ini").write_text(f"{databases}[pgbouncer]\n" + "\n".join(lines) + "\n")
        (self.folder / "users").write_text('"hookline" ""\n"plain" ""\n')
        if self._user is not None:
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, pwd.getpwnam(self._user).pw_uid, -1)

    def __enter__(self) -> PgBouncer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Start it and wait until it answers."""
        program = shutil.which(PROGRAM) or shutil.which(PROGRAM, path="/usr/sbin")
        assert program is not None, "PgBouncer is not installed: sh scripts/test-needs.sh installs it"
        with (self.folder / "log").open("ab") as log:
            groups = [] if self._user is not None else None
            command = [program, str(self.folder / "ini")]
            self.process = subprocess.Popen(command, user=self._user, extra_groups=groups, stdout=log, stderr=log)
        end = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            assert time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, by force where it does not obey; idempotent."""
        if self.process is not None:
            self.process.send_signal(how)
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def url(self, database_url: str, user: str = "hookline") -> str:
        """The way by the pooler to the database that a URL of the server leads to."""
        name = psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]
        return f"postgresql://{user}@127.0.0.1:{self.port}/{quote(str(name))}"

    def tell(self, command: str) -> None:
        """Give a command at its console, such as PAUSE."""
        with psycopg.connect(f"postgresql://hookline@127.0.0.1:{self.port}/pgbouncer", autocommit=True) as console:
            console.execute(command.encode())

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            self.tell("SHOW VERSION")
        except psycopg.OperationalError:
            return False
        return True
