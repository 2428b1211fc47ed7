"""Put together the parts that find events and their statuses, and push new ones to whoever watches (server-sent
events).

One loop looks at the journal's ends a few times a second while somebody watches and shares what it finds; every
watcher has a short queue, and one that does not keep up is told how much it missed. At high rates only the newest
few of each look are sent, with the number of those left out. A watcher that comes back with ``Last-Event-ID`` is first
told what came meanwhile, by the same rule: nothing is left out without its number. A watcher with a filter is told
only of events that match; what is left out of a look was not looked at, so its number is told to everybody.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import msgspec

from hookline.api.calls import current_caller
from hookline.api.problem import Problem
from hookline.api.services import Services, part
from hookline.database.location import location_of
from hookline.features.events.log import EVERYTHING, EventFilter, EventLog, LoggedEvent, statuses_of
from hookline.journal.record import Record
from hookline.outcomes.event_status import EventStatus
from hookline.outcomes.outcome import FINAL_STATUSES
from hookline.outcomes.results import AttemptLog
from hookline.telemetry.log import logger

QUEUE_MESSAGES_MAX = 100
LAST_EVENT_ID_CHARACTERS_MAX = 20_000

_POSITION = re.compile(r"(?:^|,)(\d{1,5}):(-1|\d{1,18})(?=,|\Z)")


class Message(NamedTuple):
    """One message; ``place`` is that of a new event, ``events`` how many new events it stands for."""

    data: bytes
    place: tuple[int, int] | None = None
    events: int = 0


class Watcher:
    """The queue of one stream. Events below ``starts`` (by partition) it was told when it began; of the others it is
    told those that it ``wants``."""

    def __init__(self, wants: Callable[[Record], bool] = lambda _: True, caller: str | None = None) -> None:
        self.wants = wants
        self.caller = caller
        self.starts: dict[int, int] = {}
        self.ended = False
        self._missed = 0
        self._queue: deque[Message] = deque()
        self._filled = asyncio.Event()

    def put(self, message: Message) -> None:
        """Take a message; when there is no room the oldest goes, and is counted."""
        if len(self._queue) >= QUEUE_MESSAGES_MAX:
            self._missed += self._queue.popleft().events
        self._queue.append(message)
        self._filled.set()

    def end(self) -> None:
        """Nothing more will come."""
        self.ended = True
        self._filled.set()

    async def next(self, seconds: float) -> bytes:
        """Wait for the next message, before it how many events were missed; raise TimeoutError when none comes."""
        async with asyncio.timeout(seconds):
            while not self.ended:
                if self._missed:
                    missed, self._missed = self._missed, 0
                    return skipped(missed).data
                while self._queue:
                    message = self._queue.popleft()
                    if not self._was_sent(message):
                        return message.data
                self._filled.clear()
                await self._filled.wait()
        return b""

    def _was_sent(self, message: Message) -> bool:
        return message.place is not None and message.place[1] < self.starts.get(message.place[0], 0)


def message_of(kind: str, message_id: str, data: bytes) -> Message:
    """Return a message of a kind; only those of new events have an id, since only they move a watcher on."""
    # A caller's JSON may be written over several lines; between its tokens only, so a blank does as well.
    line = data.replace(b"\n", b" ").replace(b"\r", b" ")
    named = f"id: {message_id}\n" if message_id else ""
    return Message(f"event: {kind}\n{named}data: ".encode() + line + b"\n\n")


def skipped(count: int) -> Message:
    """Return the message that so many events were left out."""
    return message_of("skipped", "", b'{"count":%d}' % count)._replace(events=count)


def positions_after(last_event_id: str) -> dict[int, int]:
    """Return the offsets to go on from: one past ``partition:offset``, for each partition that the id names."""
    named = _POSITION.findall(last_event_id[:LAST_EVENT_ID_CHARACTERS_MAX])
    return {int(partition): int(offset) + 1 for partition, offset in named}


POLL_SECONDS = 0.25
PAUSE_AFTER_FAILURE_SECONDS = 5.0
HEARTBEAT_SECONDS = 10.0
WATCHERS_MAX = 32
WATCHERS_OF_CALLER_MAX = 24
"""The others are left to everybody else."""
FOLLOWED_EVENTS_MAX = 100
FOLLOWED_PER_LOOK_MAX = 20
"""They take turns: each is a few queries for every destination, and a dead receiver's stay open for days."""

_encode = msgspec.json.Encoder().encode


