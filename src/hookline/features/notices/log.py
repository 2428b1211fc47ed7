"""The notices in ``control.db``: one row for each time that something was the matter, and what is still to be sent.

At most one notice of a kind and subject is open. Resolved ones are kept up to a bound, the newest longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from hookline.database.connect import Shared
from hookline.database.location import DatabaseLocation
from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding, OpenNotice
from hookline.telemetry.notices import KINDS, page_of, sentence

RESOLVED_KEPT_MAX = 1_000

WORST_FIRST = "CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END"
"""The order of notices by severity, whose names sort otherwise."""


class Notice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One notice as the API and the pages show it. ``since`` is when it began, ``page`` the page for the next step
    (empty if there is none). ``webhookError`` says why it was not sent to its webhooks."""

    id: int
    kind: str
    severity: str
    subject: str
    message: str
    next_step: str
    count: int
    since: str
    opened_at: str
    last_seen_at: str
    resolved_at: str | None = None
    acknowledged_at: str | None = None
    webhooks_waiting: int = 0
    webhook_error: str | None = None
    page: str = ""


class Unsent(NamedTuple):
    """A notice of which some webhooks do not know yet. ``failed`` says why others, which are no longer tried, do not
    get it."""

    notice: Notice
    urls: tuple[str, ...]
    sends: int
    failed: str


_COLUMNS = (
    "id, kind, severity, subject, message, next_step, count, opened_at, last_seen_at, resolved_at, acknowledged_at,"
    " unsent, sends, send_error, since"
)


