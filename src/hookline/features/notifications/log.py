"""What notification rules have said, in ``control.db``: the outages they speak of, and every message with its outcome.

An outage and the messages about it are written in one transaction, before anything is sent: after a crash a message
may be sent twice, and none is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from hookline.api.services import Services, part
from hookline.connections.notifications import Channel, Notification
from hookline.database.connect import Shared
from hookline.database.location import DatabaseLocation, location_of
from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.features.notifications.wording import Content, Key, OutageNotice

MESSAGES_KEPT_MAX = 2_000
FAILED_SHOWN_MS = 7 * 86_400_000
"""How long a channel that failed, and was not used since, counts as failing."""

What = Literal["opened", "recovered", "reminder", "summary", "test"]
MessageState = Literal["queued", "sent", "failed", "replaced"]
Said = Literal["nothing", "opened"]


class Outage:
    """Hold what one rule speaks of in one message: notices that began together. Changed by its owner, the watch."""

    def __init__(
        self,
        rule: str,
        token: str,
        opened_ms: int,
        said: Said = "nothing",
        said_ms: int | None = None,
        held: bool = False,
        id: int | None = None,
    ) -> None:
        self.id = id
        self.rule = rule
        self.token = token
        self.opened_ms = opened_ms
        self.said: Said = said
        self.said_ms = said_ms
        self.held = held
        """Whether quiet hours have kept something about it back."""
        self.notices: dict[Key, OutageNotice] = {}
        self.changed = id is None
        self.is_over = False

    @property
    def gone_ms(self) -> int | None:
        """Return when the last of its notices was over, None while one is open."""
        gone = [each.gone_ms for each in self.notices.values()]
        return None if None in gone or not gone else max(each for each in gone if each is not None)


class NewMessage(NamedTuple):
    """One message to write down, for one channel."""

    outage: Outage | None
    rule: Notification
    what: What
    channel: Channel
    content: Content


class Queued(NamedTuple):
    """A message to be sent."""

    id: int
    rule: str
    what: What
    channel: str
    content: Content
    tries: int


class SentMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One message of a notification. ``to`` is the channel without its secrets. ``state``: ``queued`` is sent or tried
    again at ``dueAt``; ``replaced`` means that the problem was over before the message could be sent."""

    id: int
    notification: str
    at: str
    what: What
    channel: str
    to: str
    title: str
    state: MessageState
    tries: int
    due_at: str | None
    sent_at: str | None
    error: str | None


_COLUMNS = "id, rule, at, what, channel_kind, shown, content, state, tries, due, sent_at, error"
_OUTAGE = "id, rule, token, opened_at, said, said_at, held"
_NOTICE = "outage, kind, subject, severity, message, next_step, count, since, gone_at"


