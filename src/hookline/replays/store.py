"""Keep the replays in ``control.db``, what was asked for. Control is the one writer; the other roles follow.

Every change raises a number, by which the other roles see that there is something to read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from hookline.connections.model import Offsets
from hookline.database.commits import commits_of
from hookline.database.connect import Shared
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.open import ensure
from hookline.database.read_only import ChangeFeed, counted
from hookline.replays.dead_letters import DeadLetterAction, DeadLetterFilter, RetryPlace, StoredAction
from hookline.replays.model import KEPT_MAX, OPEN_MAX, Replay, ReplayRequest, State
from hookline.replays.offset_set import OffsetSet, decode_offset_sets, encode_offset_sets

SCHEMA_MIN = 3
"""The first schema of the control database that has replays."""
COLUMNS = "lane, at, version, request, starts, ends, state, rate, total, paused_at, ended_at"
ACTIONS_PER_LOOK_MAX = 100

_request = msgspec.json.Decoder(ReplayRequest).decode
_offsets = msgspec.json.Decoder(Offsets).decode
_action = msgspec.json.Decoder(StoredAction).decode


class ReplayFeed(ChangeFeed[list[Replay]]):
    """A view of all kept replays, oldest first; for one thread.

    All methods raise DatabaseUnreadable, or DatabaseAway, when they cannot look.
    """

    def __init__(self, location: DatabaseLocation) -> None:
        number = counted("SELECT next FROM replay_changes")
        super().__init__(location, "control", number, lambda found: read_replays(found, "ORDER BY lane"), SCHEMA_MIN)

    def positions(self, lane: int) -> dict[int, OffsetSet] | None:
        """Return the single events of a replay; None when it is of a whole stretch."""
        with self.reading() as connection:
            row = connection.execute("SELECT places FROM replays WHERE lane = ?", (lane,)).fetchone()
        return decode_offset_sets(row[0]) if row and row[0] is not None else None

    def actions(self, after_id: int) -> list[DeadLetterAction]:
        """Return what people asked for after the action with this id, oldest first."""
        query = "SELECT id, dead_letters FROM dead_letter_actions WHERE id > ? ORDER BY id LIMIT ?"
        with self.reading() as connection:
            rows = connection.execute(query, (after_id, ACTIONS_PER_LOOK_MAX)).fetchall()
            stored = [(id, _action(wanted)) for id, wanted in rows]
        return [DeadLetterAction(id, wanted, wanted.retry_now, wanted.try_lane) for id, wanted in stored]


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


ACTIONS_KEPT = 1_000
"""Beyond these the oldest that deliver has carried out are forgotten; so many may wait for it."""
_OPEN_COUNT = "SELECT count(*) FROM replays WHERE ended_at IS NULL"
_BEGINS = "state = CASE state WHEN 'preparing' THEN 'running' ELSE state END"


class TooManyReplays(Exception):
    """So many replays are open that what was asked for has to wait."""

    code = "too_many_replays"

    def __init__(self) -> None:
        super().__init__(f"at most {OPEN_MAX} replays may be under way; wait for some, or cancel some")


class TooManyActions(Exception):
    """So much waits for deliver that nothing more may be asked of it: what waits was answered, and is not dropped."""

    code = "too_many_actions"

    def __init__(self) -> None:
        super().__init__(
            f"{ACTIONS_KEPT:,} discards and retries wait for the deliver role; start it, or wait for it, and ask again"
        )


class ReplayStore:
    """Makes and changes replays; safe to share between threads."""

    def __init__(
        self,
        location: DatabaseLocation,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        steady_ms: Callable[[], int] | None = None,
        last_action: Callable[[], int] = lambda: 0,
    ) -> None:
        """``now_ms`` is what people see, ``steady_ms`` the service's own clock; by default they are one.
        ``last_action`` returns the last action that deliver has carried out."""
        ensure(location, "control")
        self._database = Shared(location)
        self._commits = commits_of(location)
        self._now_ms = now_ms
        self._steady_ms = steady_ms or now_ms
        self._last_action = last_action

    def require_room(self, count: int) -> None:
        """Raise TooManyReplays unless so many may begin now."""
        ((open_now,),) = self._database.rows(_OPEN_COUNT)
        if open_now + count > OPEN_MAX:
            raise TooManyReplays

    def create(
        self, request: ReplayRequest, version: int, starts: Offsets, ends: Offsets, author: str, state: State
    ) -> Replay:
        """Give the request a lane of its own; raise TooManyReplays."""
        with self._transaction() as execute:
            ((count,),) = execute(_OPEN_COUNT).fetchall()
            if count >= OPEN_MAX:
                raise TooManyReplays
            ((lane,),) = execute(
                "INSERT INTO lane_numbers (id, next) VALUES (1, 2)"
                " ON CONFLICT (id) DO UPDATE SET next = lane_numbers.next + 1 RETURNING next - 1"
            ).fetchall()
            if self._commits is not None:
                self._commits.give_away(lane=lane)
            execute(
                "INSERT INTO replays (lane, at, author, version, request, starts, ends, state, rate)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    lane,
                    self._now_ms(),
                    author,
                    version,
                    _json(request),
                    _json(starts),
                    _json(ends),
                    state,
                    request.rate,
                ),
            )
        made = self.get(lane)
        assert made is not None
        return made

    def get(self, lane: int) -> Replay | None:
        """Return the replay with this lane."""
        found = self._database.read(lambda connection: read_replays(connection, "WHERE lane = ?", (lane,)))
        return found[0] if found else None

    def newest(self, limit: int, before_lane: int | None, destination: str | None = None) -> list[Replay]:
        """At most ``limit`` replays older than one: all, or those of one destination."""
        where = (
            "WHERE lane < ?1 AND (json_extract(request, '$.destination') = ?2 OR ?2 IS NULL)"
            " ORDER BY lane DESC LIMIT ?3"
        )
        values = (before_lane or 1 << 62, destination, limit)
        return self._database.read(lambda connection: read_replays(connection, where, values))

    def open_ones(self) -> list[Replay]:
        """Return the replays that have not ended, oldest first."""
        return self._database.read(lambda connection: read_replays(connection, "WHERE ended_at IS NULL ORDER BY lane"))

    def want(self, lane: int, state: State | None, rate: float | None) -> None:
        """Pause, resume or cancel a replay, and change its rate; without a state it goes on as it does."""
        with self._transaction() as execute:
            execute(
                "UPDATE replays SET state = coalesce(?1, state), rate = ?2, paused_at = CASE"
                " WHEN coalesce(?1, state) = 'paused' THEN coalesce(paused_at, ?3) END WHERE lane = ?4",
                (state, rate, self._steady_ms(), lane),
            )

    def plan(self, lane: int, total: int) -> None:
        """Note how many events a replay comes to; one of single events that are too many to name begins now."""
        with self._transaction() as execute:
            execute(f"UPDATE replays SET total = ?, {_BEGINS} WHERE lane = ?", (total, lane))

    def prepare(self, lane: int, positions: dict[int, OffsetSet]) -> None:
        """Give a replay of single events their positions, once; it begins, unless it was paused or cancelled
        meanwhile."""
        starts = {partition: each.first for partition, each in positions.items()}
        ends = {partition: each.end for partition, each in positions.items()}
        total = sum(each.count for each in positions.values())
        with self._transaction() as execute:
            execute(
                f"UPDATE replays SET places = ?, starts = ?, ends = ?, total = ?, {_BEGINS} WHERE lane = ?"
                " AND total IS NULL",  # a second count, begun as the first one ended, may miss what was sent since
                (encode_offset_sets(positions), _json(starts), _json(ends), total, lane),
            )

    def end(self, lane: int, at_ms: int) -> None:
        """Note that deliver has ended a replay; the oldest ended ones are forgotten beyond ``KEPT_MAX``."""
        with self._transaction() as execute:
            execute("UPDATE replays SET ended_at = ? WHERE lane = ? AND ended_at IS NULL", (at_ms, lane))
            execute(
                "DELETE FROM replays WHERE ended_at IS NOT NULL AND lane <="
                f" (SELECT lane FROM replays ORDER BY lane DESC LIMIT 1 OFFSET {KEPT_MAX})"
            )

    def forget(self, lane: int) -> None:
        """Delete an ended replay from the list."""
        with self._transaction() as execute:
            execute("DELETE FROM replays WHERE lane = ? AND ended_at IS NOT NULL", (lane,))

    def forget_ended_before(self, ms: int) -> None:
        """Forget replays that ended so long ago that the journal keeps none of their events any more."""
        if self._database.row("SELECT 1 FROM replays WHERE ended_at < ? LIMIT 1", (ms,)):
            with self._transaction() as execute:
                execute("DELETE FROM replays WHERE ended_at < ?", (ms,))

    def discard(self, wanted: DeadLetterFilter, author: str) -> int:
        """Ask deliver to discard dead letters; return the number by which it says that it has. This and the two below
        raise TooManyActions."""
        return self._act(wanted, author)

    def retry_now(self, position: RetryPlace, author: str) -> int:
        """Ask deliver to try a waiting event at once; return the number by which it says that it has."""
        return self._act(StoredAction(retry_now=position), author)

    def try_lane(self, lane: int, author: str) -> int:
        """Ask deliver to try what waits in a lane at once; return the number by which it says that it has."""
        return self._act(StoredAction(try_lane=lane), author)

    def _act(self, wanted: DeadLetterFilter, author: str) -> int:
        with self._transaction() as execute:
            ((number,),) = execute(
                "INSERT INTO dead_letter_actions (at, author, dead_letters) VALUES (?, ?, ?) RETURNING id",
                (self._now_ms(), author, _json(wanted)),
            ).fetchall()
            if self._commits is not None:
                self._commits.give_away(action=number)
            ((kept,),) = execute("SELECT count(*) FROM dead_letter_actions").fetchall()
            if kept > ACTIONS_KEPT:
                forgotten = min(number - ACTIONS_KEPT, self._last_action())
                if not execute("DELETE FROM dead_letter_actions WHERE id <= ?", (forgotten,)).rowcount:
                    raise TooManyActions
        return int(number)

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., Any]]:
        with self._database.transaction() as execute:
            yield execute
            # By the clock, so that no number comes again for something else when the database went back in time.
            execute(
                "INSERT INTO replay_changes (id, next) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET next = CASE"
                " WHEN replay_changes.next < excluded.next THEN excluded.next ELSE replay_changes.next + 1 END",
                (self._now_ms(),),
            )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
