"""Run ``hookline tail`` and ``why``: the events as they come, and the status of one of them as a time line."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi, CommandFailed, NoAnswer, NotFound
from hookline.cli.target import printable
from hookline.outcomes.outcome import because, urgency

if TYPE_CHECKING:
    from http.client import HTTPResponse

"""The answer of the admin API."""

MARKS = {
    "delivered": "●",
    "queued": "◔",
    "retrying": "▲",
    "failed": "■",
    "expired": "■",
    "expired_by_retention": "■",
    "rejected": "■",
}
"""Shapes of the pages, so that the same state looks the same everywhere; every other status is off or filtered: ○."""


PATHS_OF_THE_API = ("export", "stream")
"""Below ``/events``; an event with such a messageId is found in the list."""


def find(admin: AdminApi, message_id: str, source: str | None) -> Event:
    """Ask the server what became of an event; raise CommandFailed when it knows none of that id."""
    found: list[Event]
    try:
        if message_id in PATHS_OF_THE_API:
            found = admin.newest("/events", 1, messageId=message_id, source=source)
        else:
            found = [admin.get(f"/events/{quote(message_id, safe='')}", source=source)]
    except NotFound as unknown:
        if "damaged" in str(unknown):
            raise CommandFailed(str(unknown)) from None
        found = []
    if not found:
        raise CommandFailed(
            f"no event {message_id!r} is kept here; check the id and the source, "
            "or the event is older than retention.events, or was erased by a deletion request"
        )
    return found[0]


def lines(event: Event) -> Iterator[str]:
    """The time line as text; what senders and receivers said cannot steer the terminal."""
    return map(printable, _lines(event))


def _lines(event: Event) -> Iterator[str]:
    what = " ".join(str(event[name]) for name in ("type", "messageId") if event.get(name))
    name = (event.get("event") or {}).get("event") if isinstance(event.get("event"), dict) else None
    yield f"{what}{f' “{name}”' if name else ''}"
    yield f"  {event['receivedAt']}  {'rejected' if event.get('rejection') else 'accepted'} from {event['source']}" + (
        f", user {event['userId']}" if event.get("userId") else ""
    )
    if event.get("duplicates"):
        yield f"  sent again {event['duplicates']} more times; the repeats were dropped"
    for warning in event.get("warnings") or []:
        yield f"  ▲ warning: {warning['message']} ({warning['code']})"
    if event.get("rejection"):
        yield f"  ■ rejected: {event['rejection']['message']} ({event['rejection']['code']})"
    elif event.get("status"):
        yield f"  {MARKS.get(event['status'], '○')} {event['status']}"
    elif not event["destinations"]:
        yield "  ○ no destination: connect one to the source"
    for destination in event["destinations"]:
        yield from _destination(destination)


def _destination(destination: dict[str, Any]) -> Iterator[str]:
    status = destination["status"]
    yield f"  {MARKS.get(status, '○')} {destination['id']}  {status}{_because(destination)}"
    attempts = destination.get("attempts") or []
    for attempt in attempts:
        if not attempt.get("replay"):
            yield f"      {attempt_line(attempt)}"
    for replay in destination.get("replays") or []:
        yield f"    {MARKS.get(replay['status'], '○')} replay {replay['id']}  {replay['status']}{_because(replay)}"
        for attempt in attempts:
            if attempt.get("replay") == replay["id"]:
                yield f"      {attempt_line(attempt)}"


def _because(at: dict[str, Any]) -> str:
    why = [at.get("detail") or because(at.get("reason")), at.get("rule")]
    return ": " + "; ".join(each for each in why if each) if any(why) else ""


def attempt_line(attempt: dict[str, Any]) -> str:
    """One attempt as text, which cannot steer the terminal."""
    parts = [f"{attempt['at']}  attempt {attempt['number']}  {attempt['outcome']}"]
    if attempt.get("httpStatus"):
        parts.append(f"status {attempt['httpStatus']}")
    if attempt.get("milliseconds") is not None:
        parts.append(f"{attempt['milliseconds']} ms")
    if attempt.get("url"):
        parts.append(attempt["url"])
    if attempt.get("error"):
        parts.append(attempt["error"])
    if attempt.get("remark"):
        parts.append(attempt["remark"])
    if attempt.get("nextAt"):
        parts.append(f"next try {attempt['nextAt']}")
    return printable(", ".join(parts))


class StreamMessage(NamedTuple):
    """One message: ``event``, ``status`` or ``skipped``, and its data."""

    kind: str
    data: Any


Event = dict[str, Any]
Show = Callable[[StreamMessage], None]

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
        """Return whether the event is wanted."""
        return (
            self.source in (None, event["source"])
            and self.type in (None, event["type"])
            and self.event in (None, name_of(event))
            and self.user in (None, user_of(event))
            and (self.destination is None or bool(self._concerned(event)))
            and (self.status is None or self.status in self._statuses(event))
        )

    def query(self) -> dict[str, str | None]:
        """Return what the server can leave out for us."""
        return {
            "source": self.source,
            "type": self.type,
            "event": self.event,
            "userId": self.user,
            "destination": self.destination,
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
        page = admin.get("/events", limit=PAGE_EVENTS, after=after, **wanted.query())
        found += [event for event in page["items"] if wanted.takes(event)]
        after = page["after"]
        if after is None:
            break
    return found[:count][::-1]


def name_of(event: Event) -> str:
    """Return what a person calls the event: a track call's event, a page's or screen's name."""
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


