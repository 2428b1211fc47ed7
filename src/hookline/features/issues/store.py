"""The tables of issues in ``control.db``: what failed alike at one destination, and what people said of it.

What one read of attempts comes to is written in one transaction with how far was read, so nothing counts twice. The
number of issues is bounded, whatever receivers answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal, get_args

import msgspec

from hookline.database.connect import Shared
from hookline.database.connection import replacing
from hookline.database.location import DatabaseLocation
from hookline.database.open import ensure
from hookline.outcomes.rows import HOUR_MS, CauseCount

ISSUES_MAX = 5_000
"""Beyond, the resolved issues that were seen longest ago are forgotten, then others."""
NAMED_MAX = 20
"""Issues of one destination, outcome and HTTP status. What is answered otherwise then shares one more issue: a receiver
may say something new each time."""
NOTE_CHARACTERS_MAX = 1_000
HOURS_KEPT = 5 * 24
"""As many as a chart has points."""
IDS_PER_STATEMENT = 500

IssueState = Literal["open", "ignored", "resolved"]
STATES: tuple[IssueState, ...] = get_args(IssueState)
Because = Literal["delivered", "disabled", "deleted"]


class Issue(msgspec.Struct, kw_only=True):
    """One row. Times are milliseconds; ``noted_at`` is by the service's own clock. ``cause`` None: all other answers
    with this outcome and status. ``attempts_before``: of ``attempts``, those before it was last opened or ignored."""

    id: str
    destination: str
    cause: int | None
    outcome: str
    http_status: int | None
    message: str | None
    """None: nothing is kept any more that says it."""
    state: IssueState
    first_seen: int
    last_seen: int
    noted_at: int
    opened_at: int
    openings: int
    attempts: int
    events: int
    attempts_before: int = 0
    at_least: int = 0
    """1: some attempts may have gone before they were counted."""
    resolved_at: int | None = None
    resolved_because: Because | None = None
    ignored_at: int | None = None
    ignored_by: str | None = None
    note: str | None = None
    note_by: str | None = None
    note_at: int | None = None
    sample: int | None = None
    """The newest of its attempts, as far as it is kept."""

    def see(self, count: CauseCount, noted_at: int) -> None:
        """Add what was counted; one that was resolved is open again."""
        if self.state == "resolved":
            self.state, self.opened_at = "open", count.first_ms
            self.openings += 1
            self.attempts_before = self.attempts
            self.resolved_at = self.resolved_because = None
        self.attempts += count.attempts
        self.events += count.events
        self.first_seen = min(self.first_seen, count.first_ms)
        self.last_seen = max(self.last_seen, count.last_ms)
        self.noted_at = noted_at
        self.sample = count.last_id


COLUMNS = Issue.__struct_fields__
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM issues"
_PUT = replacing("issues", ("id",), COLUMNS[1:])
_ADD_HOUR = (
    "INSERT INTO issue_hours (issue, at, attempts) VALUES (?, ?, ?)"
    " ON CONFLICT (issue, at) DO UPDATE SET attempts = issue_hours.attempts + excluded.attempts"
)
_SET_READER = replacing("issue_reader", ("id",), ("last_id", "last_at"))
_SELECT_READER = "SELECT last_id, last_at FROM issue_reader WHERE id = 1"

Execute = Callable[..., Any]
Reader = tuple[int, int]
"""The id of the last attempt that was read, and its time."""


def issue_id(destination: str, cause: int | None, outcome: str = "", http_status: int | None = None) -> str:
    """Return the id of an issue: the same whenever it comes again."""
    what = f"{outcome}\0{http_status or ''}" if cause is None else str(cause)
    return blake2b(f"{destination}\0{what}".encode(), digest_size=8).hexdigest()


class IssueStore:
    """Safe to share between threads."""

    def __init__(self, location: DatabaseLocation) -> None:
        ensure(location, "control")
        self._database = Shared(location)
        self._is_log_empty = True
        """Whether no word that was taken stands in the log; where it does, ``keep_only`` tries again."""

    # What people ask for

    def newest(
        self,
        limit: int,
        before: tuple[int, str] | None = None,
        state: str | None = None,
        destination: str | None = None,
    ) -> list[Issue]:
        """Return at most ``limit`` issues, last seen first, after the one with ``before`` (last seen, id)."""
        at, id = before or (1 << 62, "")
        rows = self._database.rows(
            f"{_SELECT} WHERE (last_seen < ?1 OR (last_seen = ?1 AND id > ?2)) AND (state = ?3 OR ?3 IS NULL)"
            " AND (destination = ?4 OR ?4 IS NULL) ORDER BY last_seen DESC, id LIMIT ?5",
            (at, id, state, destination, limit),
        )
        return [_issue(row) for row in rows]

    def get(self, id: str) -> Issue | None:
        """Return one issue."""
        rows = self._database.rows(f"{_SELECT} WHERE id = ?", (id,))
        return _issue(rows[0]) if rows else None

    def counts(self, destination: str | None = None) -> dict[str, int]:
        """Return how many issues there are, by state."""
        rows = self._database.rows(
            "SELECT state, count(*) FROM issues WHERE destination = ?1 OR ?1 IS NULL GROUP BY state", (destination,)
        )
        return {**dict.fromkeys(STATES, 0), **dict(rows)}

    def worst(self, limit: int) -> list[Issue]:
        """Return the open issues that concern most events."""
        rows = self._database.rows(
            f"{_SELECT} WHERE state = 'open' ORDER BY events DESC, last_seen DESC, id LIMIT ?", (limit,)
        )
        return [_issue(row) for row in rows]

    def destinations(self, limit: int) -> list[str]:
        """Return the destinations that have issues, by id."""
        return [
            id
            for (id,) in self._database.rows(
                "SELECT DISTINCT destination FROM issues ORDER BY destination LIMIT ?", (limit,)
            )
        ]

    def open_by_destination(self) -> dict[str, int]:
        """Return how many open issues each destination has."""
        return dict(
            self._database.rows("SELECT destination, count(*) FROM issues WHERE state = 'open' GROUP BY destination")
        )

    def hours(self, id: str) -> dict[int, int]:
        """Return the failed attempts of an issue by the hour (ms) they were made in."""
        return dict(self._database.rows("SELECT at, attempts FROM issue_hours WHERE issue = ?", (id,)))

    def named_causes(self, issue: Issue) -> tuple[int, ...]:
        """Return the causes that have an issue of their own beside one of all other answers."""
        rows = self._database.rows(
            "SELECT cause FROM issues WHERE destination = ?1 AND outcome = ?2 AND cause IS NOT NULL"
            " AND (http_status = ?3 OR (http_status IS NULL AND ?3 IS NULL)) ORDER BY cause LIMIT ?4",
            (issue.destination, issue.outcome, issue.http_status, NAMED_MAX),
        )
        return tuple(cause for (cause,) in rows)

    # What people say

    def ignore(self, id: str, ignored: bool, author: str, now_ms: int) -> Issue | None:
        """Ignore an issue, or have it open again; the first to ignore it counts."""
        with self._database.transaction() as execute:
            issue = _one(execute, id)
            if issue is not None and ignored and issue.state != "ignored":
                issue.state, issue.ignored_at, issue.ignored_by = "ignored", now_ms, author
                issue.attempts_before = issue.attempts
                issue.resolved_at = issue.resolved_because = None
            elif issue is not None and not ignored and issue.state == "ignored":
                issue.state, issue.ignored_at, issue.ignored_by = "open", None, None
            if issue is not None:
                _put(execute, issue)
        return issue

    def note(self, id: str, note: str, author: str, now_ms: int) -> Issue | None:
        """Write the note of an issue; an empty one takes it away."""
        with self._database.transaction() as execute:
            issue = _one(execute, id)
            if issue is not None:
                issue.note, issue.note_by, issue.note_at = (note, author, now_ms) if note else (None, None, None)
                _put(execute, issue)
        return issue

    # What the watch finds

    def reader(self) -> Reader | None:
        """Return how far attempts were read; None before the first time."""
        row = self._database.row(_SELECT_READER)
        return None if row is None else (row[0], row[1])

    def move_reader(self, reader: Reader, missed: bool) -> None:
        """Go on elsewhere. ``missed``: what lies between was not counted, and counts say so from now on."""
        with self._database.transaction() as execute:
            execute(_SET_READER, (1, *reader))
            if missed:
                execute("UPDATE issues SET at_least = 1 WHERE state <> 'resolved'")

    def add(
        self,
        counts: Sequence[CauseCount],
        words: Callable[[CauseCount], str | None],
        before: Reader,
        after: Reader,
        noted_at: int,
        at_least: bool = False,
    ) -> Sequence[Issue]:
        """Add what was counted between two places of the reader; return the issues that were opened, or opened again.

        ``words`` returns what a cause says: it is asked for new issues, and for those that have lost theirs.
        """
        with self._database.transaction() as execute:
            if (row := execute(_SELECT_READER).fetchone()) is not None and tuple(row) != before:
                return ()  # it was written, although the answer to the commit was lost
            gathered = _Gathering(execute, counts, words, noted_at, at_least)
            for count in counts:
                gathered.add(count)
            gathered.write()
            execute(_SET_READER, (1, *after))
            if gathered.created:
                _forget_beyond(execute)
        return gathered.opened

    def open_ones(self) -> list[Issue]:
        """Return the issues that may be resolved: open ones, and ignored ones, whose destination may be deleted."""
        return [_issue(row) for row in self._database.rows(f"{_SELECT} WHERE state <> 'resolved'")]

    def resolve(self, resolved: Mapping[str, Because], seen_until: Mapping[str, int], now_ms: int) -> None:
        """Resolve issues, but for those that were seen since somebody looked (``seen_until``, ms)."""
        with self._database.transaction() as execute:
            for id, because in resolved.items():
                execute(
                    "UPDATE issues SET state = 'resolved', resolved_at = ?, resolved_because = ?, ignored_at = NULL,"
                    " ignored_by = NULL WHERE id = ? AND state <> 'resolved' AND last_seen <= ?",
                    (now_ms, because, id, seen_until[id]),
                )

    def page(self, after_id: str, limit: int) -> list[Issue]:
        """Return issues in the order of their ids."""
        rows = self._database.rows(f"{_SELECT} WHERE id > ? ORDER BY id LIMIT ?", (after_id, limit))
        return [_issue(row) for row in rows]

    def keep_only(self, samples: Mapping[str, int], silent: Sequence[str], gone: Sequence[str], hour_ms: int) -> None:
        """Note other samples, take the words of issues that nothing says any more, and forget issues; drop the hours
        before one."""
        with self._database.transaction() as execute:
            for id, sample in samples.items():
                execute("UPDATE issues SET sample = ? WHERE id = ?", (sample, id))
            for id in silent:
                execute("UPDATE issues SET sample = NULL, message = NULL WHERE id = ?", (id,))
            for id in gone:
                execute("DELETE FROM issues WHERE id = ? AND state = 'resolved'", (id,))
            execute(
                "DELETE FROM issue_hours WHERE at < ? OR NOT EXISTS"
                " (SELECT 1 FROM issues WHERE issues.id = issue_hours.issue)",
                (hour_ms,),
            )
        if silent or gone or not self._is_log_empty:
            self._is_log_empty = self._database.overwrite_gaps()  # where the words still stand

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._database.close()


class _Gathering:
    """Hold what one transaction adds."""

    def __init__(
        self,
        execute: Execute,
        counts: Sequence[CauseCount],
        words: Callable[[CauseCount], str | None],
        noted_at: int,
        at_least: bool,
    ) -> None:
        self.created = False
        self.opened: list[Issue] = []
        self._execute = execute
        self._words = words
        self._noted_at = noted_at
        self._at_least = at_least
        self._issues = _by_ids(execute, {issue_id(each.destination, each.cause) for each in counts})
        self._hours: dict[tuple[str, int], int] = {}
        self._named: dict[tuple[str, str, int | None], int] = {}
        self._changed: dict[str, Issue] = {}

    def add(self, count: CauseCount) -> None:
        issue = self._issue(count)
        if issue.state == "resolved":
            self.opened.append(issue)
        issue.see(count, self._noted_at)
        if issue.message is None and issue.cause is not None:
            issue.message = self._words(count)
        self._changed[issue.id] = issue
        hour = issue.id, count.hour_ms
        self._hours[hour] = self._hours.get(hour, 0) + count.attempts

    def write(self) -> None:
        for issue in self._changed.values():
            _put(self._execute, issue)
        for (id, hour_ms), attempts in self._hours.items():
            self._execute(_ADD_HOUR, (id, hour_ms, attempts))

    def _issue(self, count: CauseCount) -> Issue:
        found = self._issues.get(issue_id(count.destination, count.cause))
        return found if found is not None else self._new(count)

    def _new(self, count: CauseCount) -> Issue:
        kind = count.destination, count.outcome, count.http_status
        if self._names(kind) < NAMED_MAX:
            self._named[kind] += 1
            return self._made(count, count.cause)
        others = issue_id(count.destination, None, count.outcome, count.http_status)
        if others not in self._issues:
            self._issues |= _by_ids(self._execute, {others})
        return self._issues.get(others) or self._made(count, None)

    def _names(self, kind: tuple[str, str, int | None]) -> int:
        if kind not in self._named:
            ((self._named[kind],),) = self._execute(
                "SELECT count(*) FROM issues WHERE destination = ?1 AND outcome = ?2 AND cause IS NOT NULL"
                " AND (http_status = ?3 OR (http_status IS NULL AND ?3 IS NULL))",
                kind,
            ).fetchall()
        return self._named[kind]

    def _made(self, count: CauseCount, cause: int | None) -> Issue:
        issue = Issue(
            id=issue_id(count.destination, cause, count.outcome, count.http_status),
            destination=count.destination,
            cause=cause,
            outcome=count.outcome,
            http_status=count.http_status,
            message=None,
            state="open",
            first_seen=count.first_ms,
            last_seen=count.last_ms,
            noted_at=self._noted_at,
            opened_at=count.first_ms,
            openings=1,
            attempts=0,
            events=0,
            at_least=int(self._at_least),
        )
        self.created = True
        self.opened.append(issue)
        self._issues[issue.id] = issue
        return issue


def _issue(row: Sequence[Any]) -> Issue:
    return Issue(**dict(zip(COLUMNS, row, strict=True)))


def _one(execute: Execute, id: str) -> Issue | None:
    row = execute(f"{_SELECT} WHERE id = ?", (id,)).fetchone()
    return None if row is None else _issue(row)


def _by_ids(execute: Execute, ids: Iterable[str]) -> dict[str, Issue]:
    wanted, found = sorted(ids), {}
    for first in range(0, len(wanted), IDS_PER_STATEMENT):
        some = wanted[first : first + IDS_PER_STATEMENT]
        rows = execute(f"{_SELECT} WHERE id IN ({', '.join('?' * len(some))})", tuple(some)).fetchall()
        found.update({row[0]: _issue(row) for row in rows})
    return found


def _put(execute: Execute, issue: Issue) -> None:
    execute(_PUT, msgspec.structs.astuple(issue))


def _forget_beyond(execute: Execute) -> None:
    ((count,),) = execute("SELECT count(*) FROM issues").fetchall()
    if count > ISSUES_MAX:
        execute(
            "DELETE FROM issues WHERE id IN (SELECT id FROM issues"
            " ORDER BY CASE state WHEN 'resolved' THEN 0 ELSE 1 END, last_seen, id LIMIT ?)",
            (count - ISSUES_MAX,),
        )


def first_hour_kept(now_ms: int) -> int:
    """Return the first hour (ms) that is kept."""
    return (now_ms // HOUR_MS - HOURS_KEPT) * HOUR_MS
