"""Puts the long ids that are there into their own table, and their hashes in their place."""

from __future__ import annotations

from hashlib import blake2b

from hookline.database.sqlite import Connection

KEY_CHARACTERS_MAX = 400
HASH_BYTES = 32
KEYS = (("identities", "id"), ("repointed", "id"), ("groups", "id"), ("memberships", "group_id"))


def move(connection: Connection) -> None:
    """Shorten the keys of every table that has ids in its own; what was there is overwritten."""
    connection.execute("PRAGMA secure_delete = ON")
    for table, column in KEYS:
        _shorten(connection, table, column)


def _shorten(connection: Connection, table: str, column: str) -> None:
    query = f"SELECT DISTINCT {column} FROM {table} WHERE octet_length({column}) > ?"
    for (id,) in connection.execute(query, (KEY_CHARACTERS_MAX,)).fetchall():
        if len(id) > KEY_CHARACTERS_MAX:
            digest = blake2b(id.encode(), digest_size=HASH_BYTES).hexdigest()
            key = id[: KEY_CHARACTERS_MAX + 1 - len(digest)] + digest
            connection.execute("INSERT OR IGNORE INTO long_ids (key, id) VALUES (?, ?)", (key, id))
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (key, id))
