"""``hookline tail``: the events as they come, and what becomes of them."""

from __future__ import annotations

import signal
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hookline.cli.admin_api import AdminApi
from hookline.features.events.cli.event_stream import EventStream, StreamMessage
from hookline.outcomes.status import urgency

Event = dict[str, Any]
Show = Callable[[StreamMessage], None]

LAST_MAX = 1_000
PAGE_EVENTS = 200
PAGES_MAX = 25
"""Pages of older events looked through for ``--last``."""
REMEMBERED_MAX = 10_000
"""Events whose shown status is remembered, so that the same is not shown twice."""


@dataclass(frozen=True, kw_only=True)
class TailFilter:
    """Which events are wanted; None asks for nothing. ``status`` is that at ``destination`` when both are given."""

    source: str | None = None
    type: str | None = None
    event: str | None = None
    user: str | None = None
    destination: str | None = None
    status: str | None = None

    def takes(self, event: Event) -> bool:
        """Whether the event is wanted."""
        return (
            self.source in (None, event["source"])
            and self.type in (None, event["type"])
            and self.event in (None, name_of(event))
            and self.user in (None, user_of(event))
            and (self.destination is None or bool(self._concerned(event)))
            and (self.status is None or self.status in self._statuses(event))
        )

    def query(self) -> dict[str, str | None]:
        """What the server can leave out for us."""
        return {
            "source": self.source,
            "type": self.type,
            "event": self.event,
            "userId": self.user,
            "status": self.status,
        }

    def status_of(self, event: Event) -> str:
        """The one status to show: at the destination asked for, else the most urgent."""
        return min(self._statuses(event), key=urgency, default="not_routed")

    def _concerned(self, event: Event) -> list[Event]:
        named = [each for each in event["destinations"] if self.destination in (None, each["id"])]
        return [each for each in named if each["status"] != "not_routed"]

    def _statuses(self, event: Event) -> list[str]:
        if event.get("status"):
            return [event["status"]]
        return [each["status"] for each in self._concerned(event)] or ["not_routed"]


def tail(admin: AdminApi, wanted: TailFilter, last: int, show: Show, every_change: bool = False) -> int:
    """Show the last events and then new ones until Ctrl-C or SIGTERM; an event again when its status changed.

    ``every_change`` shows also what changes nothing of the status, such as another failed attempt.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        _follow(admin, wanted, last, show, every_change)
    except KeyboardInterrupt:
        pass
    return 0


def _follow(admin: AdminApi, wanted: TailFilter, last: int, show: Show, every_change: bool) -> None:
    stream = EventStream(admin, _say)  # before the list is read: what comes between is in the stream
    shown: OrderedDict[tuple[str, ...], str] = OrderedDict()
    try:
        for message in _chain(_last_events(admin, wanted, last), stream):
            if message.kind == "skipped":
                show(message)
            elif wanted.takes(message.data):
                key = (message.data["source"], message.data["messageId"], message.data["receivedAt"])
                status = wanted.status_of(message.data)
                if shown.get(key) != status or (every_change and message.kind == "status"):
                    show(message)
                shown[key] = status
                shown.move_to_end(key)
                if len(shown) > REMEMBERED_MAX:
                    shown.popitem(last=False)
    finally:
        stream.close()


def _chain(first: list[Event], stream: EventStream) -> Iterator[StreamMessage]:
    for event in first:
        yield StreamMessage("event", event)
    yield from stream.messages()


def _last_events(admin: AdminApi, wanted: TailFilter, count: int) -> list[Event]:
    """The last events that are wanted, oldest first."""
    found: list[Event] = []
    after: str | None = None
    for _ in range(PAGES_MAX):
        if len(found) >= count:
            break
        page = admin.get("/events", limit=min(PAGE_EVENTS, count), after=after, **wanted.query())
        found += [event for event in page["items"] if wanted.takes(event)]
        after = page["after"]
        if after is None:
            break
    return found[:count][::-1]


def name_of(event: Event) -> str:
    """What a person calls the event: a track call's event, a page's or screen's name."""
    body = event.get("event")
    name = body.get("event" if event["type"] == "track" else "name") if isinstance(body, dict) else None
    return name if isinstance(name, str) else ""


def user_of(event: Event) -> str:
    """The user's id, or the anonymous one."""
    body = event.get("event")
    anonymous = body.get("anonymousId") if isinstance(body, dict) else None
    return str(event.get("userId") or anonymous or "")


def _say(sentence: str) -> None:
    print(f"hookline: {sentence}", file=sys.stderr, flush=True)
