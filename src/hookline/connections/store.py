"""The configured objects of one installation: read at any version, changed all or nothing.

Control is the only writer. A change makes one new version; it closes the rows of the objects it touches and opens
their successors, and gives enabled destinations their lanes in the same transaction. Rules are ``check``'s and
``lanes``'.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from hookline.connections.check import PLAN_LEVEL, Problem
from hookline.connections.definitions.model import Audience, ComputedTrait
from hookline.connections.edits import CertificateFault, Delete, Edit, Put, check_edits, restore_secrets
from hookline.connections.history import Kind
from hookline.connections.model import Destination, LaneConfig, Offsets, Pause, Snapshot, Source
from hookline.connections.notification_secrets import without_secrets
from hookline.connections.notifications import Notification
from hookline.connections.rotation import until_ms
from hookline.connections.secrets import PastRow, without_old_secrets
from hookline.connections.state import State, Stored, decode_object, next_lane
from hookline.database.commits import Highest, commits_of
from hookline.database.connect import empty_log, is_file, overwrite_deleted
from hookline.database.connection import transaction
from hookline.database.location import DatabaseLocation
from hookline.database.open import open_control
from hookline.database.sqlite import DatabaseAway

WENT_BACK_AUTHOR = "hookline"
"""Who makes the version that says again what an old database said."""
ObjectRow = tuple[Kind, str, int, str, str | None, str | None]
"""Kind, id, version, document, owner, lane: as a row holds them."""


class ChangeRefused(Exception):
    """The change would leave something wrong behind; nothing was changed."""

    code = "invalid_connections"

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = list(problems)


class VersionConflict(Exception):
    """Somebody else changed the connections in between; nothing was changed."""

    code = "version_conflict"

    def __init__(self, version: int) -> None:
        super().__init__(f"the connections were changed meanwhile and are at version {version}; read them again")
        self.version = version


class Store:
    """The connections in the control database at ``place``; safe to share between threads."""

    def __init__(
        self,
        location: DatabaseLocation,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        plan_level: str = PLAN_LEVEL,
        steady_ms: Callable[[], int] | None = None,
    ) -> None:
        """``now_ms`` is what people see, ``steady_ms`` the service's own clock; by default they are one."""
        self._connection = open_control(location)
        self._commits = commits_of(location)
        self._now_ms = now_ms
        self.steady_ms = steady_ms or now_ms
        """The time by the service's own clock, which never jumps."""
        self._plan_level = plan_level
        self._lock = threading.Lock()
        self._state = State()
        self._snapshot: Snapshot | None = None
        self._is_doubtful = False
        """Whether more may be in force than is known here: PostgreSQL did not answer a commit, or the look after it."""
        self.on_version: Callable[[int], None] = lambda version: None
        """Told of every version as it is made; one whose change fails after all never comes into force."""
        self.may_refer: Callable[[], bool] = lambda: True
        """Asked whether whoever makes a change may have secrets sent that the connections only refer to."""
        self.certificate_fault: CertificateFault = lambda settings: None
        """Asked what is wrong with a client certificate that a change refers to: a sentence, None when nothing is."""
        self._cleaned_version = 0
        """Up to here the secrets of what left force were removed where they are no longer needed."""
        self.restarted = False
        """Whether ``mark_ready`` found that control was ready before in this boot: it stands in for one that ended."""
        self.unapplied_file: tuple[str, str] | None = None
        """The connections file that could not be applied at this start, and why; None where there is none."""
        with self._lock:
            self._refresh()

    @property
    def version(self) -> int:
        """Return the version in force; 0 before the first change."""
        return self._state.version

    def now_ms(self) -> int:
        """Return the time by the store's clock, milliseconds since the epoch."""
        return self._now_ms()

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Everything in force now, or as it was at ``version``; secrets are in it as they are stored."""
        with self._lock:
            if version is None or version == self._state.version:
                if self._snapshot is None:
                    self._snapshot = self._state.snapshot()
                return self._snapshot
            past = State()
            past.load(self._connection, version)
            return past.snapshot()

    def source(self, id: str) -> Stored[Source] | None:
        """Return a source in force, None when there is none of this id."""
        with self._lock:
            return self._state.sources.get(id)

    def last_source(self, id: str) -> Source | None:
        """Return a source as it is, or as it was before it was deleted; None when there never was one of this id."""
        with self._lock:
            stored = self._state.sources.get(id)
            if stored is not None:
                return stored.object
            query = "SELECT document FROM objects WHERE kind = 'source' AND id = ? ORDER BY since DESC LIMIT 1"
            row = self._connection.execute(query, (id,)).fetchone()
            return decode_object("source", row[0]) if row else None

    def destination(self, id: str) -> Stored[Destination] | None:
        """Return a destination in force, None when there is none of this id."""
        with self._lock:
            return self._state.destinations.get(id)

    def sources(self) -> list[Stored[Source]]:
        """Return the sources in force, in the order of their ids."""
        with self._lock:
            return [self._state.sources[id] for id in sorted(self._state.sources)]

    def destinations(self) -> list[Stored[Destination]]:
        """Return the destinations in force, in the order of their ids."""
        with self._lock:
            return [self._state.destinations[id] for id in sorted(self._state.destinations)]

    def audience(self, id: str) -> Stored[Audience] | None:
        """Return an audience in force, None when there is none of this id."""
        with self._lock:
            return self._state.audiences.get(id)

    def computed_trait(self, id: str) -> Stored[ComputedTrait] | None:
        """Return a computed trait in force, None when there is none of this id."""
        with self._lock:
            return self._state.computed_traits.get(id)

    def stored(self, kind: Kind, id: str) -> Stored[Any] | None:
        """Return an object in force of any kind, None when there is none of this id."""
        with self._lock:
            return self._state.of_kind(kind).get(id)

    def in_force(self, kind: Kind) -> list[Stored[Any]]:
        """Return the objects in force of a kind, in the order of their ids."""
        with self._lock:
            return [stored for _, stored in sorted(self._state.of_kind(kind).items())]

    def change(
        self,
        edits: Sequence[Edit],
        author: str,
        owner: str | None,
        ends: Callable[[], Offsets],
        expected_version: int | None = None,
    ) -> int:
        """Make the edits in one transaction and return the version then in force, unchanged if nothing changed.

        ``owner`` becomes the owner of what is put; None leaves the owner as it is. ``ends`` is asked for the
        journal's ends inside the transaction. ``keep`` and masks in a destination stand for its stored secrets.
        Raise ChangeRefused for anything wrong, VersionConflict when ``expected_version`` is no longer in force.
        """
        with self._lock:
            made: int | None = None
            with self._transaction():
                self._refresh()
                if expected_version is not None and expected_version != self._state.version:
                    raise VersionConflict(self._state.version)
                restored, problems = restore_secrets(self._state, edits)
                if problems := problems or self._check(restored):
                    raise ChangeRefused(problems)
                changes = [edit for edit in restored if self._changes_something(edit, owner)]
                if changes:
                    made = self._write(changes, author, owner, dict(ends()))
            self._note(made)
            self._refresh()
            return self._state.version

    def pause(self, id: str, pause: Pause, author: str, ends: Callable[[], Offsets]) -> LaneConfig:
        """Park the events of an enabled destination from now on; raise ChangeRefused when there is none.

        A destination that is paused already stays so, with its reason.
        """

        def paused(lane: LaneConfig) -> LaneConfig:
            # The rate of an earlier resume was for what had waited then: a drain may end this pause instead.
            return lane if lane.paused is not None else replace(lane, paused=pause, catch_up_rate=None)

        return self._change_lane(id, author, ends, paused)

    def resume(self, id: str, catch_up_rate: float | None, author: str, ends: Callable[[], Offsets]) -> LaneConfig:
        """Send what has waited, at most so many events per second, and what comes; raise ChangeRefused as ``pause``."""

        def resumed(lane: LaneConfig) -> LaneConfig:
            pauses = lane.pauses + (lane.paused is not None)
            return replace(lane, paused=None, catch_up_rate=catch_up_rate, pauses=pauses)

        return self._change_lane(id, author, ends, resumed)

    def drain(self, id: str, author: str, ends: Callable[[], Offsets]) -> LaneConfig:
        """Disable a destination, but send what was accepted until now; raise ChangeRefused as ``pause``."""
        return self._change_lane(
            id,
            author,
            ends,
            lambda lane: replace(lane, until=lane.until or dict(ends()), paused=None),
            lambda destination: replace(destination, enabled=False),
        )

    def end_drain(self, id: str, author: str, ends: Callable[[], Offsets]) -> None:
        """A drained destination's lane has ended, or what still waits is not wanted any more."""
        self._change_lane(id, author, ends, lambda lane: None if lane.until is not None else lane)

    def _change_lane(
        self,
        id: str,
        author: str,
        ends: Callable[[], Offsets],
        change: Callable[[LaneConfig], LaneConfig | None],
        change_object: Callable[[Destination], Destination] = lambda destination: destination,
    ) -> LaneConfig:
        with self._lock:
            version: int | None = None
            with self._transaction():
                self._refresh()
                stored = self._state.destinations.get(id)
                if stored is None:
                    raise ChangeRefused([Problem("not_found", "id", f"there is no destination {id!r}")])
                if stored.lane is None:
                    message = f"destination {id!r} is disabled, so nothing is queued for it; enable it first"
                    raise ChangeRefused([Problem("not_enabled", "enabled", message)])
                lane = change(stored.lane)
                if lane != stored.lane:
                    version = self._new_version(author, dict(ends()))
                    document = _json(change_object(stored.object))
                    kept = None if lane is None else _json(lane)
                    row: ObjectRow = ("destination", id, version, document, stored.owner, kept)
                    self._replace_rows(version, [("destination", id)], [row])
            self._note(version)
            self._refresh()
            return lane or stored.lane

    def pass_over(self, highest: Highest, ends: Callable[[], Offsets]) -> None:
        """Go on behind what was given away before the database went back: a version or a lane's number that others know
        already never comes to mean something else."""
        with self._lock:
            with self._transaction():
                self._refresh()
                if highest.version > self._state.version:
                    self._insert_version(highest.version + 1, WENT_BACK_AUTHOR, dict(ends()))
                if highest.lane:
                    self._connection.execute(
                        "INSERT INTO lane_numbers (id, next) VALUES (1, ?) ON CONFLICT (id)"
                        " DO UPDATE SET next = excluded.next WHERE lane_numbers.next < excluded.next",
                        (highest.lane + 1,),
                    )
                # In PostgreSQL deliver's schema, which knows the last one, went back together with this.
                if highest.action and is_file(self._connection):
                    name = ("dead_letter_actions", highest.action)
                    self._connection.execute("DELETE FROM sqlite_sequence WHERE name = ? AND seq < ?", name)
                    self._connection.execute(
                        "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, ?2"
                        " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)",
                        name,
                    )
            self._refresh()

    def check(self, edits: Sequence[Edit]) -> list[Problem]:
        """Return what ``change`` would refuse, without changing anything."""
        with self._lock:
            restored, problems = restore_secrets(self._state, edits)
            return problems or self._check(restored)

    def remove_old_secrets(self, before_ms: int, destination: str | None = None) -> int:
        """Take secrets that left force before a time out of the history, of one destination or of all; return of how
        many destinations.

        This is the one change of rows that are there already: it makes no version, and who has read them may go on.
        """
        named, version = [destination] if destination else [], 0
        if destination is None:
            self._clean_rules(before_ms)
            named, version = self._with_old_secrets(before_ms)
        cleaned = sum(self._clean(id, before_ms) for id in named)
        if cleaned:
            with self._lock:
                empty_log(self._connection)
        self._cleaned_version = max(self._cleaned_version, version)
        return cleaned

    def _with_old_secrets(self, before_ms: int) -> tuple[list[str], int]:
        """Return what lost a version before a time and since the last look, and the newest version before that time."""
        with self._lock:
            query = "SELECT coalesce(max(version), 0) FROM versions WHERE at < ?"
            ((version,),) = self._connection.execute(query, (before_ms,)).fetchall()
            rows = self._connection.execute(
                "SELECT DISTINCT id FROM objects WHERE kind = 'destination' AND until > ? AND until <= ?",
                (self._cleaned_version, version),
            ).fetchall()
            rotated = {
                id
                for id, stored in self._state.destinations.items()
                if any(each.previous is not None and until_ms(each) < before_ms for each in stored.object.rotations)
            }
            return sorted({id for (id,) in rows} | rotated), int(version)

    def _clean_rules(self, before_ms: int) -> None:
        """Take the secrets of notification rules that left force before a time out of the history."""
        with self._lock:
            found = self._connection.execute(
                "SELECT o.id, o.since, o.document FROM objects AS o JOIN versions AS v ON v.version = o.until"
                " WHERE o.kind = 'notification' AND o.until > ? AND v.at < ?",
                (self._cleaned_version, before_ms),
            ).fetchall()
            rows: list[tuple[str, str, int]] = []
            for id, since, document in found:
                rule: Notification = decode_object("notification", document)
                if (cleaned := without_secrets(rule)) != rule:
                    rows.append((_json(cleaned), id, since))
            if not rows:
                return
            overwrite_deleted(self._connection)
            with self._transaction():
                self._connection.executemany(
                    "UPDATE objects SET document = ? WHERE kind = 'notification' AND id = ? AND since = ?", rows
                )
            empty_log(self._connection)

    def _clean(self, id: str, before_ms: int) -> bool:
        with self._lock:
            overwrite_deleted(self._connection)
            with self._transaction():
                self._refresh()
                found = self._connection.execute(
                    "SELECT o.since, o.document, v.at FROM objects AS o LEFT JOIN versions AS v ON v.version = o.until"
                    " WHERE o.kind = 'destination' AND o.id = ?",
                    (id,),
                ).fetchall()
                rows = [PastRow(since, decode_object("destination", text), left) for since, text, left in found]
                cleaned = list(without_old_secrets(rows, before_ms))
                self._connection.executemany(
                    "UPDATE objects SET document = ? WHERE kind = 'destination' AND id = ? AND since = ?",
                    [(_json(object), id, since) for since, object in cleaned],
                )
            stored = self._state.destinations.get(id)
            for since, object in cleaned:
                if stored is not None and stored.since == since:
                    self._state.destinations[id] = Stored(object, since, stored.owner, stored.lane)
                    self._snapshot = None
            return bool(cleaned)

    def mark_ready(self, boot_id: str) -> None:
        """Say that control has finished start-up in this boot, the ``--connections`` file included."""
        with self._lock:
            before = self._connection.execute("SELECT boot_id FROM control_ready").fetchone()
            self._connection.execute(
                "INSERT INTO control_ready (id, boot_id, at) VALUES (1, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET boot_id = excluded.boot_id, at = excluded.at",
                (boot_id, self._now_ms()),
            )
            self.restarted = before is not None and before[0] == boot_id

    def catch_up(self) -> None:
        """Take note of a change that was made although PostgreSQL did not answer; costs nothing otherwise."""
        with self._lock:
            if self._is_doubtful:
                self._refresh()

    def close(self) -> None:
        """Let go of the file; idempotent."""
        with self._lock:
            self._connection.close()

    def _check(self, restored: Sequence[Edit]) -> list[Problem]:
        return check_edits(self._state, restored, self._plan_level, self.may_refer(), self.certificate_fault)

    def _changes_something(self, edit: Edit, owner: str | None) -> bool:
        if isinstance(edit, Delete):
            return True
        stored = self._stored(edit)
        return stored is None or stored.object != edit.object or owner not in (None, stored.owner)

    def _write(self, changes: Sequence[Edit], author: str, owner: str | None, ends: Offsets) -> int:
        version = self._new_version(author, ends)
        rows = [self._row(edit, version, owner, ends) for edit in changes if isinstance(edit, Put)]
        self._replace_rows(version, [(edit.kind, edit.id) for edit in changes], rows)
        return version

    def _new_version(self, author: str, ends: Offsets) -> int:
        version = self._state.version + 1
        self._insert_version(version, author, ends)
        return version

    def _note(self, version: int | None) -> None:
        """Say that a version was made, now that it is committed."""
        if version is not None:
            self.on_version(version)

    def _insert_version(self, version: int, author: str, ends: Offsets) -> None:
        if self._commits is not None:
            self._commits.give_away(version=version)
        self._connection.execute(
            "INSERT INTO versions (version, at, author, ends) VALUES (?, ?, ?, ?)",
            (version, self._now_ms(), author, _json(ends)),
        )

    def _replace_rows(self, version: int, closed: Sequence[tuple[Kind, str]], opened: Sequence[ObjectRow]) -> None:
        self._connection.executemany(
            "UPDATE objects SET until = ? WHERE kind = ? AND id = ? AND until IS NULL",
            [(version, kind, id) for kind, id in closed],
        )
        self._connection.executemany(
            "INSERT INTO objects (kind, id, since, document, owner, lane) VALUES (?, ?, ?, ?, ?, ?)", opened
        )

    def _row(self, edit: Put, version: int, owner: str | None, ends: Offsets) -> ObjectRow:
        stored = self._stored(edit)
        if owner is None and stored is not None:
            owner = stored.owner
        lane: LaneConfig | None = None
        if isinstance(edit.object, Destination):
            lane = next_lane(None if stored is None else stored.lane, edit.object, ends, self._new_lane_number)
        return edit.kind, edit.id, version, _json(edit.object), owner, None if lane is None else _json(lane)

    def _new_lane_number(self) -> int:
        ((number,),) = self._connection.execute(
            "INSERT INTO lane_numbers (id, next) VALUES (1, 2)"
            " ON CONFLICT (id) DO UPDATE SET next = lane_numbers.next + 1 RETURNING next - 1"
        ).fetchall()
        if self._commits is not None:
            self._commits.give_away(lane=number)
        return int(number)

    def _stored(self, edit: Edit) -> Stored[Any] | None:
        return self._state.of_kind(edit.kind).get(edit.id)

    def _refresh(self) -> None:
        self._is_doubtful = True
        if self._state.refresh(self._connection):
            self._snapshot = None
        self._is_doubtful = False

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with transaction(self._connection):
                yield
        except DatabaseAway:
            self._is_doubtful = True
            raise


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
