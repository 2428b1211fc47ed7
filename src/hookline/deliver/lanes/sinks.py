"""Lanes of kinds that make no HTTP requests: their events go to code that puts them somewhere (``kinds/sink.py``).

Each destination has one sink and one thread, which live lane and replays share. To the dispatcher it is a route like
any other: requests go in with a token, and results come back in the event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

from hookline.connections.kinds import shown_place, usual_settings
from hookline.connections.model import Destination
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.event import Event
from hookline.deliver.lanes.lane import Lane, Target
from hookline.deliver.lanes.mapped import Departure, Gathering, Outgoing, Parcel, Token, event_of
from hookline.deliver.send.port import Answer, Failure, Opaque, Route
from hookline.deliver.send.proxy import connected_through
from hookline.deliver.send.request import Template
from hookline.deliver.send.resolver import Guard
from hookline.deliver.store.batch import NewsRow, RemarkRow
from hookline.events.timestamps import iso
from hookline.events.view import fields_of
from hookline.kinds.answers import Verdict
from hookline.kinds.catalog import kind_of
from hookline.kinds.model import Manifest, SinkBatch
from hookline.kinds.requests import event_fields
from hookline.kinds.sink import Sink, SinkAway, SinkContext, SinkEvent, SinkFailed, sink_module
from hookline.outcomes.outcome import Outcome, to_number
from hookline.outcomes.progress import OFFSET_MASK, POSITION_SHIFT
from hookline.route.filters import Filters
from hookline.settings import Settings
from hookline.telemetry.log import logger

IN_FLIGHT_BYTES_MAX = 16_000_000
"""Bodies of one lane's events that wait for a sink or are being written, where two batches are not more."""
ERROR_CHARACTERS_MAX = 500
REMARK_CHARACTERS_MAX = 500
NEWS_MAX = 50
"""Sentences about itself that a sink may have said between two answers; further ones are only logged."""
SAID_AGAIN_SECONDS = 3_600.0
"""A sink that is opened again, after an outage, has forgotten what it said: for so long a sentence is told once."""
SAID_MAX = 500
NOT_WRITTEN = Verdict(accepted=False)
"""Of an event that was forgotten before the sink was given it; nobody asks for it."""
FINISH_SECONDS_MAX = 6.0
"""What sinks have for their last writes when the role ends, as long as requests have: what is not answered by then is
written again, and the supervisor kills a role that takes 10 s."""


class SinkParcel(Parcel):
    """Events that go to a sink together."""

    __slots__ = ("_on_end", "_read", "_written", "bodies")

    def __init__(
        self,
        tokens: Sequence[Token],
        bodies: Sequence[bytes],
        read: Callable[[Event, bytes], SinkEvent],
        on_end: Callable[[SinkParcel], None] | None = None,
    ) -> None:
        """``bodies`` are the events as webhooks get them, ``read`` makes of each what the sink is given, and ``on_end``
        is called when its result has come."""
        super().__init__(tokens)
        self.bodies = bodies
        self._written: Sequence[Token] = tokens
        """Those that the sink was given."""
        self._read = read
        self._on_end = on_end

    @property
    def size_bytes(self) -> int:
        """Return how much the bodies of its events have."""
        return sum(map(len, self.bodies))

    def events(self) -> list[SinkEvent]:
        """Return what the sink is given, without what was forgotten until now. To be called in its thread: JSON of
        megabytes is decoded, which takes up to 25 times as much memory and would hold up the event loop."""
        self._written = self.awaited
        written = {event_of(token).position for token in self._written}
        return [
            self._read(event_of(token), body)
            for token, body in zip(self.tokens, self.bodies, strict=True)
            if event_of(token).position in written
        ]

    def judge(self, verdicts: Sequence[Verdict]) -> None:
        """Note what the sink said of the events that it was given."""
        said = {event_of(token).position: verdict for token, verdict in zip(self._written, verdicts, strict=True)}
        self.verdicts = [said.get(event_of(token).position, NOT_WRITTEN) for token in self.tokens]

    def end(self) -> None:
        """Say that its result has come."""
        if self._on_end is not None:
            self._on_end(self)

    def remarks(self, lane: int) -> list[RemarkRow]:
        """Return what was said of events that were accepted."""
        positions = (event_of(token).position for token in self.tokens)
        return [
            RemarkRow(lane, position >> POSITION_SHIFT, position & OFFSET_MASK, verdict.remark[:REMARK_CHARACTERS_MAX])
            for position, verdict in zip(positions, self.verdicts or (), strict=True)
            if verdict.remark and verdict.accepted and position not in self.forgotten
        ]


