"""New events and changes of fate, pushed to whoever watches (server-sent events).

One loop looks at the journal's ends a few times a second while somebody watches and shares what it finds; every
watcher has a short queue, and one that does not keep up is told how much it missed. At high rates only the newest
few of each look are sent, with the number of those left out.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator

import msgspec

from hookline.control.event_log import EventLog, LoggedEvent, fates_of
from hookline.control.problem import Problem
from hookline.outcomes.fate import EventFate
from hookline.telemetry.log import logger

LOOK_SECONDS = 0.25
PAUSE_AFTER_FAILURE_SECONDS = 5.0
HEARTBEAT_SECONDS = 10.0
WATCHERS_MAX = 32
QUEUE_MESSAGES_MAX = 100
FOLLOWED_EVENTS_MAX = 100

FINAL_FATES = frozenset(
    {
        "delivered",
        "filtered",
        "not_routed",
        "duplicate",
        "suppressed",
        "rejected",
        "failed",
        "expired",
        "expired_by_retention",
        "discarded",
        "erased",
    }
)

_encode = msgspec.json.Encoder().encode


class LiveEvents:
    """The one loop and its watchers."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._watchers: set[asyncio.Queue[bytes | None]] = set()
        self._loop: asyncio.Task[None] | None = None
        self._closed = False
        self.looks = 0
        """How often the journal was looked at."""
        # Events whose fate is still open, by place, with the fate last told.
        self._followed: OrderedDict[tuple[int, int], EventFate] = OrderedDict()

    @property
    def watchers(self) -> int:
        """How many streams are open."""
        return len(self._watchers)

    @property
    def looking(self) -> bool:
        """Whether the loop runs, which it does only for watchers."""
        return self._loop is not None and not self._loop.done()

    def watch(self) -> AsyncIterator[bytes]:
        """Begin to watch; the iterator ends when Hookline stops. Raise Problem when too many watch already."""
        if self._closed:
            raise Problem(503, "stopping", "Hookline is stopping; connect again in a moment.")
        if len(self._watchers) >= WATCHERS_MAX:
            raise Problem(503, "too_many_streams", f"Only {WATCHERS_MAX} streams may be open at once; close one.")
        return self._messages()

    def close(self) -> None:
        """End every stream, so that the server can stop at once; idempotent."""
        self._closed = True
        for queue in list(self._watchers):
            _put_last(queue)
        if self._loop is not None:
            self._loop.cancel()

    async def _messages(self) -> AsyncIterator[bytes]:
        # Registered here and not in `watch`: a stream whose client left before the first byte is never iterated.
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUE_MESSAGES_MAX)
        self._watchers.add(queue)
        if not self.looking:
            self._loop = asyncio.get_running_loop().create_task(self._look_while_watched())
        try:
            yield b"retry: 1000\n: Hookline\n\n"
            while True:
                try:
                    message = await asyncio.wait_for(queue.get(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    message = b": still here\n\n"
                if message is None:
                    return
                yield message
        finally:
            self._watchers.discard(queue)

    async def _look_while_watched(self) -> None:
        starts: dict[int, int] | None = None
        while self._watchers:
            try:
                if starts is None:
                    starts = await self._events.ends()
                starts = await self._look(starts)
                self.looks += 1
                await asyncio.sleep(LOOK_SECONDS)
            except Exception:  # noqa: BLE001 - the loop's border: a journal being opened or repaired comes back
                logger().warning("live_look_failed", exc_info=True)
                await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)
        self._followed.clear()

    async def _look(self, starts: dict[int, int]) -> dict[int, int]:
        new, skipped, ends = await self._events.since(starts)
        if skipped:
            self._tell("skipped", "", _encode({"count": skipped}))
        for logged in new:
            self._tell("event", logged.cursor, _encode(logged.fate))
            self._follow(logged)
        if self._followed:
            await self._look_at_followed({(logged.partition, logged.offset) for logged in new})
        return ends

    async def _look_at_followed(self, just_told: set[tuple[int, int]]) -> None:
        places = [place for place in self._followed if place not in just_told]
        current = {(logged.partition, logged.offset): logged for logged in await self._events.fates_at(places)}
        for place in places:
            logged = current.get(place)
            if logged is None:
                self._followed.pop(place, None)
            elif logged.fate != self._followed[place]:
                self._tell("fate", logged.cursor, _encode(logged.fate))
                self._follow(logged)

    def _follow(self, logged: LoggedEvent) -> None:
        place = (logged.partition, logged.offset)
        if fates_of(logged.fate) <= FINAL_FATES:
            self._followed.pop(place, None)
            return
        self._followed[place] = logged.fate
        while len(self._followed) > FOLLOWED_EVENTS_MAX:
            self._followed.popitem(last=False)

    def _tell(self, kind: str, message_id: str, data: bytes) -> None:
        # A caller's JSON may be written over several lines; between its tokens only, so a blank does as well.
        line = data.replace(b"\n", b" ").replace(b"\r", b" ")
        message = b"event: %s\nid: %s\ndata: %s\n\n" % (kind.encode(), message_id.encode(), line)
        for queue in self._watchers:
            if queue.full():
                queue.get_nowait()  # the oldest goes; the watcher reads the list again when it wants all
            queue.put_nowait(message)


def _put_last(queue: asyncio.Queue[bytes | None]) -> None:
    while queue.full():
        queue.get_nowait()
    queue.put_nowait(None)
