"""Fair shares of the loop's time at intake: a source that floods waits for itself, and nobody else waits for it.

While the requests of one source alone come in, each is taken in the turn of the loop it arrives in; that costs one
comparison. Once several sources send, each has a share of every turn. What is beyond it, and all batches, waits in its
source's queue and is worked off between turns, a few hundred microseconds at a time and source by source, so that a
request of anybody else never waits for more than one such slice. So it is for one source alone, once its batches take
too much of one turn, until nothing waits.

A source that does not come to the end of its queue is greedy. What it appends goes to the disk with what others append,
and by itself only every few milliseconds: an event of somebody else seldom finds the disk busy with a flood.

How much may wait is bounded in bytes, the last quarter for sources below an even share; what does not fit is answered
503 before it costs anything. These are the bytes that were sent, and a batch that has begun takes what it inflates to:
so only a few have begun at once. While there are that many, slices go to them alone. Once one is done, its source goes
behind all that wait, and the first of these begins.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import NamedTuple, Protocol

from hookline.collect.http.clients import is_fair
from hookline.journal.reading import size_bytes as size_bytes_of
from hookline.journal.record import Record

Done = Callable[[BaseException | None], None]
Append = Callable[[list[Record], Done], None]
Who = object
"""Whose a request is: its source's id, or its address, or a trusted proxy's client, while the source is not known."""

TURN_MICROSECONDS = 400.0
"""What the requests of one source may take of a turn that others wait in."""
REQUEST_MICROSECONDS = 30.0
BYTES_PER_MICROSECOND = 32
"""What a request takes, roughly: events of 500 bytes take some 15 µs each, and each call some more."""
SLICE_SECONDS = 0.0003
TURN_SECONDS = 0.0003
"""Of each turn, for what waits in queues, while others send."""
QUIET_TURN_SECONDS = 0.005
"""The same, once everything waits in queues: nothing was taken at once for ``QUIET_SECONDS``, nobody waits for us."""
QUIET_SECONDS = 0.5
ALONE_TURN_SECONDS = 0.025
"""What one source's batches may take of a turn while nobody else sends; the rest of them waits as if somebody did. A
few kilobytes of gzip hold seconds of work, all of which would be done before anybody else is looked at."""
CONTENDED_SECONDS = 60.0
"""Once nobody else has sent anything for so long, and nothing waits, a source's requests are all taken at once."""
YIELDED_TURNS_MAX = 2
"""After somebody who was taken at once, so that the commit that they wait for comes first; then it is our turn."""
GREEDY_SECONDS = 0.05
"""Whose queue has not been empty for so long sends more than its share."""
PATIENCE_SECONDS = 0.002
"""How long records of greedy sources wait for others to be stored with."""
STORING_BYTES_MAX = 96 * 1024
"""Of records of greedy sources on their way to the disk: what others are stored with costs them time."""
HELD_BYTES_MAX = 128 * 1024
"""Of those that are not: while there are more, greedy sources wait."""
WAITING_BYTES_MAX = 64 * 1024 * 1024
"""Bodies of all requests that wait for their turn, and what of their heads is kept."""
BEGUN_MAX = 16
"""Batches that have begun at once: each takes three times what it inflates to, 1.5 MB with the usual limit of a batch.
With fewer, small batches would wait longer for large ones of others."""
WAITING_OVERHEAD_BYTES = 1_024
"""What a request that waits takes beside them."""


