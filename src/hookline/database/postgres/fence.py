"""What keeps a process from writing once another one has taken its role's turn: an epoch, which each taker raises.

Every transaction that writes takes a share of the turn's lock to its end, and then looks for its epoch. So one that
comes too late is refused, and whoever raises the epoch finds those that are open and ends them: it begins to read when
nothing of the old one can be committed any more. Processes that never took a turn (a worker, a control that stands by,
a migration) are asked for none.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import psycopg

from hookline.database.location import WRITTEN_BY, Schema, Which

Role = Literal["control", "profiles", "deliver", "collect"]

SCHEMAS: dict[Role, tuple[Which, ...]] = {role: WRITTEN_BY[role] for role in get_args(Role)}
"""What only the process with a role's turn writes to, but for the counts of a machine whose control stands by. Turns of
``deliver`` and ``collect`` are taken where the journal is local; what ``collect`` writes to is that."""

SPACE = 0x686F6F6D
"""Of the locks that open transactions share."""
LOCKS: dict[Role, int] = {"control": 101, "profiles": 102, "deliver": 103, "collect": 104}
"""Here, and beside the numbers of the schemas and of the installation among those by which roles take turns."""

TABLE = "CREATE TABLE IF NOT EXISTS hookline.turns (role TEXT PRIMARY KEY, epoch BIGINT NOT NULL)"

# The server's clock, in microseconds: a standby server that took over may not have the last epochs, and none of them
# may be given away twice.
_RAISE = """
INSERT INTO hookline.turns (role, epoch) VALUES (%s, extract(epoch FROM clock_timestamp()) * 1000000)
ON CONFLICT (role) DO UPDATE SET epoch = greatest(turns.epoch + 1, excluded.epoch) RETURNING epoch
"""
# Its own time limit would not end each of them: the server does not count within a series of statements sent together.
_END_OPEN = """
SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.classid::bigint = %s AND l.objid::bigint = %s AND l.granted
AND a.datname = current_database() AND a.usename = current_user
"""


class Epoch(NamedTuple):
    """A turn of a role, told from those before and after it."""

    role: Role
    number: int

    @property
    def shared(self) -> str:
        """Return the statement that takes a share of the turn's lock to the transaction's end."""
        return f"SELECT pg_advisory_xact_lock_shared({SPACE}, {LOCKS[self.role]})"

    @property
    def found(self) -> str:
        """Return the statement that finds a row as long as nobody has begun a later epoch."""
        return f"SELECT 1 FROM hookline.turns WHERE role = '{self.role}' AND epoch = {self.number}"


_epochs: dict[Schema, Epoch] = {}


def begin_epoch(session: psycopg.Connection[Any], url: str, role: Role) -> Epoch:
    """Fence off whoever had the turn before, end what that has open, and let this process write from now on."""
    row = session.execute(_RAISE, (role,)).fetchone()
    assert row is not None
    session.execute(_END_OPEN, (SPACE, LOCKS[role]))
    session.execute("SELECT pg_advisory_lock(%s, %s)", (SPACE, LOCKS[role]))  # they are gone
    session.execute("SELECT pg_advisory_unlock(%s, %s)", (SPACE, LOCKS[role]))
    epoch = Epoch(role, row[0])
    _epochs.update((Schema(url, which), epoch) for which in SCHEMAS[role])
    return epoch


def end_epoch(url: str, epoch: Epoch) -> None:
    """Forget an epoch whose turn was let go of."""
    for which in SCHEMAS[epoch.role]:
        if epoch_of(schema := Schema(url, which)) == epoch:
            del _epochs[schema]


def epoch_of(schema: Schema) -> Epoch | None:
    """By what this process writes to a schema; None where it has no turn."""
    return _epochs.get(schema)
