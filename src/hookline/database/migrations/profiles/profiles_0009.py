"""Keys of a bounded length: long ids stand in them by their hash, and features by what is short of them."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "profiles_0009"
down_revision = "profiles_0008"

KEY_CHARACTERS_MAX = 400
HASH_BYTES = 32
KEYS = (("identities", "id"), ("repointed", "id"), ("groups", "id"), ("memberships", "group_id"))


def upgrade() -> None:
    """Make the table, and put the long ids that are there into it."""
    op.drop_index("features_what", "features")
    op.create_index("features_what", "features", ["type", "name"])
    op.create_table(
        "long_ids",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
        sqlite_with_rowid=False,
    )
    if op.get_context().dialect.name == "sqlite":  # nobody has kept people in PostgreSQL before this version
        connection = op.get_bind()
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
        driver: Any = connection.connection.driver_connection
        for table, column in KEYS:
            _shorten(driver, table, column)


def _shorten(driver: Any, table: str, column: str) -> None:
    query = f"SELECT DISTINCT {column} FROM {table} WHERE octet_length({column}) > ?"
    for (id,) in driver.execute(query, (KEY_CHARACTERS_MAX,)).fetchall():
        if len(id) > KEY_CHARACTERS_MAX:
            digest = blake2b(id.encode(), digest_size=HASH_BYTES).hexdigest()
            key = id[: KEY_CHARACTERS_MAX + 1 - len(digest)] + digest
            driver.execute("INSERT OR IGNORE INTO long_ids (key, id) VALUES (?, ?)", (key, id))
            driver.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (key, id))
