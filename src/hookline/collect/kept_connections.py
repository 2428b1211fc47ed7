"""The sources, and whose events are not stored, as collect last knew them: kept in the data folder, so that a collect
that starts while they cannot be read takes events all the same.

The file has no more than collect needs: no destination, no secret of one. To recognise who is suppressed it needs the
key of those hashes, so it is readable by its owner alone.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from hookline.connections.model import Snapshot, Source
from hookline.privacy.suppressed import Suppressed
from hookline.telemetry.log import logger
from hookline.whole_file import write_whole

FILE = "collect-connections"
FORMAT = 1


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    version: int
    sources: tuple[Source, ...]
    key: bytes | None
    suppressed: tuple[bytes, ...]


class KeptConnections:
    """Writes the file when something changed, and reads it; for one thread at a time."""

    def __init__(self, data_path: Path) -> None:
        self._path = data_path / FILE
        self._written: bytes | None = None

    def write(self, snapshot: Snapshot, suppressed: Suppressed | None) -> None:
        """Keep these from now on, whole and durable, or what was kept before; a disk that refuses is logged."""
        kept = _Kept(
            format=FORMAT,
            version=snapshot.version,
            sources=snapshot.sources,
            key=None if suppressed is None else suppressed.key,
            suppressed=() if suppressed is None else tuple(sorted(suppressed.digests)),
        )
        content = msgspec.msgpack.encode(kept)
        if content == self._written:
            return
        try:
            write_whole(self._path, content)
        except OSError as error:
            logger().warning("connections_not_kept", reason=str(error))
        else:
            self._written = content

    def read(self) -> tuple[Snapshot, Suppressed | None] | None:
        """What was kept; None when there is nothing, or nothing that this version can read."""
        try:
            kept = msgspec.msgpack.decode(self._path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            logger().warning("kept_connections_unreadable", reason=str(error))
            return None
        if kept.format != FORMAT or (kept.suppressed and kept.key is None):
            return None
        suppressed = Suppressed.of(kept.suppressed, kept.key) if kept.suppressed and kept.key is not None else None
        return Snapshot(version=kept.version, sources=kept.sources), suppressed
