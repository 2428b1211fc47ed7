"""Keep a simulated world's time and network: its clocks, what happens when, the event loop of each process that lives
in it, and what receivers answer.

The network stands where the pools stand; what a request is about it reads from the bytes, as a receiver does.

One queue of calls in the order of simulated time, one thread. Calls for the same moment run in the order in which they
were made, so a run is the same every time. When a process dies, everything it had planned dies with it.
"""

from __future__ import annotations

import asyncio
import heapq
import re
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Set
from contextvars import Context
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import unquote_to_bytes

import msgspec

from hookline.connections.receiver_url import ReceiverUrl
from hookline.deliver.lanes.lane import Target
from hookline.deliver.send.port import Answer as WholeAnswer
from hookline.deliver.send.port import Failure, Route, Sender, Sink
from hookline.outcomes.outcome import Outcome, of_status, to_number
from hookline.outcomes.progress import URL_BITS

_MESSAGE_ID = re.compile(rb"\r\nX-Message-Id: ([^\r\n]*)\r\n")
_MESSAGE_ID_OF_ITEM = re.compile(rb'"messageId":"([^"]*)"')
_LINES = b"\r\nContent-Type: application/x-ndjson\r\n"


class Answer(NamedTuple):
    """Hold what becomes of one request: after ``seconds`` (None: never) a status, or an outcome without one.

    ``taken`` says whether the receiver has processed the event, which the sender may never learn. ``items``: of a
    request that carries several events, the status of each, where the answer as a whole names them.
    """

    seconds: float | None
    result: int | Outcome
    retry_after: bytes | None = None
    taken: bool = False
    items: tuple[int, ...] = ()

    def took(self, index: int) -> bool:
        """Return whether the receiver has processed this one of the events."""
        return self.taken and (not self.items or 200 <= self.items[index] < 300)


MessageIdOf = Callable[[bytes], str]
"""Finds the messageId of an item of a batch."""


def message_id_of(item: bytes) -> str:
    """Return the messageId that an item has in its body."""
    found = _MESSAGE_ID_OF_ITEM.search(item)
    return found[1].decode() if found is not None else ""


class Request:
    """One request on its way; ``lane`` is the lane's number, ``url`` the URL's index.

    ``events`` are the messageIds it is for, each with the bytes that are about it. ``is_read_whole``: the sender looks
    at the whole answer, not at its status alone.
    """

    __slots__ = (
        "answer",
        "events",
        "is_answered",
        "is_read_whole",
        "lane",
        "probe",
        "sent_at",
        "target",
        "token",
        "url",
    )

    def __init__(
        self,
        token: object,
        target: Target,
        data: bytes,
        sent_at: float,
        *,
        is_read_whole: bool = False,
        message_id_of: MessageIdOf = message_id_of,
    ) -> None:
        found = _MESSAGE_ID.search(data)
        self.token = token
        self.target = target
        self.events: list[tuple[str, bytes]] = (
            [(message_id_of(item), item) for item in _items(data)]
            if found is None
            else [(unquote_to_bytes(found[1]).decode(), data)]
        )
        self.is_read_whole = is_read_whole
        self.is_answered = False
        """Whether its answer has arrived, and the sender is taking it in."""
        self.lane = target.tag >> URL_BITS
        self.url = target.index
        self.sent_at = sent_at
        self.probe = False
        """Set by whoever watches: sent while its lane's breaker let only single attempts through."""
        self.answer = Answer(None, Outcome.TIMED_OUT)

    @property
    def message_id(self) -> str:
        """Return the messageId of its event, of several that of the first."""
        return self.events[0][0]

    def results(self, result: int | Outcome) -> Iterator[tuple[str, int | Outcome]]:
        """Yield what ``result`` means for each of its events."""
        items = self.answer.items if isinstance(result, int) else ()
        for index, (message_id, _) in enumerate(self.events):
            yield message_id, items[index] if items else result