class LiveEvents:
    """The one loop and its watchers."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._watchers: set[Watcher] = set()
        self._beginning = asyncio.Lock()
        self._loop: asyncio.Task[None] | None = None
        self._closed = False
        self.looks = 0
        """How often the journal was looked at."""
        # Events whose status is still open, by place, with the status last told.
        self._followed: OrderedDict[tuple[int, int], EventStatus] = OrderedDict()
        self._turn = 0

    @property
    def watchers(self) -> int:
        """Return how many streams are open."""
        return len(self._watchers)

    @property
    def looking(self) -> bool:
        """Return whether the loop runs, which it does only for watchers."""
        return self._loop is not None and not self._loop.done()

    async def watch(self, last_event_id: str | None = None, wanted: EventFilter = EVERYTHING) -> AsyncIterator[bytes]:
        """Begin to watch; the iterator ends when Hookline stops. Raise Problem when too many do already.

        ``last_event_id`` is the id of the last message a watcher got before its connection was lost: what came since
        is told first. It hears of the events that are ``wanted``, whatever becomes of them, from now on: who has the
        answer's head misses none, though its first message may be long in coming.
        """
        if self._closed:
            raise Problem(503, "stopping", "Hookline is stopping; connect again in a moment.")
        caller = current_caller()
        watcher = Watcher(wanted.matcher(), None if caller is None else caller.key)
        if not self._has_room(watcher):
            allowed = f"{WATCHERS_MAX} streams, {WATCHERS_OF_CALLER_MAX} of one user or token"
            raise Problem(503, "too_many_streams", f"Only {allowed}, may be open at once; close one.")
        try:
            now = await self._events.ends()
        except Exception:  # noqa: BLE001 - whether it lasts is found out, and said, when the stream begins
            now = None
        return self._messages(watcher, positions_after(last_event_id or ""), now)

    def _has_room(self, watcher: Watcher) -> bool:
        mine = sum(each.caller == watcher.caller for each in self._watchers)
        return len(self._watchers) < WATCHERS_MAX and (watcher.caller is None or mine < WATCHERS_OF_CALLER_MAX)

    def close(self) -> None:
        """End every stream, so that the server can stop at once; idempotent."""
        self._closed = True
        for watcher in list(self._watchers):
            watcher.end()
        if self._loop is not None:
            self._loop.cancel()

    async def _messages(
        self, watcher: Watcher, named: dict[int, int], now: dict[int, int] | None
    ) -> AsyncIterator[bytes]:
        # Registered here and not in `watch`: a stream whose client left before the first byte is never iterated.
        if not self._has_room(watcher):  # of many that came together, who saw the last places free
            return
        self._watchers.add(watcher)
        try:
            yield b"retry: 1000\n: Hookline\n\n"
            for message in await self._begin(watcher, named, now):
                yield message.data
            while not watcher.ended:
                try:
                    yield await watcher.next(HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._watchers.discard(watcher)

    async def _begin(self, watcher: Watcher, named: dict[int, int], now: dict[int, int] | None) -> list[Message]:
        """Fix where the watcher begins, and return what it is told first: what it did not name, from ``now`` on.
        Without an answer its stream ends."""
        try:
            # One at a time: the loop must begin no later than any watcher.
            async with self._beginning:
                ends = await self._events.ends()
                began = {**(ends if now is None else now), **named}
                # A journal begun anew ends before what a watcher named.
                starts = {partition: min(began.get(partition, 0), end) for partition, end in ends.items()}
                new, left_out, watcher.starts = ([], 0, ends) if starts == ends else await self._events.since(starts)
                if not self.looking:
                    self._loop = asyncio.get_running_loop().create_task(self._look_while_watched(watcher.starts))
        except Exception:  # noqa: BLE001 - the stream's border: the watcher connects again
            logger().warning("live_look_failed", exc_info=True)
            watcher.end()
            return []
        messages = [skipped(left_out)] if left_out else []
        messages += [
            message_of("event", logged.cursor, _encode(logged.status)) for logged in new if watcher.wants(logged.record)
        ]
        position = ",".join(f"{partition}:{end - 1}" for partition, end in watcher.starts.items())
        return [*messages, Message(f"id: {position}\n\n".encode())] if position else messages

    async def _look_while_watched(self, starts: dict[int, int]) -> None:
        while self._watchers:
            try:
                starts = await self._look(starts)
                self.looks += 1
                await asyncio.sleep(POLL_SECONDS)
            except Exception:  # noqa: BLE001 - the loop's border: a journal being opened or repaired comes back
                logger().warning("live_look_failed", exc_info=True)
                await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)
        self._followed.clear()

    async def _look(self, starts: dict[int, int]) -> dict[int, int]:
        new, left_out, ends = await self._events.since(starts)
        if left_out:
            self._send(skipped(left_out))
        for logged in new:
            message = message_of("event", logged.cursor, _encode(logged.status))
            self._send(message._replace(place=(logged.partition, logged.offset), events=1), logged)
            self._follow(logged)
        if self._followed:
            await self._look_at_followed({(logged.partition, logged.offset) for logged in new})
        return ends

    async def _look_at_followed(self, just_sent: set[tuple[int, int]]) -> None:
        places = [place for place in self._followed if place not in just_sent]
        first = self._turn if self._turn < len(places) else 0
        self._turn = first + FOLLOWED_PER_LOOK_MAX
        places = places[first : self._turn]
        current = {(logged.partition, logged.offset): logged for logged in await self._events.events_at(places)}
        for place in places:
            logged = current.get(place)
            if logged is None:
                self._followed.pop(place, None)
            elif logged.status != self._followed[place]:
                self._send(message_of("status", "", _encode(logged.status)), logged)
                self._follow(logged)

    def _follow(self, logged: LoggedEvent) -> None:
        place = (logged.partition, logged.offset)
        if statuses_of(logged.status) <= FINAL_STATUSES:
            self._followed.pop(place, None)
            return
        self._followed[place] = logged.status
        while len(self._followed) > FOLLOWED_EVENTS_MAX:
            self._followed.popitem(last=False)

    def _send(self, message: Message, about: LoggedEvent | None = None) -> None:
        for watcher in self._watchers:
            if about is None or watcher.wants(about.record):
                watcher.put(message)


@part
def event_log(services: Services) -> EventLog:
    """Return what finds events and their statuses."""
    return EventLog(services.settings)


@part
def live_events(services: Services) -> LiveEvents:
    """Return the streams of events as they come."""
    return LiveEvents(event_log(services))


@part
def attempt_log(services: Services) -> AttemptLog:
    """Return what finds attempts."""
    return AttemptLog(services.settings.data_path, location_of(services.settings, "deliver"))