class NoticeLog:
    """Reads and writes the table; safe to share between threads."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._database = Shared(location)

    def open_ones(self) -> dict[tuple[str, str], OpenNotice]:
        """Return what is open, by kind and subject."""
        rows = self._database.rows(
            "SELECT kind, subject, id, message, count, opened_at, last_seen_at, since FROM notices"
            " WHERE resolved_at IS NULL"
        )
        return {(kind, subject): OpenNotice(*rest) for kind, subject, *rest in rows}

    def last_id(self) -> int:
        """Return the id of the newest notice, 0 before the first."""
        return int(self._database.rows("SELECT coalesce(max(id), 0) FROM notices")[0][0])

    def last_ms(self, kind: str) -> int | None:
        """Return when the newest notice of a kind was opened."""
        rows = self._database.rows("SELECT max(opened_at) FROM notices WHERE kind = ?", (kind,))
        found: int | None = rows[0][0]
        return found

    def to_notify(self, after_id: int) -> list[Notice]:
        """Return every notice that is open, and those behind ``after_id`` that may be over again, oldest first."""
        rows = self._database.rows(
            f"SELECT {_COLUMNS} FROM notices WHERE resolved_at IS NULL OR id > ? ORDER BY id", (after_id,)
        )
        return [_notice(row) for row in rows]

    def newest(
        self,
        limit: int,
        before_id: int | None = None,
        is_open: bool | None = None,
        kind: str | None = None,
        subject: str | None = None,
    ) -> list[Notice]:
        """At most ``limit`` notices older than ``before_id``: all, or only open or resolved ones, of one kind, about
        one subject."""
        rows = self._database.rows(
            f"SELECT {_COLUMNS} FROM notices WHERE id < ?1 AND ((resolved_at IS NULL) = ?2 OR ?2 IS NULL)"
            " AND (kind = ?3 OR ?3 IS NULL) AND (subject = ?4 OR ?4 IS NULL) ORDER BY id DESC LIMIT ?5",
            (before_id or 2**62, is_open, kind, subject, limit),
        )
        return [_notice(row) for row in rows]

    def worst(self, limit: int, with_acknowledged: bool = False) -> list[Notice]:
        """Return at most ``limit`` open notices: those that nobody has seen first, the most severe of them, the
        newest."""
        unseen = "" if with_acknowledged else " AND acknowledged_at IS NULL"
        rows = self._database.rows(
            f"SELECT {_COLUMNS} FROM notices WHERE resolved_at IS NULL{unseen} ORDER BY acknowledged_at IS NOT NULL,"
            f" {WORST_FIRST}, id DESC LIMIT ?",
            (limit,),
        )
        return [_notice(row) for row in rows]

    def get(self, notice_id: int) -> Notice | None:
        """Return the notice with this id, None when there is none."""
        rows = self._database.rows(f"SELECT {_COLUMNS} FROM notices WHERE id = ?", (notice_id,))
        return _notice(rows[0]) if rows else None

    def acknowledge(self, notice_id: int, now_ms: int) -> Notice | None:
        """Note that somebody has seen it; the first time counts."""
        with self._database.transaction() as execute:
            execute(
                "UPDATE notices SET acknowledged_at = coalesce(acknowledged_at, ?) WHERE id = ?", (now_ms, notice_id)
            )
        return self.get(notice_id)

    def settle(
        self,
        opened: Sequence[tuple[Finding, int]],
        seen: Sequence[tuple[int, Finding, int]],
        resolved: Sequence[int],
        now_ms: int,
        webhooks: Sequence[str],
    ) -> None:
        """Write what one look changed, in one transaction.

        ``opened`` and ``seen`` (with the notice's id) come with how many subjects the finding stands for. What is
        opened or resolved is due to be sent to ``webhooks``.
        """
        unsent, due = (_json(webhooks), 0) if webhooks else (None, None)
        with self._database.transaction() as execute:
            for finding, others in opened:
                kind = KINDS[finding.kind]
                message = sentence(finding.kind, finding.subject, finding.detail, others)
                resolved_ms = now_ms if kind.passing else None
                what = (finding.kind, finding.subject, kind.severity, message, kind.next_step, finding.count)
                execute(
                    "INSERT INTO notices (kind, subject, severity, message, next_step, count, opened_at, last_seen_at,"
                    " resolved_at, unsent, sends, send_due, since) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)",
                    (*what, now_ms, now_ms, resolved_ms, unsent, due, finding.since_ms),
                )
            for id, finding, others in seen:
                message = sentence(finding.kind, finding.subject, finding.detail, others)
                execute(
                    "UPDATE notices SET message = ?, count = ?, last_seen_at = ? WHERE id = ?",
                    (message, finding.count, now_ms, id),
                )
            for id in resolved:
                execute(
                    "UPDATE notices SET resolved_at = ?, unsent = ?, sends = 0, send_due = ?, send_error = NULL"
                    " WHERE id = ?",
                    (now_ms, unsent, due, id),
                )
            execute(
                "DELETE FROM notices WHERE resolved_at IS NOT NULL AND id <= (SELECT id FROM notices"
                " WHERE resolved_at IS NOT NULL ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (RESOLVED_KEPT_MAX,),
            )

    def due(self, now_ms: int, limit: int) -> list[Unsent]:
        """Return what is to be sent now, longest waiting first."""
        rows = self._database.rows(
            f"SELECT {_COLUMNS} FROM notices WHERE send_due <= ? ORDER BY send_due, id LIMIT ?", (now_ms, limit)
        )
        return [
            Unsent(_notice(row), msgspec.json.decode(row[11], type=tuple[str, ...]), row[12], _errors(row[13])[0])
            for row in rows
        ]

    def sent(self, unsent: Unsent, left: Sequence[str], failed: str, error: str, due_ms: int | None) -> None:
        """Note how sending went: the URLs still to be tried, and when, why others ``failed``, and the ``error`` of
        these, each on one line; nothing if it was resolved meanwhile."""
        with self._database.transaction() as execute:
            execute(
                "UPDATE notices SET unsent = ?, sends = sends + 1, send_due = ?, send_error = ?"
                " WHERE id = ? AND sends = ? AND (resolved_at IS NULL) = ?",
                (
                    _json(left) if left and due_ms is not None else None,
                    due_ms if left else None,
                    f"{failed}\n{error}" if failed or error else None,
                    unsent.notice.id,
                    unsent.sends,
                    unsent.notice.resolved_at is None,
                ),
            )

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._database.close()


def _notice(row: tuple[Any, ...]) -> Notice:
    id, kind, severity, subject, message, next_step, count, opened, seen, resolved, acknowledged, unsent, *rest = row
    _, error, since = rest
    return Notice(
        id=id,
        kind=kind,
        severity=severity,
        subject=subject,
        message=message,
        next_step=next_step,
        count=count,
        since=iso(opened if since is None else since),
        opened_at=iso(opened),
        last_seen_at=iso(seen),
        resolved_at=None if resolved is None else iso(resolved),
        acknowledged_at=None if acknowledged is None else iso(acknowledged),
        webhooks_waiting=0 if unsent is None else len(msgspec.json.decode(unsent)),
        webhook_error="; ".join(filter(None, _errors(error))) or None,
        page=page_of(kind, subject),
    )


def _errors(text: str | None) -> tuple[str, str]:
    """Return why URLs failed that are no longer tried, and why those failed that are."""
    failed, _, error = (text or "").rpartition("\n")
    return failed, error


def _json(urls: Sequence[str]) -> str:
    return msgspec.json.encode(tuple(urls)).decode()