class SinkRoute(Route):
    """The way to one sink: a thread that writes one parcel after the other."""

    def __init__(
        self, destination: Destination, open: Callable[[Callable[[str, str], None]], Sink], engine: Dispatcher
    ) -> None:
        """``open`` opens the sink, given what takes its notices."""
        self.destination = destination
        self._open = open
        self._engine = engine
        self._news: list[str] = []
        """What the sink has said of itself since its last answer; of its thread."""
        self._said: dict[str, float] = {}
        self._waiting: deque[tuple[Target, SinkParcel]] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._successor: SinkRoute | None = None
        """What takes parcels in its place."""
        self.is_heard = True
        """Whether its results are wanted; not when the role has let go of its files."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def send(self, target: Opaque, requests: Iterable[tuple[Opaque, bytes]]) -> None:
        """Write parcels."""
        self.ask(target, requests, 0)

    def ask(self, target: Opaque, requests: Iterable[tuple[Opaque, bytes]], body_bytes_max: int) -> None:
        """Write parcels, one after the other; their results come to the event loop that is running now."""
        if self._successor is not None:  # a lane that has not followed the change, such as a replay's
            self._successor.ask(target, requests, body_bytes_max)
            return
        self._loop = asyncio.get_running_loop()
        with self._wake:
            self._waiting.extend((target, parcel) for parcel, _ in requests)
            self._wake.notify()
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        """Start the thread; where none can be had for now, answer what it was to write, so that it is tried again."""
        thread = threading.Thread(target=self._run, name=f"sink-{self.destination.id}"[:15], daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            logger().error("sink_failed", destination=self.destination.id, error=str(error))
            words = failure_words(SinkFailed(f"no thread can be started for its writes: {error}"))
            while self._waiting:
                target, parcel = self._waiting.popleft()
                self._note(target, parcel, 0, Failure(Outcome.CONNECTION_FAILED, None, words, is_unsent=True))
        else:
            self._thread = thread

    def close(self, successor: SinkRoute | None = None) -> None:
        """Write what is there, and end; what comes later goes to the ``successor``."""
        self._successor = successor
        with self._wake:
            self._closing = True
            self._wake.notify()

    @property
    def is_writing(self) -> bool:
        """Return whether its thread has not ended yet."""
        return self._thread is not None and self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait until it has ended, so long at most."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        sink: Sink | None = None
        while True:
            with self._wake:
                while not self._waiting and not self._closing:
                    self._wake.wait()
                if not self._waiting:
                    break
                target, parcel = self._waiting.popleft()
            began, failure = monotonic(), None
            try:
                if sink is None:
                    sink = self._open(self._notice)
                events = parcel.events()
                verdicts = sink.write(events) if events or not parcel.forgotten else ()
                if len(verdicts) != len(events) or not all(map(_is_verdict, verdicts)):
                    raise SinkFailed("the kind did not say what became of each event")
                parcel.judge(verdicts)
            except BaseException as error:  # noqa: BLE001 - the border to code that is not ours, and may panic
                is_away = sink is None or isinstance(error, SinkAway)  # no event has a part in that
                failure = Failure(Outcome.CONNECTION_FAILED, None, failure_words(error), is_unsent=is_away)
                if not isinstance(error, SinkFailed):
                    failure.of_batch = len(parcel.tokens) > 1  # code that failed may say on which of them
                    logger().error("sink_failed", destination=self.destination.id, exc_info=error)
                self._let_go(sink)
                sink = None
            self._note(target, parcel, int((monotonic() - began) * 1000), failure)
        self._let_go(sink)

    def _notice(self, name: str, sentence: str) -> None:
        logger().warning(f"sink_{name}", destination=self.destination.id, message=sentence)
        short, now = sentence[:REMARK_CHARACTERS_MAX], monotonic()
        if len(self._news) >= NEWS_MAX or now - self._said.get(short, -SAID_AGAIN_SECONDS) < SAID_AGAIN_SECONDS:
            return
        if len(self._said) >= SAID_MAX:
            self._said.clear()
        self._said[short] = now
        self._news.append(short)

    def _note(self, target: Target, parcel: SinkParcel, milliseconds: int, failure: Failure | None) -> None:
        engine = self._engine
        news, self._news = self._news, []

        def note() -> None:
            if not self.is_heard:
                return
            # First what is said of it: the checkpoint that saves a result has these rows too.
            now_ms = engine.clock.now_ms()
            engine.batch.news += [NewsRow(self.destination.id, now_ms, each) for each in news]
            if failure is None:
                engine.batch.remarks += parcel.remarks(target.lane.number)
                engine.answered_whole(parcel, target, Answer(200, "", b""), milliseconds)
            else:
                engine.answered(parcel, target, to_number(failure.outcome, None), milliseconds, failure)

        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(note)
        except RuntimeError:  # the role has ended: nobody is told, and it is written again
            return

    def _let_go(self, sink: Sink | None) -> None:
        try:
            if sink is not None:
                sink.close()
        except BaseException as error:  # noqa: BLE001 - as above
            logger().warning("sink_not_closed", destination=self.destination.id, error=str(error))


class SinkRequests(Gathering):
    """Hold what the lane of a sink sends: parcels of events, nothing else."""

    is_apart = True

    def __init__(
        self, destination: Destination, batch: SinkBatch, route: Route, lane_number: int, filters: Filters | None
    ) -> None:
        super().__init__(batch.size, batch.wait, batch.bytes)
        self._settings = usual_settings(destination)
        self._bytes_max = batch.bytes
        self._in_flight_bytes_max = max(IN_FLIGHT_BYTES_MAX, 2 * batch.bytes)
        self._in_flight_events = self._in_flight_bytes = 0
        self._lane: Lane | None = None
        self._filters = filters if filters is not None and filters.edits else None
        self._target = Target(SinkTemplate(destination), 0, lane_number, route)

    @property
    def targets(self) -> tuple[Target, ...]:
        """Return the only one."""
        return (self._target,)

    def own(self, lane: Lane) -> None:
        """Belong to a lane."""
        super().own(lane)
        self._lane = lane

    def allowance(self, requests: int) -> int:
        """Return how many events may be in flight, as far as their bodies are not too many bytes. What the sink still
        has of partitions that were left counts too: it stays in memory until the sink has answered."""
        most = super().allowance(requests)
        if most <= 1 or not self._in_flight_bytes:
            return most
        most = max(1, min(most, self._in_flight_bytes_max * self._in_flight_events // self._in_flight_bytes))
        left = 0 if self._lane is None else self._in_flight_events - len(self._lane.in_flight)
        return max(0, most - max(0, left))

    @property
    def is_full(self) -> bool:
        """Return whether the bodies that wait for the sink are as many bytes as may."""
        return self._in_flight_bytes >= self._in_flight_bytes_max

    def departure(
        self, lane: Lane, leaving: Sequence[Token], first_at_ms: int, is_late: Callable[[], bool]
    ) -> Departure:
        """Return what leaves for some events; it is decoded and written in the sink's thread."""
        parcels: list[SinkParcel] = []
        tokens: list[Token] = []
        bodies: list[bytes] = []
        size_bytes = 0
        for number, token in enumerate(leaving):
            if self._stops_at(number, is_late):
                leaving = leaving[:number]
                break
            body = self._body(event_of(token))
            if tokens and size_bytes + len(body) > self._bytes_max:
                parcels.append(SinkParcel(tokens, bodies, self._read, self._ended))
                tokens, bodies, size_bytes = [], [], 0
            tokens.append(token)
            bodies.append(body)
            size_bytes += len(body)
            self._in_flight_bytes += len(body)
        if tokens:
            parcels.append(SinkParcel(tokens, bodies, self._read, self._ended))
        self._in_flight_events += len(leaving)
        return Departure([Outgoing(self._target, [(parcel, b"") for parcel in parcels], 1)], [], len(leaving))

    def _ended(self, parcel: SinkParcel) -> None:
        self._in_flight_events -= len(parcel.tokens)
        self._in_flight_bytes -= parcel.size_bytes

    def _body(self, event: Event) -> bytes:
        _, body = event.plain()
        return body if self._filters is None else self._filters.body(event.record, body, canonical=False)

    def _read(self, event: Event, body: bytes) -> SinkEvent:
        record, position = event.record, event.position
        fields = event_fields(fields_of(record, body), self._settings, iso(record.received_at))
        return SinkEvent(position >> POSITION_SHIFT, position & OFFSET_MASK, record.received_at, fields, body)