def _items(data: bytes) -> list[bytes]:
    """Return the items of a batch: lines, a list, or the one list in an object."""
    head, _, body = data.partition(b"\r\n\r\n")
    if _LINES in head + b"\r\n":
        return body.splitlines()
    if body.startswith(b"{"):
        (body,) = map(bytes, msgspec.json.decode(body, type=dict[str, msgspec.Raw]).values())
    return [bytes(item) for item in msgspec.json.decode(body, type=list[msgspec.Raw])]


class Traffic(Protocol):
    """See every request and its answer."""

    def sent(self, request: Request) -> Answer:
        """See a request leave; return what will become of it."""

    def answered(self, request: Request, result: int | Outcome, retry_after: bytes | None) -> None:
        """Learn that the sender has taken the answer in."""


class SimulatedPools(Sender):
    """The network as one process sees it; what is under way is lost with the process."""

    def __init__(
        self,
        sink: Sink,
        loop: SimulatedLoop,
        traffic: Traffic,
        scale: int = 1,
        message_id_of: MessageIdOf = message_id_of,
    ) -> None:
        """``scale``: receivers are that many times as slow here as the sender shall believe."""
        self._message_id_of = message_id_of
        self._scale = scale
        self._sink = sink
        self._loop = loop
        self._traffic = traffic
        self._pool = SimulatedPool(self)
        self.under_way: dict[Request, None] = {}

    def of(self, url: ReceiverUrl, pair: tuple[str, str] | None = None) -> Route:
        """Return the one pool of all origins: what a receiver does depends on the request."""
        return self._pool

    @property
    def connections(self) -> int:
        """Return how many there are."""
        return len(self.under_way)

    def keep_only(self, used: Set[Route]) -> None:
        """Nothing is kept per origin."""

    def sweep(self, timeout_seconds: float) -> None:
        """End exchanges that take too long."""
        overdue = self._loop.time() - timeout_seconds
        for request in [request for request in self.under_way if request.sent_at <= overdue]:
            self._end(request, Outcome.TIMED_OUT, None)

    def close(self) -> None:
        """Drop everything."""
        self.under_way.clear()

    def take(self, token: object, target: Target, data: bytes, *, is_read_whole: bool) -> None:
        """Have a request leave."""
        sent_at = self._loop.time()
        request = Request(token, target, data, sent_at, is_read_whole=is_read_whole, message_id_of=self._message_id_of)
        request.answer = self._traffic.sent(request)
        self.under_way[request] = None
        if request.answer.seconds is not None:
            self._loop.call_later(request.answer.seconds, self._arrived, request)

    def _arrived(self, request: Request) -> None:
        if request in self.under_way:
            self._end(request, request.answer.result, request.answer.retry_after)

    def _end(self, request: Request, result: int | Outcome, retry_after: bytes | None) -> None:
        del self.under_way[request]
        request.is_answered = True
        milliseconds = int((self._loop.time() - request.sent_at) / self._scale * 1000)
        number, failure = _as_result(result, retry_after)
        if request.is_read_whole and isinstance(result, int):
            answer = _whole_answer(result, retry_after, request.answer.items)
            self._sink.answered_whole(request.token, request.target, answer, milliseconds)
        elif failure is None:
            self._sink.succeeded([([request.token], request.target, number, milliseconds)])
            self._sink.go_on()
        else:
            self._sink.answered(request.token, request.target, number, milliseconds, failure)
        self._traffic.answered(request, result, retry_after)


class SimulatedPool(Route):
    """Hands requests to the network."""

    def __init__(self, pools: SimulatedPools) -> None:
        self._pools = pools

    def send(self, target: Target, batch: Iterable[tuple[object, bytes]]) -> None:
        """Send requests, each with its token."""
        for token, request in batch:
            self._pools.take(token, target, request, is_read_whole=False)

    def ask(self, target: Target, batch: Iterable[tuple[object, bytes]], body_bytes_max: int) -> None:
        """Send requests whose answers are read whole."""
        for token, request in batch:
            self._pools.take(token, target, request, is_read_whole=True)