class Loop(Protocol):
    """Name what is needed of an event loop."""

    def call_soon(self, callback: Callable[[], object], /) -> object:
        """Call in the next turn."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> object:
        """Call after so many seconds."""


class _Work(NamedTuple):
    steps: Iterator[None]
    bytes: int


class _Queue:
    """Keep what waits of one source, oldest first, since when something has, and whether the oldest has begun."""

    __slots__ = ("begun", "bytes", "since", "work")

    def __init__(self, since: float) -> None:
        self.begun = False
        self.bytes = 0
        self.since = since
        self.work: deque[_Work] = deque()


class PatientAppends:
    """Records of greedy sources before they are appended; ``relieved`` is called when there is room for more."""

    def __init__(self, append: Append, relieved: Callable[[], None], loop: Callable[[], Loop]) -> None:
        self._append = append
        self._loop = loop
        self._relieved = relieved
        self._held: deque[tuple[list[Record], Done, int]] = deque()
        self._held_bytes = self._storing_bytes = 0
        self._is_timed = False

    @property
    def is_full(self) -> bool:
        """Return whether greedy sources have to wait."""
        return self._held_bytes >= HELD_BYTES_MAX

    def hold(self, records: list[Record], done: Done) -> None:
        """Append the records with the next ones of others, or a little later."""
        size_bytes = size_bytes_of(records)
        self._held.append((records, done, size_bytes))
        self._held_bytes += size_bytes
        self._wait()

    def hand_over(self, storing_bytes_max: float = STORING_BYTES_MAX) -> None:
        """Append what is held, as far as the disk has taken what was appended before."""
        if not self._held:
            return
        while self._held and self._storing_bytes < storing_bytes_max:
            records, done, size_bytes = self._held.popleft()
            self._held_bytes -= size_bytes
            self._storing_bytes += size_bytes
            self._append(records, partial(self._stored, done, size_bytes))
        self._relieved()

    def _stored(self, done: Done, size_bytes: int, error: BaseException | None) -> None:
        self._storing_bytes -= size_bytes
        if self._held:
            self._wait()
        done(error)

    def _wait(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            self._loop().call_later(PATIENCE_SECONDS, self._waited)

    def _waited(self) -> None:
        self._is_timed = False
        self.hand_over()


class FairTurns:
    """Decides who is taken at once, and works off what waits; everything on one loop."""

    def __init__(
        self,
        append: Append,
        clock: Callable[[], float],
        waiting_bytes_max: int = WAITING_BYTES_MAX,
        loop: Callable[[], Loop] = asyncio.get_running_loop,
    ) -> None:
        self._waiting_bytes_max = waiting_bytes_max
        self._loop = loop
        self.patient = PatientAppends(append, self._schedule, loop)
        self.serves_greedy = False
        """Whether the step that runs is a greedy source's."""
        self._turns_to_yield = self._yielded_turns = 0
        self.last: Who = None
        """Whose request came last; while ``contended`` is false and it stays the same, nothing has to be asked."""
        self.contended = False
        self._taken_seconds = 0.0
        """What was taken at once in this turn without being asked for."""
        self.waiting_bytes = 0
        self._clock = clock
        self._others_at = -inf
        self._at_once_at = 0.0
        self._spent: dict[Who, float] = {}
        self._queues: OrderedDict[Who, _Queue] = OrderedDict()
        self._begun: OrderedDict[Who, _Queue] = OrderedDict()
        """Those of the queues whose oldest work has begun, in the same order."""
        self._scheduled = False

    def must_wait(self, who: Who, body_bytes: float) -> bool:
        """Return whether a request is beyond its source's share of this turn; count it if it is not."""
        if who is not self.last:
            if self.last is not None:
                self.contended = True
                self._others_at = self._clock()
            self.last = who
        if not self.contended:
            return False
        self._schedule()
        spent = self._spent.get(who, 0.0) + REQUEST_MICROSECONDS + body_bytes / BYTES_PER_MICROSECOND
        if spent > TURN_MICROSECONDS or who in self._queues:
            return True
        self._spent[who] = spent
        self._at_once_at = self._clock()
        return False

    def count(self, seconds: float) -> None:
        """Count what one request of a source that sends alone took; past the bound of a turn, the next ones wait."""
        self._schedule()
        self._taken_seconds += seconds
        if self._taken_seconds > ALONE_TURN_SECONDS:
            self.contended = True

    def step_aside(self) -> None:
        """Let the next turns go to what was just appended; greedy sources' records go along with it."""
        self._turns_to_yield = YIELDED_TURNS_MAX
        self.patient.hand_over()

    def add(self, who: Who, steps: Iterator[None], held_bytes: int) -> bool:
        """Have a request that takes so much worked off step by step, behind those of its source that wait; False when
        too much does."""
        work = _Work(steps, held_bytes + WAITING_OVERHEAD_BYTES)
        queue = self._queues.get(who) or _Queue(self._clock())
        total, holders = self.waiting_bytes + work.bytes, len(self._queues) + (who not in self._queues)
        if not is_fair(queue.bytes + work.bytes, holders, total, self._waiting_bytes_max):
            return False
        self._queues.setdefault(who, queue)
        queue.work.append(work)
        queue.bytes += work.bytes
        self.waiting_bytes = total
        return True

    def run_turn(self) -> bool:
        """Work off what one turn allows; return whether more waits."""
        self._spent.clear()
        self._taken_seconds = 0.0
        if self._turns_to_yield and self._yielded_turns < YIELDED_TURNS_MAX:
            self._turns_to_yield -= 1
            self._yielded_turns += 1
            return bool(self._queues)
        self._yielded_turns = 0
        now = self._clock()
        is_quiet = now - self._at_once_at > QUIET_SECONDS
        turn_ends = now + (QUIET_TURN_SECONDS if is_quiet else TURN_SECONDS)
        stuck = 0
        while stuck < len(self._in_turn) and now < turn_ends:
            who, queue = next(iter(self._in_turn.items()))
            self.serves_greedy = not is_quiet and now - queue.since > GREEDY_SECONDS
            if self.serves_greedy and self.patient.is_full:
                stuck += 1
            else:
                stuck = 0
                now = self._run_slice(queue, now + SLICE_SECONDS)
            self._put_back(who, queue)
        self.serves_greedy = False
        if not self._queues and now - self._others_at > CONTENDED_SECONDS:
            self.contended = False
        return stuck < len(self._in_turn)

    @property
    def _in_turn(self) -> OrderedDict[Who, _Queue]:
        """Return the queues that slices go to, the next one first."""
        return self._begun if len(self._begun) >= BEGUN_MAX else self._queues

    def _put_back(self, who: Who, queue: _Queue) -> None:
        self._begun.pop(who, None)
        if queue.begun:
            self._begun[who] = queue
        if queue.work:
            self._queues.move_to_end(who)
        else:
            del self._queues[who]

    def _run_slice(self, queue: _Queue, ends: float) -> float:
        now = ends
        while queue.work:
            work = queue.work[0]
            queue.begun = next(work.steps, _ENDED) is not _ENDED
            if not queue.begun:
                queue.work.popleft()
                queue.bytes -= work.bytes
                self.waiting_bytes -= work.bytes
            now = self._clock()
            if now >= ends or (not queue.begun and len(self._begun) >= BEGUN_MAX):
                break
        return now

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._scheduled = False
        if self.run_turn():
            self._schedule()


_ENDED = object()
