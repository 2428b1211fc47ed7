"""The replays as the other roles follow them: read again only when control changed one. Never writes ``control.db``."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.connections.model import Offsets
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import Followed
from hookline.replays.dead_letters import DeadLetterAction, StoredAction
from hookline.replays.model import Replay, ReplayRequest
from hookline.replays.offset_set import OffsetSet, decode_offset_sets

SCHEMA_MIN = 3
"""The first schema of the control database that has replays."""
COLUMNS = "lane, at, version, request, starts, ends, state, rate, total, paused_at, ended_at"
ACTIONS_PER_LOOK_MAX = 100

_request = msgspec.json.Decoder(ReplayRequest).decode
_offsets = msgspec.json.Decoder(Offsets).decode
_action = msgspec.json.Decoder(StoredAction).decode


class ReplayFeed:
    """A view of all kept replays, oldest first; for one thread.

    All methods raise DatabaseUnreadable, or DatabaseAway, when they cannot look.
    """

    def __init__(self, location: DatabaseLocation) -> None:
        self._database = Followed(location, "control", SCHEMA_MIN)
        self._seen: Any = None
        self._changes = -1

    def poll(self) -> list[Replay] | None:
        """Return all kept replays if something about them, or a discard, changed since the last answer, else None."""
        with self._database.reading() as connection:
            seen = self._database.mark(connection)
            if seen == self._seen:
                return None
            row = connection.execute("SELECT next FROM replay_changes").fetchone()
            changes = int(row[0]) if row else 0
            found = read_replays(connection, "ORDER BY lane") if changes != self._changes else None
            self._seen, self._changes = seen, changes
            return found

    def places(self, lane: int) -> dict[int, OffsetSet] | None:
        """Return the single events of a replay; None when it is of a whole stretch."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT places FROM replays WHERE lane = ?", (lane,)).fetchone()
        return decode_offset_sets(row[0]) if row and row[0] is not None else None

    def actions(self, after_id: int) -> list[DeadLetterAction]:
        """Return what people asked for after the action with this id, oldest first."""
        query = "SELECT id, dead_letters FROM dead_letter_actions WHERE id > ? ORDER BY id LIMIT ?"
        with self._database.reading() as connection:
            rows = connection.execute(query, (after_id, ACTIONS_PER_LOOK_MAX)).fetchall()
            stored = [(id, _action(wanted)) for id, wanted in rows]
        return [DeadLetterAction(id, wanted, wanted.retry_now, wanted.try_lane) for id, wanted in stored]

    def close(self) -> None:
        """Let go of the file; idempotent, and a later call opens it again."""
        self._database.close()


def read_replays(connection: Connection, rest: str, values: tuple[Any, ...] = ()) -> list[Replay]:
    """Return the replays that a query finds; ``rest`` follows the FROM clause."""
    rows = connection.execute(f"SELECT {COLUMNS} FROM replays {rest}", values).fetchall()
    return [
        Replay(
            lane=lane,
            at_ms=at,
            version=version,
            request=_request(request),
            starts=_offsets(starts),
            ends=_offsets(ends),
            state=state,
            rate=rate,
            total=total,
            paused_ms=paused,
            ended_ms=ended,
        )
        for lane, at, version, request, starts, ends, state, rate, total, paused, ended in rows
    ]
