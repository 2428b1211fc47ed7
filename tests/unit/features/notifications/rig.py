"""A watch of notifications over notices that are opened by hand, with a clock set by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from hookline.connections.edits import Delete, Put
from hookline.connections.notifications import Channel, Notification
from hookline.connections.store import Store
from hookline.database.location import DatabaseLocation
from hookline.features.fleet.metrics import OwnMetrics
from hookline.features.notices.conditions.finding import Finding
from hookline.features.notices.conditions.traffic import FailedShare
from hookline.features.notices.log import NoticeLog
from hookline.features.notifications.channels import Channels, Result
from hookline.features.notifications.log import MessageLog, SentMessage
from hookline.features.notifications.rules import SHARE_KIND
from hookline.features.notifications.service import NotificationWatch
from hookline.features.notifications.wording import Content
from hookline.insights.series import Recent
from hookline.settings import Settings

BEGIN_MS = 1_795_000_000_000
"""Wed 18 Nov 2026, 11:06 UTC."""
OPS: dict[str, Any] = {
    "id": "ops",
    "name": "Operators",
    "when": ["destination_failing"],
    "to": {"email": ["a@b.example"]},
}


class Recorded(Channels):
    """Channels that write down what they are given; ``results`` are what comes of the next ones."""

    def __init__(self) -> None:
        super().__init__(Settings())
        self.sent: list[tuple[Channel, Content]] = []
        self.results: list[Result] = []

    async def send(self, channel: Channel, content: Content, message_id: str) -> Result:
        """Write it down."""
        self.sent.append((channel, content))
        return self.results.pop(0) if self.results else Result()


class Rig:
    """One installation; ``restarted`` gives another watch over the same database."""

    def __init__(self, location: DatabaseLocation, begin_ms: int = BEGIN_MS) -> None:
        self.location = location
        self.now_ms = begin_ms
        self.store = Store(location)
        self.notices = NoticeLog(location)
        self.log = MessageLog(location)
        self.channels = Recorded()
        self.requests: dict[int, dict[str, Recent]] = {300: {}, 3600: {}}
        """What destinations came to in so many seconds."""
        self.watch = self._watch()
        self._open: dict[tuple[str, str], Finding] = {}

    def _watch(self) -> NotificationWatch:
        return NotificationWatch(
            Settings(),
            self.store,
            self.notices,
            self.log,
            self.channels,
            OwnMetrics(),
            FailedShare(lambda seconds, now: self.requests[seconds]),
            clock=lambda: self.now_ms / 1000,
        )

    def restart(self) -> None:
        """Begin anew with what is in the database."""
        self.watch = self._watch()

    def put(self, **given: Any) -> None:
        """Create or replace a rule."""
        rule = msgspec.convert({**OPS, **given}, Notification)
        self.store.change([Put(rule)], "somebody", None, dict)

    def delete(self, id: str = "ops") -> None:
        """Delete a rule."""
        self.store.change([Delete("notification", id)], "somebody", None, dict)

    def begins(self, subject: str = "crm", kind: str = "destination_breaker_open", count: int = 1, **more: Any) -> None:
        """Open a notice, or refresh it."""
        if kind == SHARE_KIND:
            self.requests[300][subject] = Recent(100 - count, count)
        finding = Finding(kind, subject, more.pop("detail", "server error 503"), count, **more)
        open_ones = self.notices.open_ones()
        if (kind, subject) in open_ones:
            self.notices.settle([], [(open_ones[kind, subject].id, finding, 0)], [], self.now_ms, ())
        else:
            self.notices.settle([(finding, 0)], [], [], self.now_ms, ())

    def ends(self, subject: str = "crm", kind: str = "destination_breaker_open") -> None:
        """Resolve a notice."""
        self.notices.settle([], [], [self.notices.open_ones()[kind, subject].id], self.now_ms, ())

    def look(self, after_seconds: float = 5) -> list[Content]:
        """Look and send, so much later; return what was sent by that."""
        self.now_ms += int(after_seconds * 1000)
        self.watch.look()
        before = len(self.channels.sent)
        asyncio.run(self.watch.send_due())
        return [content for _, content in self.channels.sent[before:]]

    def pass_time(self, seconds: float, step: float = 30) -> list[Content]:
        """Look again and again for so long; return everything sent meanwhile."""
        sent: list[Content] = []
        for _ in range(int(seconds / step)):
            sent += self.look(step)
        return sent

    @property
    def messages(self) -> Sequence[SentMessage]:
        """Return what the log says, newest first."""
        return self.log.newest(100)

    def close(self) -> None:
        """Let go of the database."""
        self.log.close()
        self.notices.close()
        self.store.close()


def whats(sent: Sequence[Content]) -> list[str]:
    """Return what kinds of message were sent."""
    return [content.what for content in sent]
