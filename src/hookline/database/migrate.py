"""``python -m hookline.database.migrate WHICH PATH``: bring one database file to the newest schema.

With ``--schema`` instead of a path it brings the schema of the PostgreSQL database that ``HOOKLINE_DATABASE_URL`` names
to it. With ``--write-schema`` it writes the shipped ``schema_<which>.sql`` and ``.postgres.sql`` anew from the
migrations. The only module that imports Alembic and SQLAlchemy; the roles start it as a process of its own.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, get_args

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

import hookline.database.postgres.types  # noqa: F401  (what columns are on PostgreSQL)
from hookline.database.open import FILE_MODE, TRY_AGAIN, schema_path
from hookline.database.place import Place, Schema, Which
from hookline.database.sqlite import DatabaseAway, connect, engine

MIGRATIONS = Path(__file__).with_name("migrations")

_HEAD = "-- Written by `python -m hookline.database.migrate --write-schema`; change the migrations instead."


def upgrade(place: Place, which: Which) -> None:
    """Apply what is missing, in one transaction: after a failure everything is as it was."""
    database = schema_engine(place) if isinstance(place, Schema) else file_engine(place)
    try:
        with database.begin() as connection:
            command.upgrade(config(which, connection), "head")
    finally:
        database.dispose()


def file_engine(path: Path) -> Engine:
    """What makes connections to a file."""
    database = create_engine("sqlite://", creator=lambda: connect(path), module=engine, poolclass=NullPool)
    # The driver would begin a transaction only before INSERT and the like, leaving CREATE and ALTER outside of it.
    event.listen(database, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return database


def schema_engine(schema: Schema) -> Engine:
    """What makes connections to a schema of PostgreSQL."""
    from hookline.database.postgres.address import conninfo
    from hookline.database.postgres.patience import PatientConnection, open_session

    def connect_to_schema() -> PatientConnection:
        address = conninfo(schema.url, f"hookline {schema.which} migration")
        session = open_session(address, {"search_path": schema.name})
        session.autocommit = False
        return session

    return create_engine("postgresql+psycopg://", creator=connect_to_schema, poolclass=NullPool)


def config(which: Which, connection: Connection | None = None, written_to: io.StringIO | None = None) -> Config:
    """Alembic's configuration for one database; ``env.py`` runs on ``connection``, or writes what PostgreSQL would be
    told."""
    made = Config(attributes={"which": which, "connection": connection, "written_to": written_to})
    made.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    made.set_main_option("version_locations", str(MIGRATIONS / which).replace("%", "%%"))
    made.set_main_option("path_separator", "newline")
    return made


def schema_of(which: Which) -> str:
    """The SQL text that makes a new file equal to one that went through every migration."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new.db"
        path.touch(FILE_MODE)
        upgrade(path, which)
        connection = connect(path)
        statements = connection.execute(
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        ).fetchall()
        ((version,),) = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        connection.close()
    lines = [_HEAD, *(f"{statement.strip()};" for (statement,) in statements)]
    lines.append(f"INSERT INTO alembic_version (version_num) VALUES ('{version}');")
    return "\n".join(lines) + "\n"


def postgres_schema_of(which: Which) -> str:
    """The SQL text that makes the tables of a new schema: what the migrations tell PostgreSQL, one after another."""
    written = io.StringIO()
    command.upgrade(config(which, written_to=written), "head", sql=True)
    statements = "\n".join(line.rstrip() for line in written.getvalue().splitlines() if line.strip())
    return f"{_HEAD}\n{statements}\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 done, 1 failed, TRY_AGAIN failed for what passes, with the reason as the last line of
    standard error."""
    parser = argparse.ArgumentParser(prog="python -m hookline.database.migrate", description=__doc__)
    parser.add_argument("which", nargs="?", choices=get_args(Which))
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--schema", action="store_true", help="the schema of the database of HOOKLINE_DATABASE_URL")
    parser.add_argument("--write-schema", action="store_true", help="write schema_<which>.* from the migrations")
    given = parser.parse_args(arguments)
    if given.write_schema:
        for which in get_args(Which):
            schema_path(which).write_text(schema_of(which))
            schema_path(which, ".postgres.sql").write_text(postgres_schema_of(which))
        return 0
    if given.which is None or given.schema == (given.path is not None):
        parser.error("give WHICH and either PATH or --schema, or --write-schema")
    try:
        place = Schema(os.environ["HOOKLINE_DATABASE_URL"], given.which) if given.schema else given.path
        upgrade(place, given.which)
    except DBAPIError as error:
        sys.stderr.write(f"{error.orig}\n")
        return TRY_AGAIN if _passes(error.orig) else 1
    return 0


def _passes(error: Any) -> bool:
    """Return whether nothing has to be mended in the database itself: a lock, a full disk, a right, a server away."""
    if hasattr(error, "sqlstate"):  # one of PostgreSQL's, whose library is there then
        from hookline.database.postgres.errors import as_ours

        return isinstance(as_ours(error), DatabaseAway)
    return isinstance(error, DatabaseAway)


if __name__ == "__main__":
    sys.exit(main())