def _as_result(result: int | Outcome, retry_after: bytes | None) -> tuple[int, Failure | None]:
    if isinstance(result, Outcome):
        return to_number(result, None), Failure(result, None, result.value)
    if 200 <= result < 300:
        return result, None
    return result, Failure(of_status(result), result, "no", retry_after)


def _whole_answer(status: int, retry_after: bytes | None, items: tuple[int, ...]) -> WholeAnswer:
    """Return an answer whose body says in its own words what the status does, and in two ways what became of items."""
    wait = "" if retry_after is None else f"Retry-After: {retry_after.decode('latin-1')}\r\n"
    body: dict[str, object] = {"ok": 200 <= status < 300}
    if items:
        body["items"] = [{"status": each} for each in items]
        body["failed"] = [{"at": at, "status": each} for at, each in enumerate(items) if not 200 <= each < 300]
    return WholeAnswer(status, f"HTTP/1.1 {status} \r\n{wait}", msgspec.json.encode(body))


START_MS = 1_795_158_000_000
"""Wall clock at second 0: 20 November 2026."""
START_SECONDS = 1_000.0
CALLS_PER_MOMENT_MAX = 1_000_000

Work = Callable[[Callable[[], object], "asyncio.Future[Any]"], None]
"""Does what a thread would do, now or later, and settles the future."""


class SimulatedClock:
    """Time that passes when the scheduler says so; the wall clock can be set, the monotonic one cannot."""

    def __init__(self) -> None:
        self.seconds = START_SECONDS
        self._wall_ms = START_MS - int(START_SECONDS * 1000)
        self.back_ms = 0
        """How far the wall clock was set back, in all: so much too old may look what it dated."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch."""
        return self._wall_ms + int(self.seconds * 1000)

    def steady_ms(self) -> int:
        """Return the service's own clock: where the wall clock would be if nobody had set it."""
        return START_MS + int((self.seconds - START_SECONDS) * 1000)

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return self.seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self._wall_ms += int(seconds * 1000)
        self.back_ms += max(0, int(-seconds * 1000))


class Crashed(BaseException):
    """The process ends at a named crash point: nothing that follows in it happens."""

    def __init__(self, point: str) -> None:
        super().__init__(point)
        self.committed = point == "deliver.after_checkpoint"
        """Whether the database has the checkpoint that was being saved."""


class NeverRests(Exception):
    """Calls follow each other without time passing."""


class Call:
    """One call to be made; ``loop`` is the process it belongs to, None for the world outside."""

    __slots__ = ("_context", "_function", "_given", "cancelled", "loop")

    def __init__(
        self,
        loop: SimulatedLoop | None,
        function: Callable[..., object],
        given: tuple[object, ...] = (),
        context: Context | None = None,
    ) -> None:
        self.loop = loop
        self._function = function
        self._given = given
        self._context = context
        self.cancelled = False

    def cancel(self) -> None:
        """Do not make the call."""
        self.cancelled = True

    def make(self) -> None:
        """Make the call, unless it was cancelled or its process is gone."""
        loop = self.loop
        if self.cancelled or (loop is not None and loop.dead):
            return
        events._set_running_loop(None if loop is None else loop.for_asyncio)
        try:
            if self._context is None:
                self._function(*self._given)
            else:
                self._context.run(self._function, *self._given)
        except Crashed:
            pass  # whoever raised it has ended the process
        except Exception as error:
            if loop is None:
                raise
            loop.call_exception_handler({"message": "a callback raised", "exception": error})
        finally:
            events._set_running_loop(None)


