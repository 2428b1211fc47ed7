"""The key of the hashes where machines share the databases: in PostgreSQL, beside the hashes, as the file of a data
folder is beside ``privacy.db``. So every machine recognises whom the list means.
"""

from __future__ import annotations

from pathlib import Path

from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.shared import Shared
from hookline.privacy import id_digest
from hookline.privacy.id_digest import IdDigests, PrivacyKeyError


def load(location: DatabaseLocation, database: Shared, data_path: Path) -> IdDigests:
    """With the installation's key; at the first start that of the data folder, where it may be made up.

    Raise PrivacyKeyError. ``database`` is at ``place``; its one writer calls this.
    """
    if isinstance(location, Path):
        return id_digest.load(data_path)
    with database.transaction() as execute:
        row = execute("SELECT key FROM privacy_key").fetchone()
        key = bytes(row[0]) if row else id_digest.key_of(data_path)
        if not row:
            execute("INSERT INTO privacy_key (id, key) VALUES (1, ?)", (key,))
    return IdDigests(key)


def read(location: DatabaseLocation, connection: Connection, data_path: Path) -> IdDigests:
    """With the key as it is stored; raise FileNotFoundError or PrivacyKeyError when it is not."""
    if isinstance(location, Path):
        return id_digest.read(data_path)
    row = connection.execute("SELECT key FROM privacy_key").fetchone()
    if row is None:
        raise PrivacyKeyError(
            "PostgreSQL holds no privacy key; put the schema back from a backup: suppression needs it"
        )
    return IdDigests(bytes(row[0]))