class SinkTemplate(Template):
    """Says where events of a sink go; no request is written."""

    def __init__(self, destination: Destination) -> None:
        super().__init__("http://sink.invalid/", b"", None)
        self.url = shown_place(destination)


class Sinks:
    """The sinks of a process, by destination."""

    def __init__(self, engine: Dispatcher, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._routes: dict[str, SinkRoute] = {}
        self._leaving: list[SinkRoute] = []
        """Closed, but perhaps still writing."""

    def requests_of(
        self, resolved: Destination, lane_number: int, filters: Filters | None, *, is_replay: bool = False
    ) -> SinkRequests:
        """Return what sends the events of a destination whose secrets are resolved; raise ValueError for a kind whose
        module cannot be had. A replay's go where the live lane's do, also when a secret reads otherwise by now."""
        kind = kind_of(resolved.kind)
        if kind is None or kind.manifest.sink is None:
            raise ValueError(f"the kind {resolved.kind!r} is no sink")
        route = self._routes.get(resolved.id)
        wanted = resolved.kind, resolved.settings
        if route is None or not (is_replay or (route.destination.kind, route.destination.settings) == wanted):
            module, settings = sink_module(kind.manifest.sink), usual_settings(resolved)
            made = SinkRoute(
                resolved,
                lambda notice: module.open_sink(sink_context(self._settings, resolved.id, notice), settings),
                self._engine,
            )
            if route is not None:
                self._close(route, made)
            route = self._routes[resolved.id] = made
        return SinkRequests(resolved, _batch_of(kind.manifest, usual_settings(resolved)), route, lane_number, filters)

    def keep_only(self, destinations: set[str]) -> None:
        """End the sinks of destinations that are there no more."""
        for id in self._routes.keys() - destinations:
            self._close(self._routes.pop(id))

    async def finish(self) -> None:
        """End all of them; wait for what is being written, but not for long, and hear its results."""
        self.keep_only(set())
        if self._leaving:
            await asyncio.to_thread(self._join)  # its end comes to the loop after the results

    def close(self) -> None:
        """End all of them, and hear no results from now on."""
        self.keep_only(set())
        for route in self._leaving:
            route.is_heard = False

    def _close(self, route: SinkRoute, successor: SinkRoute | None = None) -> None:
        route.close(successor)
        self._leaving = [each for each in (*self._leaving, route) if each.is_writing]

    def _join(self) -> None:
        end = monotonic() + FINISH_SECONDS_MAX
        for route in self._leaving:
            route.join(max(0.0, end - monotonic()))


def sink_context(settings: Settings, destination: str, notice: Callable[[str, str], None]) -> SinkContext:
    """Return what the sink of a destination may use: a folder of its own, and the addresses that receivers may have, by
    the way that requests take to them."""
    folder = settings.data_path / "files" / destination
    proxy = partial(connected_through, settings) if settings.deliver.proxy else None
    return SinkContext(destination, folder, Guard(settings.deliver.allow_networks).refusal, notice, proxy)


def failure_words(error: BaseException) -> str:
    """Return what people read of an error of a sink."""
    text = str(error) if isinstance(error, SinkFailed) else f"the kind failed ({type(error).__name__}: {error})"
    return text[:ERROR_CHARACTERS_MAX]


def _is_verdict(found: object) -> bool:
    return isinstance(found, Verdict)


def _batch_of(manifest: Manifest, settings: Mapping[str, Any]) -> SinkBatch:
    """Return how events are gathered: as the kind says, but for what its settings ``batchEvents`` and ``batchSeconds``
    say."""
    usual = manifest.batch or SinkBatch()
    size, wait = settings.get("batchEvents", usual.size), settings.get("batchSeconds", usual.wait)
    return SinkBatch(size=size, bytes=usual.bytes, wait=wait)
