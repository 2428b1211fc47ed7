"""What several deliver processes agree on, by their rows in the database: shares of each receiver's limits, and what
breakers learn (decision 36). Where there is one process nothing here is loaded.

``tell``, ``agree`` and ``agreed`` are called on the heartbeat's thread, one after another; lanes are read and changed
on the event loop alone. While the database is away everybody goes on with what they have: nobody can take more.

Each process holds a share, and every row says what its process holds. One that holds too much uses less at once, and
says so when that is true; one that may have more takes it as far as the sum allows. Rows are read and written in
transactions that go one after another, so the sum is never above the limit, whoever comes, goes or dies.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillWaiting
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec

from hookline.deliver.cluster.fence import LEASE_SHARE, Fence, now_seconds
from hookline.deliver.cluster.heartbeat import BEAT_SECONDS, BREAKERS_MAX, Owned, Row, Share, WorkerState, decode
from hookline.deliver.cluster.shared_breakers import SharedBreakers
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.lanes.replay_lane import ReplayLane
from hookline.deliver.read.feeder import Feeder

TURN_SECONDS = 5.0
"""Where there are fewer requests at once than processes that wait: how long one of them may have its turn."""
ROWS_APART_SECONDS = 1.5
"""So much older than one's own the others' rows may be: who has waited about as long as they does not wait for them."""
PART_STEPS = 1_000_000
"""Parts of a rate are kept as multiples of this fraction, so that their sum is exact enough."""
_NOTHING = 1e-9


class Demand(NamedTuple):
    """Hold what one process could use of a limit (``wanted``), and what it holds. ``weight`` is its partitions."""

    weight: int
    wanted: float
    held: float
    turn_seconds: float = 0.0


class Settled(NamedTuple):
    """Hold what a process holds from now on, and how much of that it may use: less, where it is to give some up."""

    held: float
    usable: float


def fair(limit: float, demands: Mapping[str, Demand]) -> dict[str, float]:
    """Divide a limit by weight; what one cannot use goes to those who can, and what nobody can use to all."""
    shares = dict.fromkeys(demands, 0.0)
    wanting = {name for name, demand in demands.items() if demand.weight > 0 and demand.wanted > 0}
    left = limit
    while wanting and left > _NOTHING:
        each = left / sum(demands[name].weight for name in wanting)
        content = {name for name in wanting if demands[name].wanted <= each * demands[name].weight}
        if not content:
            for name in wanting:
                shares[name] = each * demands[name].weight
            return shares
        for name in content:
            shares[name] = demands[name].wanted
            left -= demands[name].wanted
        wanting -= content
    weights = sum(demand.weight for demand in demands.values())
    for name, demand in demands.items() if weights and left > _NOTHING else ():
        shares[name] += left * demand.weight / weights
    return shares


def whole(limit: int, demands: Mapping[str, Demand], me: str) -> dict[str, int]:
    """Divide a limit into whole numbers. What is left over stays where it is, unless somebody waits who has nothing:
    then it goes round, to whoever has waited longest as far as ``me`` can tell."""
    exact = fair(limit, demands)
    shares = {name: int(share + _NOTHING) for name, share in exact.items()}
    is_starving = any(
        not shares[name] and not demand.held and demand.turn_seconds > 0 and exact[name] > _NOTHING
        for name, demand in demands.items()
    )

    def order(name: str) -> tuple[int, float, str]:
        demand = demands[name]
        if demand.held > shares[name]:
            is_over = is_starving and demand.turn_seconds < -TURN_SECONDS
            return (2 if is_over else 0), 0.0, name
        return 1, -demand.turn_seconds - (ROWS_APART_SECONDS if name == me else 0.0), name

    entitled = sorted((name for name in demands if exact[name] - shares[name] > _NOTHING), key=order)
    for name in entitled[: limit - sum(shares.values())]:
        shares[name] += 1
    return shares


def settle(limit: float, me: str, demands: Mapping[str, Demand], share: float) -> Settled:
    """Go towards a share: use less at once, but hold more only as far as the sum of all allows."""
    mine = demands[me]
    others = [demand for name, demand in demands.items() if name != me]
    free = limit - sum(demand.held for demand in others)
    if mine.held <= free and all(demand.wanted <= demand.held + _NOTHING for demand in others):
        share = max(share, mine.held)  # nobody waits for what it has beyond its share
    held = max(mine.held, min(share, free))
    return Settled(held, min(share, held))


def settle_whole(limit: int, me: str, demands: Mapping[str, Demand]) -> tuple[int, int]:
    """``settle`` for requests at once: what is held, and what may be used."""
    held, usable = settle(limit, me, demands, whole(limit, demands, me)[me])
    return int(held), int(usable)


def settle_part(me: str, demands: Mapping[str, Demand]) -> tuple[float, float]:
    """``settle`` for the parts of a rate."""
    held, usable = settle(1.0, me, demands, math.floor(fair(1.0, demands)[me] * PART_STEPS) / PART_STEPS)
    return held, usable


ResultT = TypeVar("ResultT")

WAITED_FOR_SECONDS = 0.5
"""From beat to beat while somebody waits for a share, or a receiver is down."""
GIVEN_UP_SECONDS = 0.1
"""From beat to beat while this process has more than it may use: others wait for it to be said when that is over."""
KEPT_SECONDS = 30.0
"""How long a lane that sends nothing keeps its share: the next event need not wait for one."""
LANES_MAX = 1_000
"""Lanes with limits for which one process holds shares at a time; others wait until one has been idle for long."""
ASKED_SECONDS = 0.5
"""How long the event loop is waited for: what was reported last is reported again."""
ALIVE_SECONDS = 10.0
"""A process whose row has not changed for so long finds out nothing about receivers."""
HEADROOM, PART_MIN = 1.25, 0.02
"""What a lane that does not wait could use of its rate: as much as it used, and a little more."""


class Terms(NamedTuple):
    """Hold what was agreed: whether this is the only process, the usable shares by lane, and what others say."""

    alone: bool
    usable: Mapping[int, tuple[int, float]]
    others: Mapping[str, WorkerState]
    """Of those that are there."""
    stay: int
    """Which stay in the group it was agreed in: each ends with the last partition, and with it every share."""


class Agreement:
    """A ``heartbeat.Party``; ``in_loop`` brings work to the event loop."""

    def __init__(
        self,
        worker: str,
        engine: Dispatcher,
        feeder: Feeder,
        fence: Fence,
        session_seconds: float,
        timeout_seconds: float,
        in_loop: Callable[[Callable[[], None]], object],
        clock: Callable[[], float] = now_seconds,
    ) -> None:
        self._worker = worker
        self._engine = engine
        self._feeder = feeder
        self._fence = fence
        self._in_loop = in_loop
        self._clock = clock
        self._still_seconds = max(0.0, timeout_seconds - session_seconds * LEASE_SHARE)
        """What a process had in flight when it was no member any more may last longer than the session by this."""
        self._breakers = SharedBreakers(worker, engine, feeder)
        fence.on_last_left = self._give_up_all
        # on the loop
        self.alone = False
        self._stay = 0
        self._used: dict[int, tuple[int, float]] = {}
        """By lane: attempts counted by its rate, and when."""
        self._active: dict[int, float] = {}
        self._turns: dict[int, tuple[bool, float]] = {}
        """By lane: whether it has requests at once, or waits for a first one, and since when."""
        # on the thread
        self._written = WorkerState()
        self._gathered_stay = 0
        self._is_old = False
        self._terms: Terms | None = None
        self._next_seconds = BEAT_SECONDS
        self._changed: dict[str, tuple[int, float]] = {}
        self._ownerless: dict[str, float] = {}

    # on the heartbeat's thread

    def report(self) -> WorkerState:
        """Return how things are now."""
        gathered = self._ask(lambda: (self._gather(), self._stay))
        self._is_old = gathered is None
        if gathered is None:
            return self._written
        mine, self._gathered_stay = gathered
        return mine

    def agree(self, mine: WorkerState, others: Sequence[Row], owned: Sequence[Owned]) -> WorkerState:
        """Return what is to be written, in view of what others have written."""
        self._terms, self._next_seconds = None, BEAT_SECONDS
        if not self._is_old:
            there = self._there(others, {each.worker for each in owned})
            is_owner = all(mine.epochs.get(str(each.partition)) == each.epoch for each in owned)
            is_alone = is_owner and not any(state.alone or state.shares for state in there.values())
            self._written = self._settle(mine, there, is_alone)
        return self._written

    def agreed(self) -> float:
        """Have it in force, now that it is written; return the seconds until the next beat."""
        terms = self._terms
        if terms is not None:
            self._ask(lambda: self._take(terms))
        return self._next_seconds

    def _settle(self, mine: WorkerState, there: Mapping[str, WorkerState], is_alone: bool) -> WorkerState:
        if mine.alone or is_alone:
            # Who is not alone any more says what it has of each limit with the next beat, and until then has all.
            if not (mine.alone and is_alone):
                self._terms = Terms(is_alone, {}, self._alive(there), self._gathered_stay)
            self._next_seconds = BEAT_SECONDS if is_alone else 0.0
            return msgspec.structs.replace(mine, alone=True, shares={})
        usable: dict[int, tuple[int, float]] = {}
        shares: dict[int, Share] = {}
        for lane, share in mine.shares.items():
            shares[lane], usable[lane] = self._divide(lane, share, mine.weight, there)
        if any(_is_down(state) for state in (mine, *there.values())):
            self._next_seconds = min(self._next_seconds, WAITED_FOR_SECONDS)
        self._terms = Terms(False, usable, self._alive(there), self._gathered_stay)
        return msgspec.structs.replace(mine, shares=shares)

    def _divide(
        self, lane: int, mine: Share, weight: int, there: Mapping[str, WorkerState]
    ) -> tuple[Share, tuple[int, float]]:
        """Return what is held of a lane's limits from now on, and what of it may be used."""
        found = {worker: (state.weight, _share_of(state, lane, mine.most)) for worker, state in there.items()}
        found[self._worker] = weight, mine
        known = {worker: (each, share) for worker, (each, share) in found.items() if share is not None}
        at_once = usable_at_once = 0
        if mine.most:
            demands = {
                worker: Demand(each, min(share.wants, mine.most), share.at_once, share.turn_seconds)
                for worker, (each, share) in known.items()
            }
            at_once, usable_at_once = settle_whole(mine.most, self._worker, demands)
        parts = {worker: Demand(each, share.needs, share.part) for worker, (each, share) in known.items()}
        part, usable_part = settle_part(self._worker, parts)
        if usable_at_once < at_once or usable_part < part:
            self._next_seconds = min(self._next_seconds, GIVEN_UP_SECONDS)
        is_waited_for = any(_waits(share) for _, share in known.values())
        if is_waited_for and len(known) > 1:
            self._next_seconds = min(self._next_seconds, WAITED_FOR_SECONDS)
        held = msgspec.structs.replace(mine, at_once=at_once, part=part)
        return held, (usable_at_once, usable_part)

    def _there(self, rows: Sequence[Row], owners: set[str]) -> dict[str, WorkerState]:
        """Return the states of those who may have requests in flight: who owns nothing any more began none since."""
        now = self._clock()
        for row in rows:
            if row.worker in owners:
                self._ownerless.pop(row.worker, None)
            else:
                self._ownerless.setdefault(row.worker, now)
            if self._changed.get(row.worker, (-1, 0.0))[0] != row.seen_ms:
                self._changed[row.worker] = row.seen_ms, now
        names = {row.worker for row in rows}
        self._ownerless = {worker: at for worker, at in self._ownerless.items() if worker in names}
        self._changed = {worker: each for worker, each in self._changed.items() if worker in names}
        return {
            row.worker: _understood(row.state)
            for row in rows
            if now - self._ownerless.get(row.worker, now) < self._still_seconds or row.worker in owners
        }

    def _alive(self, there: Mapping[str, WorkerState]) -> dict[str, WorkerState]:
        now = self._clock()
        return {worker: state for worker, state in there.items() if now - self._changed[worker][1] < ALIVE_SECONDS}

    def _ask(self, work: Callable[[], ResultT]) -> ResultT | None:
        """Have something done on the event loop; None where that stands still for too long, or has ended."""
        done: Future[ResultT] = Future()

        def do() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)
                raise

        try:
            self._in_loop(do)
            return done.result(ASKED_SECONDS)
        except (StillWaiting, RuntimeError, asyncio.CancelledError):
            return None

    # on the loop

    def join(self, lane: Lane) -> None:
        """A lane was opened: others may have all of its limits."""
        if not self.alone:
            lane.grant(0, 0.0)

    @property
    def is_waited_for(self) -> bool:
        """Return whether a lane would send more now if it had a larger share."""
        return not self.alone and any(_is_short(lane) for lane in self._engine.paced)

    def _gather(self) -> WorkerState:
        engine = self._engine
        epochs = dict(self._fence.epochs)
        weight = 0 if engine.stopping else len(epochs.keys() - self._fence.leaving)
        lanes = (lane for lane in engine.lanes.values() if not lane.is_replay)
        is_open = (lane.destination.id for lane in lanes if lane.breaker.state == "open")
        return WorkerState(
            {str(partition): epoch for partition, epoch in epochs.items()},
            list(islice(is_open, BREAKERS_MAX)),
            self.alone,
            weight,
            {} if self.alone else self._shares(weight),
            self._breakers.found(),
        )

    def _shares(self, weight: int) -> dict[int, Share]:
        now = self._clock()
        shares: dict[int, Share] = {}
        waiting: dict[int, Share] = {}
        for number, lane in self._engine.lanes.items():
            share = self._share(lane, now, weight) if _has_limits(lane) else None
            if share is None:
                if lane.granted or lane.part:
                    lane.grant(0, 0.0)
            elif share.at_once or share.part:
                shares[number] = share
            else:
                waiting[number] = share
        for number in list(islice(waiting, max(0, LANES_MAX - len(shares)))):
            shares[number] = waiting[number]
        for known in (self._used, self._active, self._turns):
            for number in known.keys() - self._engine.lanes.keys():
                del known[number]
        return shares

    def _share(self, lane: Lane, now: float, weight: int) -> Share | None:
        """Return what the lane has and could use; None when it has been idle for long."""
        waits = weight > 0 and self._waits(lane)
        used = self._used_per_second(lane, now)
        busy = 0 if lane.cap is None or lane.is_replay else lane.cap - lane.free()
        if waits or used or busy or lane.number not in self._active:
            self._active[lane.number] = now
        elif now - self._active[lane.number] > KEPT_SECONDS:
            return None
        most = lane.options.max_concurrency or 0 if not lane.is_replay else 0
        part = lane.part if lane.rate is not None else 0.0
        has = (lane.cap or 0) > 0
        is_shut = lane.breaker.allowance == 0
        wants = needs = 0.0
        if weight:
            wants = min(most, 1 if is_shut and waits else most if waits else busy + has)
            rate = lane.rate.per_second if lane.rate is not None else 0.0
            at_least = PART_MIN if part or waits else 0.0
            needs = 0.0 if not rate else 1.0 if waits and not is_shut else min(1.0, used / rate * HEADROOM + at_least)
        if self._turns.get(lane.number, (not has, 0.0))[0] != has:
            self._turns[lane.number] = has, now
        since_seconds = now - self._turns[lane.number][1]
        turn = -since_seconds if has else since_seconds if waits else 0.0
        held = max(lane.cap or 0, busy) if most else 0
        return Share(most, held, int(wants), round(turn, 3), part, round(needs, 6))

    def _waits(self, lane: Lane) -> bool:
        """Return whether something could be sent now, by the lane or by replays that share its limits."""
        if lane.closed or lane.paused or not lane.targets:
            return False
        is_due = lane.retry_count > 0 and lane.next_retry_ms <= self._engine.clock.steady_ms()
        return bool(
            lane.queue or is_due or self._feeder.catch_up.is_behind(lane) or any(map(self._waits, lane.replays))
        )

    def _used_per_second(self, lane: Lane, now: float) -> float:
        taken = 0 if lane.rate is None else lane.rate.taken
        before, at = self._used.get(lane.number, (taken, now))
        self._used[lane.number] = taken, now
        return max(0, taken - before) / (now - at) if now > at else 0.0

    def _take(self, terms: Terms) -> None:
        """Have in force what was agreed, unless all was given up in the meantime."""
        if terms.stay != self._stay:
            return
        engine = self._engine
        if terms.alone or self.alone:
            for lane in engine.lanes.values():
                # Whoever was alone keeps what is at work, and gives it up in order; the rest is anybody's.
                is_kept = terms.alone or self._is_at_work(lane)
                lane.grant(*((None if terms.alone else lane.cap), 1.0) if is_kept else (0, 0.0))
            self.alone = terms.alone
        for number, (at_once, part) in terms.usable.items():
            granted = engine.lanes.get(number)
            if granted is not None and (granted.granted, granted.part) != (at_once, part):
                granted.grant(at_once, part)
        self._breakers.hear(terms.others)
        engine.wake_paced()

    def _give_up_all(self) -> None:
        """Hold nothing: once others own all partitions they need not wait for this process to say so (decision 36)."""
        self._stay += 1
        self.alone = False
        for lane in self._engine.lanes.values():
            lane.grant(0, 0.0)

    def _is_at_work(self, lane: Lane) -> bool:
        return _has_limits(lane) and (bool(lane.in_flight) or self._waits(lane))


def _has_limits(lane: Lane) -> bool:
    if isinstance(lane, ReplayLane):
        return lane.replay.rate is not None
    return lane.cap is not None or lane.rate is not None


def _is_short(lane: Lane) -> bool:
    live = lane.live if isinstance(lane, ReplayLane) else lane
    most = live.options.max_concurrency
    paces = [each for each in {live, lane} if each.rate is not None]
    return (most is not None and (live.cap or 0) < most) or any(each.rate_part < 1.0 for each in paces)


def _understood(text: str) -> WorkerState:
    """Return what a process says of itself; of one of another version perhaps nothing."""
    try:
        return decode(text)
    except msgspec.DecodeError:
        return WorkerState()


def _share_of(state: WorkerState, lane: int, most: int) -> Share | None:
    """Return what a process holds of a lane's limits: all of them as long as it thinks that there are no others."""
    return Share(most, most, most, 0.0, 1.0, 1.0) if state.alone else state.shares.get(lane)


def _waits(share: Share) -> bool:
    return share.wants > share.at_once or share.needs > share.part


def _is_down(state: WorkerState) -> bool:
    return any(found.state == "open" for found in state.breakers.values())
