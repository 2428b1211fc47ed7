"""Ids of callers as keys of tables: an id may be as long as an event, and an index entry of PostgreSQL may not.

A long id stands in keys as its first characters and its hash, and as a whole in ``long_ids``. Such a key is one
character longer than any id that is its own key, so it is never taken for one.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from hookline.database.connection import Connection

KEY_CHARACTERS_MAX = 400
"""Of an id that is its own key: at most 2,400 of the 2,700 bytes, for U+0000 is written as six."""
HASH_BYTES = 32


def key_of(id: str) -> str:
    """Return what stands for an id in the keys of tables."""
    if not is_long(id):
        return id
    digest = blake2b(id.encode(), digest_size=HASH_BYTES).hexdigest()
    return id[: KEY_CHARACTERS_MAX + 1 - len(digest)] + digest


def is_long(id: str) -> bool:
    """Return whether an id is not its own key, and a key not its own id."""
    return len(id) > KEY_CHARACTERS_MAX


def any_long(ids: Iterable[str]) -> bool:
    """Return whether one of the ids is not its own key."""
    return max(map(len, ids), default=0) > KEY_CHARACTERS_MAX


def id_of(connection: Connection, key: str) -> str:
    """Return the id that a key stands for."""
    if not is_long(key):
        return key
    row = connection.execute("SELECT id FROM long_ids WHERE key = ?", (key,)).fetchone()
    return key if row is None else str(row[0])


def remember(connection: Connection, ids: Iterable[str]) -> None:
    """Write down those of the ids that are long; within the transaction that writes their keys."""
    rows = [(key_of(id), id) for id in ids if is_long(id)]
    connection.executemany("INSERT INTO long_ids (key, id) VALUES (?, ?) ON CONFLICT DO NOTHING", rows)


def forget(connection: Connection) -> None:
    """Delete the long ids whose keys stand nowhere any more."""
    connection.execute(
        "DELETE FROM long_ids WHERE NOT EXISTS (SELECT 1 FROM identities i WHERE i.kind IN (0, 1) AND i.id = key)"
        " AND NOT EXISTS (SELECT 1 FROM repointed r WHERE r.id = key)"
        " AND NOT EXISTS (SELECT 1 FROM groups g WHERE g.id = key)"
    )
