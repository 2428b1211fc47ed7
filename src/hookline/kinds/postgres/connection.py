"""The connection of a destination to its server, and its errors in sentences that say what to do.

Connects to addresses that were looked up and allowed before, and to nothing else; the name is for TLS alone. Whatever
waits for the server has a bound, also where the server stands still.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from hookline.kinds.model import Json
from hookline.kinds.postgres.bounded import AnswerTooLarge, BoundedConnection
from hookline.kinds.sink import SinkAway, SinkContext, SinkFailed

CONNECT_SECONDS_MAX = 5
SILENCE_MS_MAX = 10_000
IDLE_SECONDS_MAX = 5.0
"""A connection that was quiet for longer is asked something before it is relied on."""
ADDRESSES_MAX = 4
ERROR_CHARACTERS_MAX = 300
NAME_CHARACTERS_MAX = 63
ENCODING = "UTF8"
KNOWN_AUTHORITIES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
NOWHERE = "/dev/null/none"
"""A file that there never is. libpq reads some by itself: passwords and certificates of the user that Hookline runs as,
which are for nobody whom a destination names."""
BOUNDS = (
    "SET LOCAL statement_timeout = '60s'; SET LOCAL lock_timeout = '10s'; SET LOCAL timezone = 'UTC';"
    " SET LOCAL datestyle = 'ISO'; SET LOCAL idle_in_transaction_session_timeout = '60s'; SET LOCAL search_path ="
    " pg_catalog"
)
"""Of a transaction and not of the session, which a pooler may give to somebody else."""


class Server:
    """The server of one destination; connects when it is needed, and keeps the connection."""

    def __init__(self, context: SinkContext, settings: Mapping[str, Json]) -> None:
        self._context = context
        self._settings = settings
        self._connection: BoundedConnection | None = None
        self._used = 0.0

    @property
    def user(self) -> str:
        """Return the name of the user."""
        return str(self._settings["user"])

    @property
    def database(self) -> str:
        """Return the name of the database."""
        return str(self._settings["database"])

    def connection(self) -> BoundedConnection:
        """Return the connection; raise SinkFailed where there can be none."""
        kept = self._connection
        if kept is not None and (kept.closed or kept.is_worn or not self._answers(kept)):
            self.close()
        if self._connection is None:
            self._connection = self._connect()
        self._used = monotonic()
        return self._connection

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def failure(self, error: psycopg.Error) -> SinkFailed:
        """Return an error of a statement as a sentence."""
        if isinstance(error, AnswerTooLarge):
            return SinkFailed(self._too_large(error))
        said = _first_line(error)
        reason = _REASONS.get(type(error))
        if reason is None and isinstance(error, psycopg.errors.InsufficientPrivilege):
            reason = f"the user {self.user} lacks a right; run {self._grants(said)} as an administrator"
        elif reason is None and isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
            reason = "the connection to the server was lost; it is made again"
        return SinkFailed(f"{reason} ({said})" if reason else f"the server refused to write: {said}")

    def _too_large(self, error: AnswerTooLarge) -> str:
        where = f"{self._settings['host']}:{self._settings['port']}"
        said = str(error).partition("\n")[0]  # what follows says it for each address
        return (
            f"{where} {said}, so the connection was closed; correct the settings host and port, and with sslMode"
            " verify-full nobody else can answer there"
        )

    def _grants(self, said: str) -> str:
        if "for database" in said:
            return f"GRANT CREATE ON DATABASE {self.database} TO {self.user}"
        if "for schema" in said:
            return f"GRANT USAGE, CREATE ON SCHEMA … TO {self.user}, or make the user its owner"
        if "must be owner" in said:
            return f"ALTER TABLE … OWNER TO {self.user}"
        return f"GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE … TO {self.user}"

    def _answers(self, connection: BoundedConnection) -> bool:
        if monotonic() - self._used < IDLE_SECONDS_MAX:
            return True
        try:
            connection.execute("SELECT 1", prepare=False)
        except psycopg.Error:
            return False
        return True

    def _connect(self) -> BoundedConnection:
        host, port = str(self._settings["host"]), int(self._settings["port"])
        addresses = self._context.addresses(host, port)[:ADDRESSES_MAX]
        given: dict[str, Any] = {
            "host": ",".join([host] * len(addresses)),
            "hostaddr": ",".join(addresses),
            "port": port,
            "dbname": self.database,
            "user": self.user,
            "password": str(self._settings.get("password") or ""),
            "passfile": NOWHERE,
            "sslmode": self._settings["sslMode"],
            "sslcert": NOWHERE,
            "sslkey": NOWHERE,
            "options": "",
            "gssencmode": "disable",
            "connect_timeout": CONNECT_SECONDS_MAX,
            "tcp_user_timeout": SILENCE_MS_MAX,
            "keepalives_idle": SILENCE_MS_MAX // 1000,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "application_name": f"hookline {self._context.destination}"[:63],
            "client_encoding": ENCODING,
        }
        if self._settings["sslMode"] == "verify-full":
            given["sslrootcert"] = self._authorities()
        try:
            made = BoundedConnection.open(make_conninfo(**given), prepare_threshold=None)
        except psycopg.Error as error:
            raise SinkAway(self._refused(error, host, port)) from None
        encoding = made.info.parameter_status("server_encoding")
        if encoding not in (None, ENCODING):
            made.close()
            known = encoding[:NAME_CHARACTERS_MAX]
            raise SinkFailed(
                f"the database {self.database} has the encoding {known}, and events may have any character: make"
                f" another one, createdb --encoding=UTF8 --template=template0"
            )
        return made

    def _authorities(self) -> str:
        """Return the file of the authorities that may vouch for the server."""
        own = self._settings.get("caCertificate")
        if own:
            self._context.folder.mkdir(parents=True, exist_ok=True)
            path = self._context.folder / "authority.pem"
            path.write_text(str(own))
            return str(path)
        usual = ssl.get_default_verify_paths().cafile
        found = [path for path in (usual, *KNOWN_AUTHORITIES) if path is not None and Path(path).is_file()]
        return found[0] if found else "system"

    def _refused(self, error: psycopg.Error, host: str, port: int) -> str:
        """Return why no connection could be made. The server's words are all there is: these errors have no code."""
        if isinstance(error, AnswerTooLarge):
            return self._too_large(error)
        said = _first_line(error)
        where = f"{host}:{port}"
        if "password authentication failed" in said or "no password supplied" in said:
            return f"{where} refuses the password of the user {self.user}; correct the settings user and password"
        if "does not exist" in said and f'database "{self.database}"' in said:
            return f"the database {self.database} does not exist at {where}; create it, or correct the setting database"
        if "does not support SSL" in said:
            return f"{where} does not speak TLS; enable it there, or set sslMode to disable in a network you trust"
        if "certificate" in said:
            return (
                f"the certificate of {where} is not trusted; give caCertificate, or correct the setting host ({said})"
            )
        if "pg_hba.conf" in said:
            return f"{where} lets {self.user} not come from here; add a line to its pg_hba.conf ({said})"
        if "permission denied for database" in said:
            return f"the user {self.user} may not connect; run GRANT CONNECT ON DATABASE {self.database} TO {self.user}"
        if "too many" in said or "remaining connection slots" in said:
            return f"{where} has no connection left; raise its max_connections, or close others ({said})"
        return f"no connection to {where}; check that the server runs and can be reached from here ({said})"


_REASONS: dict[type[psycopg.Error], str] = {
    psycopg.errors.LockNotAvailable: "somebody else holds a lock for more than 10 s; end that transaction",
    psycopg.errors.QueryCanceled: "the server took too long; look at what else it does",
    psycopg.errors.DiskFull: "the disk of the server is full; make room there",
    psycopg.errors.ReadOnlySqlTransaction: "this server only reads; set host to the primary",
    psycopg.errors.TooManyColumns: "a table has had too many columns, counting those that were dropped; rename it",
}


def _first_line(error: psycopg.Error) -> str:
    """Return the words of an error. They are cut before they are split too: a server may send megabytes of them."""
    return " ".join(str(error)[: 2 * ERROR_CHARACTERS_MAX].split())[:ERROR_CHARACTERS_MAX]