class MessageLog:
    """Reads and writes the tables; safe to share between threads."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._database = Shared(location)

    def cursor(self) -> int | None:
        """Return the newest notice that the rules have seen, None before the first."""
        row = self._database.row("SELECT notice FROM notification_cursor WHERE id = 1")
        return None if row is None else int(row[0])

    def forget_cursor(self) -> None:
        """Begin with what is new once there is a rule again."""
        with self._database.transaction() as execute:
            execute("DELETE FROM notification_cursor")

    def outages(self) -> list[Outage]:
        """Return every outage that is not over, oldest first."""
        found: dict[int, Outage] = {}
        for id, rule, token, opened, said, said_ms, held in self._database.rows(
            f"SELECT {_OUTAGE} FROM notification_outages ORDER BY id"
        ):
            found[id] = Outage(rule, token, opened, said, said_ms, bool(held), id)
        for outage, *rest in self._database.rows(f"SELECT {_NOTICE} FROM notification_outage_notices"):
            if outage in found:
                notice = OutageNotice(*rest)
                found[outage].notices[notice.key] = notice
        return list(found.values())

    def write(self, cursor: int, outages: Iterable[Outage], messages: Sequence[NewMessage], now_ms: int) -> None:
        """Write what one look changed, in one transaction."""
        with self._database.transaction() as execute:
            execute(
                "INSERT INTO notification_cursor (id, notice) VALUES (1, ?)"
                " ON CONFLICT (id) DO UPDATE SET notice = excluded.notice",
                (cursor,),
            )
            for outage in outages:
                if outage.changed or outage.is_over:
                    _write_outage(execute, outage)
            for message in messages:
                outage_id = None if message.outage is None else message.outage.id
                if outage_id is not None and message.what == "recovered":
                    # Who has not heard that it began is told once, that it began and is over.
                    execute(
                        "UPDATE notification_messages SET state = 'replaced', due = NULL"
                        " WHERE outage = ? AND channel = ? AND state = 'queued'",
                        (outage_id, message.channel.key),
                    )
                _insert(execute, message, outage_id, now_ms, "queued", now_ms)
            if messages:
                _drop_old(execute)

    def add_test(self, message: NewMessage, now_ms: int, error: str | None, note: str | None) -> None:
        """Note a test message that was just sent, or could not be."""
        with self._database.transaction() as execute:
            _insert(execute, message, None, now_ms, "failed" if error else "sent", None, error or note, tries=1)
            _drop_old(execute)

    def follow_channels(self, rules: Sequence[Notification]) -> None:
        """Turn messages that wait for a channel which was edited to the channel that it became: the one in its place,
        else another of its kind, if nothing was written for that."""
        waiting = self._database.rows(
            "SELECT id, rule, at, channel, channel_kind FROM notification_messages WHERE due IS NOT NULL ORDER BY id"
        )
        channels = {rule.id: rule.channels for rule in rules} if waiting else {}
        for id, rule, at, key, kind in waiting:
            now = channels.get(rule, ())
            if any(channel.kind == kind for channel in now) and all(channel.key != key for channel in now):
                self._follow_channel(id, rule, at, key, [each if each.kind == kind else None for each in now])

    def _follow_channel(self, id: int, rule: str, at: int, key: str, now: Sequence[Channel | None]) -> None:
        with self._database.transaction() as execute:
            written = execute(
                "SELECT channel FROM notification_messages WHERE rule = ? AND at = ? AND what <> 'test' ORDER BY id",
                (rule, at),
            ).fetchall()
            before = list(dict.fromkeys(channel for (channel,) in written))
            free = {index: each for index, each in enumerate(now) if each is not None and each.key not in before}
            became = free.get(before.index(key)) or next(iter(free.values()), None)
            if became is not None:
                execute(
                    "UPDATE notification_messages SET channel = ?, shown = ? WHERE id = ?",
                    (became.key, became.shown, id),
                )

    def due(self, now_ms: int, limit: int, longest_ms: int) -> list[Queued]:
        """Return what is to be sent now, longest waiting first; also what would have to wait for longer than the
        longest pause, for the clock was set back since."""
        rows = self._database.rows(
            "SELECT id, rule, what, channel, content, tries FROM notification_messages WHERE due <= ? OR due > ?"
            " ORDER BY due, id LIMIT ?",
            (now_ms, now_ms + longest_ms, limit),
        )
        return [
            Queued(id, rule, what, channel, msgspec.json.decode(content, type=Content), tries)
            for id, rule, what, channel, content, tries in rows
        ]

    def tried(
        self, id: int, now_ms: int, error: str | None, due_ms: int | None = None, note: str | None = None
    ) -> None:
        """Note how sending went: sent without an error, tried again at ``due_ms``, or failed. ``note`` is what of a
        message that was sent did not arrive."""
        state = "sent" if error is None else "failed" if due_ms is None else "queued"
        with self._database.transaction() as execute:
            execute(
                "UPDATE notification_messages SET state = ?, due = ?, error = ?, tries = tries + 1, sent_at = ?"
                " WHERE id = ? AND state = 'queued'",
                (state, due_ms, error or note, now_ms if state == "sent" else None, id),
            )

    def newest(self, limit: int, before_id: int | None = None, rule: str | None = None) -> list[SentMessage]:
        """Return the newest messages, of all rules or of one."""
        rows = self._database.rows(
            f"SELECT {_COLUMNS} FROM notification_messages WHERE id < ?1 AND (rule = ?2 OR ?2 IS NULL)"
            " ORDER BY id DESC LIMIT ?3",
            (before_id or 2**62, rule, limit),
        )
        return [_shown(row) for row in rows]

    def last_of_channels(self, since_ms: int) -> list[tuple[str, str, str, str, MessageState, str | None, int]]:
        """Return rule, channel, its kind, what is shown of it, state, error and time of each channel's newest message
        that was not replaced."""
        rows = self._database.rows(
            "SELECT rule, channel, channel_kind, shown, state, error, at FROM notification_messages"
            " WHERE id IN (SELECT max(id) FROM notification_messages"
            " WHERE at >= ? AND (state IN ('sent', 'failed') OR (state = 'queued' AND tries > 1))"
            " GROUP BY rule, channel)",
            (since_ms,),
        )
        return [(rule, channel, kind, shown, state, error, at) for rule, channel, kind, shown, state, error, at in rows]

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._database.close()


def _write_outage(execute: Any, outage: Outage) -> None:
    if outage.is_over:
        execute("DELETE FROM notification_outage_notices WHERE outage = ?", (outage.id,))
        execute("DELETE FROM notification_outages WHERE id = ?", (outage.id,))
        return
    values = (outage.said, outage.said_ms, int(outage.held))
    if outage.id is None:
        ((outage.id,),) = execute(
            "INSERT INTO notification_outages (rule, token, opened_at, said, said_at, held) VALUES (?, ?, ?, ?, ?, ?)"
            " RETURNING id",
            (outage.rule, outage.token, outage.opened_ms, *values),
        ).fetchall()
    else:
        execute("UPDATE notification_outages SET said = ?, said_at = ?, held = ? WHERE id = ?", (*values, outage.id))
    execute("DELETE FROM notification_outage_notices WHERE outage = ?", (outage.id,))
    for notice in outage.notices.values():
        execute(
            f"INSERT INTO notification_outage_notices ({_NOTICE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (outage.id, *notice),
        )


def _insert(
    execute: Any,
    message: NewMessage,
    outage: int | None,
    now_ms: int,
    state: MessageState,
    due_ms: int | None,
    error: str | None = None,
    tries: int = 0,
) -> None:
    channel = message.channel
    execute(
        "INSERT INTO notification_messages (rule, outage, what, channel, channel_kind, shown, content, at, state,"
        " tries, due, sent_at, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(message.rule.id, outage, message.what, channel.key, channel.kind, channel.shown),
            msgspec.json.encode(message.content).decode(),
            *(now_ms, state, tries, due_ms, now_ms if state == "sent" else None, error),
        ),
    )


def _drop_old(execute: Any) -> None:
    execute(
        "DELETE FROM notification_messages WHERE due IS NULL AND id <= (SELECT id FROM notification_messages"
        " ORDER BY id DESC LIMIT 1 OFFSET ?)",
        (MESSAGES_KEPT_MAX,),
    )


def _shown(row: tuple[Any, ...]) -> SentMessage:
    id, rule, at, what, kind, shown, content, state, tries, due, sent, error = row
    return SentMessage(
        id=id,
        notification=rule,
        at=iso(at),
        what=what,
        channel=kind,
        to=shown,
        title=msgspec.json.decode(content, type=Content).title,
        state=state,
        tries=tries,
        due_at=None if due is None else iso(due),
        sent_at=None if sent is None else iso(sent),
        error=error,
    )


_CHANNELS = {"email": "e-mail to {}", "slack": "{}", "webhook": "webhook at {}"}


class FailingChannels:
    """Reads the newest message of each channel."""

    kinds = ("notification_failing",)

    def __init__(self, log: MessageLog) -> None:
        self._log = log

    def findings(self, moment: Moment) -> Sequence[Finding]:
        """Return a finding for each rule of which a channel that it still has could not be reached the last time."""
        if not moment.rules:
            return ()
        channels = {rule.id: {channel.key for channel in rule.channels} for rule in moment.rules}
        found: dict[str, Finding] = {}
        for rule, channel, kind, shown, state, error, at in self._log.last_of_channels(moment.now_ms - FAILED_SHOWN_MS):
            if state != "sent" and channel in channels.get(rule, ()) and rule not in found:
                found[rule] = Finding(self.kinds[0], rule, f"{_CHANNELS[kind].format(shown)}: {error}", since_ms=at)
        return list(found.values())

    def close(self) -> None:
        """Nothing is held: whoever made the log closes it."""


@part
def message_log(services: Services) -> MessageLog:
    """Return what rules have said."""
    return MessageLog(location_of(services.settings, "control"))
