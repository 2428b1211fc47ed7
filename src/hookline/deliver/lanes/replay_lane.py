"""A replay's lane: a stretch of the journal, or single events of it, sent once more to one destination.

It is a detached lane that never attaches and has an end. It goes second: its attempts share the slots of lanes that
are not healthy, few of them are in flight at once while anything else is to be sent, and while the destination's live
lane finds its receiver down, the replay waits.
"""

from __future__ import annotations

from hookline.connections.model import Destination, LaneConfig
from hookline.deliver.lanes.cursor import LaneCursor
from hookline.deliver.lanes.lane import Lane, MappedRequests, Target
from hookline.deliver.lanes.order import Rate
from hookline.journal.record import Record
from hookline.replays.model import Replay
from hookline.replays.predicate import predicate_of
from hookline.route.filters import Filters


class ReplayLane(Lane):
    """The lane of one replay; ``live`` is the destination's own."""

    __slots__ = ("_live", "predicate", "replay", "reported")

    def __init__(
        self,
        replay: Replay,
        destination: Destination,
        start: LaneConfig,
        targets: tuple[Target, ...],
        live: Lane,
        mapped: MappedRequests | None = None,
    ) -> None:
        self.replay = replay
        self.go_beside(live)
        self.reported: set[int] = set()
        """Partitions whose rows say that this lane has come to its end there, where others may own the rest."""
        super().__init__(destination, start, targets, limits=live.limits, mapped=mapped)
        self.is_replay = True

    def configure(
        self,
        destination: Destination,
        start: LaneConfig,
        targets: tuple[Target, ...],
        filters: Filters | None = None,
        mapped: MappedRequests | None = None,
    ) -> None:
        """Take new settings of the destination; they hold for what is taken from now on.

        Filters that stop events are the predicate's; those that take something out are the targets'.
        """
        super().configure(destination, start, targets, mapped=mapped)
        self.predicate = predicate_of(self.replay.request, destination)

    def go_beside(self, live: Lane) -> None:
        """Share the limits of this lane: the destination's own."""
        self._live = live
        live.replays = [each for each in live.replays if each is not self and not (each.closed and not each.in_flight)]
        live.replays.append(self)

    @property
    def live(self) -> Lane:
        """Return the destination's own lane."""
        return self._live

    def free(self) -> int:
        """Return how many more requests may be in flight by the user's own limit, which is the destination's."""
        return self.live.free()

    @property
    def rate_part(self) -> float:
        """Return which part of the replay's own rate the lane keeps to; of the destination's, the live lane knows."""
        return 1.0 if self.replay.rate is None else self.part

    def pace(self) -> None:
        """Keep to the replay's rate, and to the destination's, which it shares with the live lane."""
        wanted = [rate for rate in (self.replay.rate, self.options.max_rate) if rate is not None]
        if not wanted:
            self.rate = None
        elif not isinstance(self.rate, _SharedRate) or not self._is_paced(self.rate, min(wanted)):
            self.rate = _SharedRate(min(wanted), self)

    def takes(self, record: Record, partition: int, offset: int) -> bool:
        """Return whether the record is sent again; ``outcomes`` asks the same of ``predicate_of`` for ``why``."""
        return self.predicate(record)

    def spare(self, *, is_busy: bool) -> int:
        """Return how many more attempts may be in flight: none while the live lane's receiver is down, few while
        the live lane has something to send or others may want the places, else as many as the receiver takes."""
        live = self.live
        if live.closed or _is_down(live):
            return 0
        if not (is_busy or live.queue or live.detached):
            return live.free()
        return min(self.limits.replay_in_flight_max - len(self.in_flight), live.free())

    @property
    def is_held_up(self) -> bool:
        """Return whether its receiver is down: all that it sends are single probes."""
        return self.breaker.state == "open" or self.live.breaker.state == "open"

    @property
    def detached(self) -> list[LaneCursor]:
        """Return the cursors that still have something to read."""
        cursors = () if self.paused else self.cursors.values()
        return [cursor for cursor in cursors if not (cursor.frozen or _is_at_end(cursor))]

    @property
    def state(self) -> str:
        """Return the state that the lane's rows show."""
        return "finished" if self.reported and self.reported >= self.cursors.keys() else super().state

    def enter(self, cursor: LaneCursor) -> None:
        """Stand in a partition: until that is done too, the rows of all say that the lane is at work, and then anew
        that it has come to its end."""
        super().enter(cursor)
        self.reported.clear()

    def leave(self, partition: int) -> None:
        """Forget a partition that others own now."""
        super().leave(partition)
        self.reported.discard(partition)

    @property
    def finished(self) -> bool:
        """Return whether everything it was to send has been delivered or given up."""
        return not self.busy and self.retry_count <= 0 and all(_is_at_end(each) for each in self.cursors.values())


class _SharedRate(Rate):
    """A rate of its own, and what the live lane's rate leaves while nothing waits there."""

    __slots__ = ("_lane",)

    def __init__(self, per_second: float, lane: ReplayLane) -> None:
        super().__init__(per_second, lane.rate_part, lane.burst_seconds)
        self._lane = lane

    def available(self, now_seconds: float) -> int:
        own, live = super().available(now_seconds), self._lane.live
        if live.rate is None:
            return own
        return 0 if live.queue else min(own, live.rate.available(now_seconds))

    def take(self, count: int) -> None:
        super().take(count)
        if self._lane.live.rate is not None:
            self._lane.live.rate.take(count)


def _is_at_end(cursor: LaneCursor) -> bool:
    return cursor.next_offset >= (cursor.end or 0)


def _is_down(live: Lane) -> bool:
    """Return whether the live lane lets nothing through and will find out by itself when it may."""
    behind = bool(live.detached) and not live.nothing_to_try
    return live.breaker.allowance == 0 and (live.retry_count > 0 or live.busy or behind)
