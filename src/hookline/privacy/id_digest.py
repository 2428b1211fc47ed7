"""Stand for a person's id where the id itself must not be kept: a keyed hash, BLAKE2b (RFC 7693), whose key is a file,
or a row where machines share the databases.

It takes a third of the time of an HMAC, and collect makes one for each id that it has not met lately. The key is made
once per installation and lies in the data folder, readable by its owner alone, or in PostgreSQL.
Without it nobody can try ids against the hashes; whoever has it can, so the hashes are pseudonyms, not anonymous.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b
from pathlib import Path

from hookline.database import home
from hookline.database.connect import Shared
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.whole_file import write_whole

FILE_NAME = "privacy-key"
KEY_BYTES = 32
DIGEST_BYTES = 32


class PrivacyKeyError(ValueError):
    """The stored key cannot be used; the message says what to do."""

    code = "invalid_privacy_key"


class IdDigests:
    """Hashes ids with one key."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self._begun = blake2b(key=key, digest_size=DIGEST_BYTES)

    def of(self, id: str) -> bytes:
        """Return the hash of an id: 32 bytes."""
        begun = self._begun.copy()
        begun.update(id.encode("utf-8", "surrogatepass"))
        return begun.digest()

    def of_anonymous(self, id: str) -> bytes:
        """Return the hash of an id that is an anonymous id alone: another one than ``of`` returns."""
        return blake2b(
            id.encode("utf-8", "surrogatepass"), key=self.key, digest_size=DIGEST_BYTES, person=b"anonymous"
        ).digest()

    def message_id(self, *parts: object) -> str:
        """Return the messageId of what is told about a person: always the same one for the same parts, and no
        id in it."""
        return "del_" + self.of("\n".join(map(str, parts))).hex()[:40]


def load(data_path: Path) -> IdDigests:
    """With the key of the data folder, made up at the first start; raise PrivacyKeyError."""
    return IdDigests(key_of(data_path))


def read(data_path: Path) -> IdDigests:
    """With the key as it is stored; raise FileNotFoundError before the first start, PrivacyKeyError."""
    return IdDigests(_read(data_path))


def key_of(data_path: Path) -> bytes:
    """Return the key of the data folder, made up at the first start; raise PrivacyKeyError."""
    path = data_path / FILE_NAME
    with home.held(data_path):  # two starts agree on one
        if not path.exists():
            try:
                home.check_new(path)
            except home.PartMissing as gone:
                raise PrivacyKeyError(str(gone)) from None
            write_whole(path, f"{secrets.token_hex(KEY_BYTES)}\n".encode())
        key = _read(data_path)
        home.made(path, _check_of(key))
    return key


def _read(data_path: Path) -> bytes:
    path = data_path / FILE_NAME
    try:
        key = bytes.fromhex(path.read_text())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES or not home.is_as_noted(path, _check_of(key)):
        wrong = "is not the key that this data folder had" if len(key) == KEY_BYTES else "holds no usable key"
        raise PrivacyKeyError(
            f"{path} {wrong}: put it back from a snapshot, for suppression depends on it. To go on without it: move it"
            f" away, then hookline renew {FILE_NAME}"
        )
    path.chmod(0o600)
    return key


def _check_of(key: bytes) -> str:
    """Return what tells a key from one of which a bit was changed, and says nothing of it."""
    return blake2b(key, digest_size=8, person=b"check").hexdigest()


def load_shared(location: DatabaseLocation, database: Shared, data_path: Path) -> IdDigests:
    """With the installation's key; at the first start that of the data folder, where it may be made up.

    Raise PrivacyKeyError. ``database`` is at ``location``; its one writer calls this.
    """
    if isinstance(location, Path):
        return load(data_path)
    with database.transaction() as execute:
        row = execute("SELECT key FROM privacy_key").fetchone()
        key = bytes(row[0]) if row else key_of(data_path)
        if not row:
            execute("INSERT INTO privacy_key (id, key) VALUES (1, ?)", (key,))
    return IdDigests(key)


def read_shared(location: DatabaseLocation, connection: Connection, data_path: Path) -> IdDigests:
    """With the key as it is stored; raise FileNotFoundError or PrivacyKeyError when it is not."""
    if isinstance(location, Path):
        return read(data_path)
    row = connection.execute("SELECT key FROM privacy_key").fetchone()
    if row is None:
        raise PrivacyKeyError(
            "PostgreSQL holds no privacy key; put the schema back from a backup: suppression needs it"
        )
    return IdDigests(bytes(row[0]))
