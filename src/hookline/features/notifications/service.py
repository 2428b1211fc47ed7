"""Follows the notices for every rule, writes down what is to be said, and sends it.

One outage is one message and one "recovered": notices that begin within ``notices.group_window`` are said together,
and the end is said once all of them have been gone for ``notices.recovered_after``. Only the control process that has
the turn runs this, so with several machines one of them speaks.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

import msgspec

from hookline.api.services import Services, part
from hookline.beats import next_beat
from hookline.connections.notifications import Channel, Notification
from hookline.connections.store import Store
from hookline.database.sqlite import DatabaseAway
from hookline.database.sqlite import engine as sqlite
from hookline.events.timestamps import iso
from hookline.features.fleet.metrics import OwnMetrics
from hookline.features.fleet.service import own_metrics
from hookline.features.insights.service import series_log
from hookline.features.notices.conditions.finding import Finding
from hookline.features.notices.conditions.traffic import FailedShare
from hookline.features.notices.log import Notice, NoticeLog
from hookline.features.notices.service import notice_log
from hookline.features.notifications.channels import Channels, Result
from hookline.features.notifications.log import (
    MessageLog,
    NewMessage,
    Outage,
    Queued,
    What,
    message_log,
)
from hookline.features.notifications.rules import SHARE_KIND, is_about, is_past, is_quiet, reaches
from hookline.features.notifications.wording import TEXT_CHARACTERS_MAX, Content, Key, OutageNotice, content_of
from hookline.settings import Settings
from hookline.telemetry.log import logger
from hookline.telemetry.notices import KINDS, OTHERS, TRIGGER_OF, sentence

POLL_SECONDS = 5.0
RETRY_SECONDS = (5.0, 30.0, 120.0, 600.0, 1800.0)
"""Pauses between the tries of one message; after the last one it has failed."""
AT_ONCE_MAX = 20
"""Messages being sent at the same time."""
TOKEN_BYTES = 8


class Turn(NamedTuple):
    """Hold what one look works with: the time, the rules by id, the notices, the newest that was seen before, and what
    rules find by their shares."""

    now_ms: int
    rules: Mapping[str, Notification]
    notices: Sequence[Notice]
    seen: int
    shares: dict[str, Mapping[str, Finding] | None]


class Tried(NamedTuple):
    """Hold what came of sending a message, until it is written down."""

    at_ms: int
    error: str | None = None
    due_ms: int | None = None
    note: str | None = None


class NotificationWatch:
    """The one loop."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        notices: NoticeLog,
        log: MessageLog,
        channels: Channels,
        metrics: OwnMetrics,
        shares: FailedShare,
        clock: Callable[[], float] = time.time,
        retry_seconds: Sequence[float] = RETRY_SECONDS,
    ) -> None:
        self._window_ms = int(settings.notices.group_window * 1000)
        self._calm_ms = int(settings.notices.recovered_after * 1000)
        self._pages = pages_url(settings)
        self._store = store
        self._notices = notices
        self._log = log
        self._channels = channels
        self._metrics = metrics
        self._shares = shares
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._has_cursor = True
        self._tried: dict[int, Tried] = {}
        """By message: what is not written yet, because the disk refuses it. It is not sent again meanwhile."""

    async def run_forever(self) -> None:
        """Look and send every few seconds until cancelled."""
        while True:
            try:
                await asyncio.to_thread(self.look)
                await self.send_due()
            except DatabaseAway:
                pass  # the pool has said so
            except (sqlite.Error, OSError) as error:  # the disk is full: it is looked again
                logger().warning("notifications_not_written", error=str(error))
            except Exception:  # noqa: BLE001 - the loop's border: a fault of ours must not end all notifications
                logger().error("notification_watch_failed", exc_info=True)
            await next_beat(POLL_SECONDS)

    def look(self) -> None:
        """Compare the notices with what was said of them, and write down what is to be said."""
        every = self._rules()
        self._log.follow_channels(every)
        rules = {rule.id: rule for rule in every if rule.enabled}
        cursor = self._log.cursor() if rules or self._has_cursor else None
        if not rules:
            if cursor is not None:
                self._log.write(cursor, self._ended_silently(), (), self._now_ms())
                self._log.forget_cursor()
            self._has_cursor = False
            return
        self._has_cursor = True
        begins_with = self._notices.last_id() if cursor is None else cursor
        turn = Turn(self._now_ms(), rules, self._notices.to_notify(begins_with), begins_with, {})
        outages = self._log.outages()
        self._follow(turn, outages)
        messages = self._say(turn, outages)
        newest = max([begins_with, *(notice.id for notice in turn.notices)])
        if newest != cursor or messages or any(outage.changed or outage.is_over for outage in outages):
            self._log.write(newest, outages, messages, turn.now_ms)
        for message in messages:
            logger().info(
                "notification_queued", notification=message.rule.id, what=message.what, channel=message.channel.kind
            )

    async def send_due(self) -> None:
        """Send everything that is due now; what came of it is written again where the disk refused that."""
        while due := await asyncio.to_thread(self._due):
            await asyncio.gather(*map(self._send, due))
        for message_id in list(self._tried):
            await self._write(message_id)

    async def test(self, rule: Notification, channel: Channel) -> tuple[Result, int]:
        """Send a test message at once; return what came of it and how many milliseconds it took."""
        content = self._content("test", rule, (), secrets.token_hex(TOKEN_BYTES), self._now_ms())
        begun = time.monotonic()
        result = await self._channels.send(channel, content, f"notification-test-{content.token}")
        took_ms = int((time.monotonic() - begun) * 1000)
        message = NewMessage(None, rule, "test", channel, content)
        await asyncio.to_thread(self._log.add_test, message, self._now_ms(), result.error, result.note)
        self._metrics.notifications["failed" if result.error else "sent"] += 1
        return result, took_ms

    # what is so

    def _follow(self, turn: Turn, outages: list[Outage]) -> None:
        """Bring the outages up to date with the notices; new ones are appended."""
        for outage in [each for each in outages if each.rule not in turn.rules]:
            outage.is_over = True  # its rule was deleted or disabled: nobody is told of its end
        for rule in turn.rules.values():
            mine = [outage for outage in outages if outage.rule == rule.id]
            about = [
                judged
                for notice in turn.notices
                if is_about(rule, notice.kind, notice.subject)
                and (judged := self._judged(rule, notice, mine, turn)) is not None
            ]
            present = {(notice.kind, notice.subject): notice for notice in about if notice.resolved_at is None}
            for outage in mine:
                self._keep_up(rule, outage, present, turn)
            for notice in about:
                self._take(rule, notice, mine, outages, turn)

    def _judged(self, rule: Notification, notice: Notice, mine: Sequence[Outage], turn: Turn) -> Notice | None:
        """Return a notice as it is for a rule, None where it is none: a share of failed requests is one notice for all
        rules, and each has a share and a time of its own."""
        if notice.kind != SHARE_KIND or notice.subject == OTHERS:
            return notice
        key = (notice.kind, notice.subject)
        known = next((outage.notices[key] for outage in mine if key in outage.notices), None)
        shares = self._shares_of(rule, turn)
        if shares is None:  # what is known stays, and nothing else waits for it
            return None if known is None else notice
        found = shares.get(notice.subject)
        if found is None or (found.weak and known is None):
            return None
        since = iso(turn.now_ms) if notice.id <= turn.seen else notice.since
        return msgspec.structs.replace(
            notice,
            message=sentence(*key, found.detail),
            count=found.count,
            since=since if known is None else iso(known.since_ms),
        )

    def _shares_of(self, rule: Notification, turn: Turn) -> Mapping[str, Finding] | None:
        """Return what a rule finds by its share, None while the series cannot be read; once in each look."""
        if rule.id not in turn.shares:
            turn.shares[rule.id] = None
            with suppress(sqlite.Error, OSError):
                turn.shares[rule.id] = self._shares.of_rule(rule, turn.now_ms)
        return turn.shares[rule.id]

    def _keep_up(self, rule: Notification, outage: Outage, present: Mapping[Key, Notice], turn: Turn) -> None:
        for key, known in list(outage.notices.items()):
            notice = present.get(key)
            if notice is not None:
                now = _outage_notice(notice)
                if now != known:
                    outage.notices[key] = now
                    outage.changed = outage.changed or now[:5] != known[:5] or known.gone_ms is not None
            elif not is_about(rule, *key):  # the rule was changed, and this is not over
                del outage.notices[key]
                outage.changed = True
            elif known.gone_ms is None:
                outage.notices[key] = known._replace(gone_ms=turn.now_ms)
                outage.changed = True
        outage.is_over = outage.is_over or not outage.notices

    def _take(
        self, rule: Notification, notice: Notice, mine: list[Outage], all_of_them: list[Outage], turn: Turn
    ) -> None:
        """Add a notice to the outage that it belongs to, or begin one."""
        key = (notice.kind, notice.subject)
        is_passing = KINDS[notice.kind].passing
        known = next(
            (each for each in mine if key in each.notices and (not is_passing or each.said == "nothing")), None
        )
        if known is not None:
            if is_passing:  # each is seen once: what it says is added to what waits
                known.notices[key] = _joined(known.notices[key], _outage_notice(notice))
                known.changed = True
            return
        if notice.resolved_at is not None and not is_passing:
            return
        new = _outage_notice(notice)
        if not reaches(rule, notice, new.since_ms, turn.now_ms):
            return
        same = (TRIGGER_OF[notice.kind], notice.subject)
        joined = next((each for each in mine if _is_of(each, same) or self._is_collecting(each, turn.now_ms)), None)
        if joined is None or (is_passing and joined.said != "nothing"):
            joined = Outage(rule.id, secrets.token_hex(TOKEN_BYTES), turn.now_ms)
            mine.append(joined)
            all_of_them.append(joined)
        joined.notices[key] = new
        joined.changed = True

    def _is_collecting(self, outage: Outage, now_ms: int) -> bool:
        return outage.said == "nothing" and not is_past(outage.opened_ms, now_ms, self._window_ms)

    # what is said

    def _say(self, turn: Turn, outages: Sequence[Outage]) -> list[NewMessage]:
        messages: list[NewMessage] = []
        for rule in turn.rules.values():
            mine = [outage for outage in outages if outage.rule == rule.id and not outage.is_over]
            wanted = []
            for outage in mine:
                what = self._wanted(rule, outage, turn.now_ms)
                if outage.held and what in (None, "reminder"):  # its end was held back, and it began again
                    outage.held, outage.changed = False, True
                if what is not None:
                    wanted.append((outage, what))
            spoken = [each for each in wanted if not self._hold_back(rule, *each, turn.now_ms)]
            held = [outage for outage, _ in spoken if outage.held]
            if held:
                notices = [notice for outage in held for notice in outage.notices.values()]
                messages += self._messages("summary", rule, None, notices, secrets.token_hex(TOKEN_BYTES), turn.now_ms)
            for outage, what in spoken:
                if not outage.held:
                    notices = list(outage.notices.values())
                    messages += self._messages(what, rule, outage, notices, outage.token, turn.now_ms)
                self._has_said(outage, what, turn.now_ms)
        return messages

    def _wanted(self, rule: Notification, outage: Outage, now_ms: int) -> What | None:
        gone_ms = outage.gone_ms
        only_passing = all(KINDS[kind].passing for kind, _ in outage.notices)
        is_over = gone_ms is not None and (only_passing or is_past(gone_ms, now_ms, self._calm_ms))
        if outage.said == "nothing":
            return "opened" if is_past(outage.opened_ms, now_ms, self._window_ms) else None
        if is_over:
            return "recovered"
        remind, last_ms = rule.remind_seconds, outage.said_ms or outage.opened_ms
        return "reminder" if remind and gone_ms is None and is_past(last_ms, now_ms, int(remind * 1000)) else None

    def _hold_back(self, rule: Notification, outage: Outage, what: What, now_ms: int) -> bool:
        """Return whether quiet hours keep it back, and note so; a reminder is not made up for."""
        quiet = rule.quiet_hours
        if quiet is None or not is_quiet(quiet, now_ms):
            return False
        if {notice.severity for notice in outage.notices.values()} & set(quiet.except_):
            return False
        if what != "reminder" and not outage.held:
            outage.held = outage.changed = True
        return True

    def _has_said(self, outage: Outage, what: What, now_ms: int) -> None:
        gone_ms = outage.gone_ms
        only_passing = all(KINDS[kind].passing for kind, _ in outage.notices)
        was_summary, outage.held = outage.held, False
        outage.said, outage.said_ms, outage.changed = "opened", now_ms, True
        # A summary has said of what is over that it is.
        is_over = gone_ms is not None and is_past(gone_ms, now_ms, self._calm_ms)
        outage.is_over = what == "recovered" or only_passing or (was_summary and is_over)

    def _messages(
        self,
        what: What,
        rule: Notification,
        outage: Outage | None,
        notices: Iterable[OutageNotice],
        token: str,
        now_ms: int,
    ) -> list[NewMessage]:
        content = self._content(what, rule, list(notices), token, now_ms)
        return [NewMessage(outage, rule, what, channel, content) for channel in rule.channels]

    def _content(
        self, what: What, rule: Notification, notices: Sequence[OutageNotice], token: str, now_ms: int
    ) -> Content:
        return content_of(
            what, rule.id, rule.name, notices, now_ms=now_ms, zone=rule.zone, pages=self._pages, token=token
        )

    # how it is sent

    def _due(self) -> list[Queued]:
        self._log.follow_channels(self._rules())
        longest_ms = int(max(self._retry_seconds, default=0) * 1000)
        due = self._log.due(self._now_ms(), AT_ONCE_MAX + len(self._tried), longest_ms)
        return [message for message in due if message.id not in self._tried]

    async def _send(self, message: Queued) -> None:
        self._tried[message.id] = await self._send_once(message)
        with suppress(sqlite.Error, OSError):
            await self._write(message.id)

    async def _send_once(self, message: Queued) -> Tried:
        rule = next((each for each in self._rules() if each.id == message.rule), None)
        channel = next((each for each in rule.channels if each.key == message.channel), None) if rule else None
        if channel is None:
            return Tried(self._now_ms(), "its channel was removed")
        result = await self._channels.send(channel, message.content, f"notification-{message.id}")
        error, due_ms = result.error, None
        if error is not None and not result.final and message.tries < len(self._retry_seconds):
            due_ms = self._now_ms() + int(self._retry_seconds[message.tries] * 1000)
        self._metrics.notifications["sent" if error is None else "retried" if due_ms else "failed"] += 1
        if error or result.note:
            logger().warning(
                "notification_failed" if error else "notification_refused_in_part",
                notification=message.rule,
                channel=channel.kind,
                reason=error or result.note,
                tries_again=due_ms is not None,
            )
        return Tried(self._now_ms(), error, due_ms, result.note)

    async def _write(self, message_id: int) -> None:
        await asyncio.to_thread(self._log.tried, message_id, *self._tried[message_id])
        del self._tried[message_id]

    def _rules(self) -> list[Notification]:
        return [stored.object for stored in self._store.in_force("notification")]

    def _ended_silently(self) -> list[Outage]:
        outages = self._log.outages()
        for outage in outages:
            outage.is_over = True
        return outages

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _outage_notice(notice: Notice) -> OutageNotice:
    gone_ms = None if notice.resolved_at is None else _ms(notice.resolved_at)
    return OutageNotice(
        notice.kind,
        notice.subject,
        notice.severity,
        notice.message,
        notice.next_step,
        notice.count,
        _ms(notice.since),
        gone_ms,
    )


def _joined(first: OutageNotice, second: OutageNotice) -> OutageNotice:
    message = f"{first.message} {second.message}"[:TEXT_CHARACTERS_MAX]
    return second._replace(message=message, total=first.total + second.total, since_ms=first.since_ms)


def _is_of(outage: Outage, same: tuple[str, str]) -> bool:
    return any((TRIGGER_OF.get(kind), subject) == same for kind, subject in outage.notices)


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def pages_url(settings: Settings) -> str:
    """Return where people find the pages, without a slash at its end."""
    public = settings.control.public_url
    if not public:
        return f"http://{settings.control.listen}"
    return (public if "://" in public else f"https://{public}").rstrip("/")


@part
def channels(services: Services) -> Channels:
    """Return what sends to channels."""
    return Channels(services.settings)


@part
def notification_watch(services: Services) -> NotificationWatch:
    """Return what follows the notices for the rules, and sends."""
    return NotificationWatch(
        services.settings,
        services.store,
        notice_log(services),
        message_log(services),
        channels(services),
        own_metrics(services),
        FailedShare(series_log(services).recent),
    )