COLOURS = {"●": "green", "◔": "blue", "▲": "yellow", "■": "red", "○": "dim"}
"""By shape: never colour alone."""
OFF = "○"
STATUS_WIDTH = 20
TYPE_WIDTH = 8


def shower(wanted: TailFilter, as_json: bool, utc: bool) -> Show:
    """The way to show messages on this standard output."""
    if as_json:
        return show_json
    return _coloured(wanted, utc) if sys.stdout.isatty() else _plain(wanted)


def show_json(message: StreamMessage) -> None:
    """One JSON object per line: the kind of the message and its data as the API sent it."""
    print(json.dumps({"kind": message.kind, "data": message.data}, ensure_ascii=False), flush=True)


def left_out(message: StreamMessage) -> str:
    """Return what is said of events that could not be followed."""
    count = message.data["count"]
    return f"… {count} event{'' if count == 1 else 's'} not shown: too many arrived at once"


def clock(at: datetime, utc: bool) -> str:
    """Return a time of today as a terminal shows it: local, or in UTC."""
    return at.astimezone(UTC if utc else None).strftime("%H:%M:%S.%f")[:-3]


def columns(wanted: TailFilter, message: StreamMessage) -> tuple[str, str, str, str, str]:
    """Time, shape, status, type, and the rest of a line."""
    event: dict[str, Any] = message.data
    status = wanted.status_of(event)
    name, user = name_of(event) or event["messageId"], user_of(event)
    rest = f"{name}  {user or '–'}  {event['source']}"
    if event.get("rejection"):
        rest += f"  {event['rejection']['message']}"
    shown = MARKS.get(status, OFF), status.replace("_", " "), printable(event["type"]), printable(rest)
    return printable(event["receivedAt"]), *shown


def _plain(wanted: TailFilter) -> Show:
    def show(message: StreamMessage) -> None:
        if message.kind == "skipped":
            print(left_out(message), flush=True)
            return
        at, shape, status, kind, rest = columns(wanted, message)
        print(f"{at}  {shape} {status:<{STATUS_WIDTH}}  {kind:<{TYPE_WIDTH}}  {rest}", flush=True)

    return show


def _coloured(wanted: TailFilter, utc: bool) -> Callable[[StreamMessage], None]:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)

    def show(message: StreamMessage) -> None:
        if message.kind == "skipped":
            console.print(Text(left_out(message), style="yellow"))
            return
        at, shape, status, kind, rest = columns(wanted, message)
        # Text, not markup: what arrives may hold anything, square brackets included.
        line = Text.assemble(
            (f"{clock(datetime.fromisoformat(at), utc)}  ", "dim"),
            (f"{shape} {status:<{STATUS_WIDTH}}  ", COLOURS[shape]),
            (f"{kind:<{TYPE_WIDTH}}  ", "dim"),
            rest,
        )
        console.print(line, soft_wrap=True)

    return show


PATH = "/events/stream"
SILENCE_SECONDS_MAX = 30.0
"""The server says that it is still there every 10 s."""
PAUSE_SECONDS_FIRST = 0.5
PAUSE_SECONDS_MAX = 10.0
LINE_BYTES_MAX = 64 * 1024 * 1024


class EventStream:
    """Messages from now on, for as long as they are asked for."""

    def __init__(
        self, admin: AdminApi, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._admin = admin
        self._say = say
        self._sleep = sleep
        self._position: dict[str, str] = {}
        self._answer = self._connect()

    def messages(self) -> Iterator[StreamMessage]:
        """Every message, across lost connections; raise CommandFailed when the server no longer wants us."""
        from http.client import HTTPException

        while True:
            try:
                yield from self._read()
                reason = "the server ended it"
            except (OSError, HTTPException) as error:
                reason = str(error) or type(error).__name__
            self._say(f"connection to Hookline lost ({reason}); reconnecting")
            self._connect_again()
            self._say("reconnected")

    def close(self) -> None:
        """Leave; idempotent."""
        self._answer.close()

    def _connect(self) -> HTTPResponse:
        headers = {"Accept": "text/event-stream"}
        if self._position:
            headers["Last-Event-ID"] = ",".join(f"{part}:{offset}" for part, offset in self._position.items())
        return self._admin.open(PATH, headers, SILENCE_SECONDS_MAX)

    def _connect_again(self) -> None:
        pause = PAUSE_SECONDS_FIRST
        self._answer.close()
        while True:
            self._sleep(pause)
            try:
                self._answer = self._connect()
                return
            except NoAnswer:  # not running, or not ready: any other failure is for the caller
                pause = min(PAUSE_SECONDS_MAX, pause * 2)

    def _read(self) -> Iterator[StreamMessage]:
        kind = message_id = data = ""
        while line := self._answer.readline(LINE_BYTES_MAX):
            name, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "id":
                message_id = value
            elif name == "data":
                data = value
            elif not name:
                if data:
                    yield StreamMessage(kind, json.loads(data))
                # Only now: a message that was cut off is asked for again.
                for place in filter(None, message_id.split(",")):
                    partition, _, offset = place.partition(":")
                    self._position[partition] = offset
                kind = message_id = data = ""