class Scheduler:
    """Makes calls when their time has come; time passes only here."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self._soon: deque[Call] = deque()
        self._later: list[tuple[float, int, Call]] = []
        self._count = 0
        self.coarse_seconds = 0.0
        """Above 0, waiting ends only at multiples of this: for stretches in which hardly anything happens."""

    def soon(self, call: Call) -> Call:
        """Make the call in this moment, after those that were asked for before."""
        self._soon.append(call)
        return call

    def at(self, seconds: float, call: Call) -> Call:
        """Make the call at a time of the monotonic clock."""
        if self.coarse_seconds and call.loop is not None:
            seconds = -(-seconds // self.coarse_seconds) * self.coarse_seconds
        self._count += 1
        heapq.heappush(self._later, (seconds, self._count, call))
        return call

    def after(self, seconds: float, function: Callable[..., object], *given: Any) -> Call:
        """Make a call of the world outside after some seconds."""
        return self.at(self.clock.seconds + seconds, Call(None, function, given))

    def run_until(self, seconds: float) -> None:
        """Let time pass to this moment."""
        soon, later, clock = self._soon, self._later, self.clock
        self._settle()
        while later and later[0][0] <= seconds:
            when, _, call = heapq.heappop(later)
            if when > clock.seconds:
                clock.seconds = when
            call.make()
            if soon:
                self._settle()
        clock.seconds = max(clock.seconds, seconds)

    def run_for(self, seconds: float) -> None:
        """Let some seconds pass."""
        self.run_until(self.clock.seconds + seconds)

    def _settle(self) -> None:
        """Make the calls of this moment, and those they ask for."""
        soon, left = self._soon, CALLS_PER_MOMENT_MAX
        while soon:
            soon.popleft().make()
            left -= 1
            if not left:
                raise NeverRests(f"{CALLS_PER_MOMENT_MAX} calls without time passing")


class SimulatedLoop:
    """One life of one process. ``work`` stands for its threads."""

    def __init__(self, scheduler: Scheduler, work: Work, on_error: Callable[[BaseException | str], None]) -> None:
        self.dead = False
        self._scheduler = scheduler
        self._work = work
        self._on_error = on_error
        self._begun: list[Coroutine[Any, Any, object]] = []
        self._readers: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def die(self) -> None:
        """The process is gone, and what it had just begun will never run."""
        self.dead = True
        for coroutine in self._begun:
            if getcoroutinestate(coroutine) == CORO_CREATED:
                coroutine.close()

    @property
    def for_asyncio(self) -> asyncio.AbstractEventLoop:
        """This loop, where asyncio wants one: it asks for nothing that is not here."""
        return cast(asyncio.AbstractEventLoop, self)

    def time(self) -> float:
        """Seconds of the simulated monotonic clock."""
        return self._scheduler.clock.seconds

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        """Call in this moment, after what was asked for before."""
        return self._scheduler.soon(Call(self, callback, args, context))

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        """Call after some seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        """Call at a time of the monotonic clock."""
        return self._scheduler.at(when, Call(self, callback, args, context))

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return asyncio.Future(loop=self.for_asyncio)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        """Run a coroutine."""
        self._begun = [each for each in self._begun if getcoroutinestate(each) == CORO_CREATED]
        self._begun.append(coro)
        return asyncio.Task(coro, loop=self.for_asyncio, name=name, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Have the work done as the simulated machine does it; what is nobody's thread in particular at once."""
        future = self.create_future()
        if executor is None:
            future.set_result(func(*args))
        else:
            self._work(lambda: func(*args), future)
        return future

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:
        """Remember who is to be woken; ``wake`` wakes."""
        self._readers.append((callback, args))

    def remove_reader(self, fd: Any) -> bool:
        """Wake nobody any more."""
        self._readers.clear()
        return True

    def wake(self) -> None:
        """Something arrived for whoever reads."""
        for callback, args in self._readers:
            self.call_soon(callback, *args)

    def run(self, main: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Run a process's main coroutine; when it ends by an error the world is told."""
        task = self.create_task(main)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.dead:
            self._on_error(error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error that nobody takes care of is an error of the code under test, unless the process is gone."""
        if not self.dead:
            self._on_error(context.get("exception") or str(context.get("message")))

    def get_debug(self) -> bool:
        """Never in debug mode."""
        return False

    def is_running(self) -> bool:
        """As long as the process lives."""
        return not self.dead

    def is_closed(self) -> bool:
        """Return when the process is gone."""
        return self.dead
