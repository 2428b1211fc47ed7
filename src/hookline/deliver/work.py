"""Share what the parts of deliver have in common: the clocks, what the next checkpoint writes, and the counts, plain
integers because they change on every event.

Successes are counted from the results that a checkpoint gathers, many at once; the rest where a failure is dealt with.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable

from hookline.database.steady_clock import Clock
from hookline.deliver.cluster.fence import Fence
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.retry.policy import RetrySchedule
from hookline.deliver.store.batch import Batch
from hookline.journal.record import Record
from hookline.outcomes.outcome import Outcome
from hookline.outcomes.progress import ENTRY, ENTRY_BYTES, URL_BITS, ProgressRing
from hookline.telemetry.metrics import DURATION_BUCKETS_MS


class Times:
    """A histogram of milliseconds."""

    def __init__(self) -> None:
        self.buckets = [0] * (len(DURATION_BUCKETS_MS) + 1)
        self.sum_ms = 0

    def add(self, milliseconds: int, count: int = 1) -> None:
        """Count one time, or so many that are the same."""
        self.buckets[bisect_left(DURATION_BUCKETS_MS, milliseconds)] += count
        self.sum_ms += milliseconds * count


class Counters:
    """Hold what happened since the process started. Names of the metrics are in ``telemetry/metrics.py``."""

    def __init__(self) -> None:
        self.read = 0
        self.read_again = 0
        self.duplicates = 0
        self.delivered = 0
        self.dead_lettered = 0
        self.retries_scheduled = 0
        self.breaker_opened = 0
        self.detached = 0
        self.attached_again = 0
        self.checkpoints = 0
        self.events: Counter[str] = Counter()
        """Events that count as usage, by source."""
        self.filtered: Counter[str] = Counter()
        """Those of them that filters kept from every destination."""
        self.usage: dict[str, list[int]] = {}
        """Both in the time bucket that is running, by source."""
        self.failures: dict[str, int] = {outcome.value: 0 for outcome in Outcome if outcome is not Outcome.SUCCESS}
        self.durations = Times()
        """Of successful requests."""
        self.latencies = Times()
        """From an event's acceptance to its receiver's answer."""


BUCKETS = len(DURATION_BUCKETS_MS) + 1
_RESULT_SHIFT = 32
_DURATION_SHIFT = 48


class Counts:
    """One lane in one time bucket."""

    __slots__ = ("delivered", "failures", "first_failed", "not_delivered", "recovered", "response", "retries")

    def __init__(self) -> None:
        self.delivered = 0
        self.recovered = 0
        """Of those delivered, the ones that had failed before."""
        self.first_failed = 0
        """Events whose first attempt failed."""
        self.failures = 0
        self.retries = 0
        self.not_delivered = 0
        self.response = [0] * BUCKETS

    @property
    def attempted(self) -> int:
        """Events that were tried for the first time; what fails and comes in order of checkpoints may lag a time
        bucket."""
        return max(0, self.delivered - self.recovered) + self.first_failed


class LaneCounts:
    """By lane number; a lane with nothing to count has no counts."""

    def __init__(self) -> None:
        self._lanes: dict[int, Counts] = {}

    def of(self, lane_number: int) -> Counts:
        """Return the counts to count in."""
        found = self._lanes.get(lane_number)
        if found is None:
            found = self._lanes[lane_number] = Counts()
        return found

    def add_results(self, entries: bytes) -> Counter[int]:
        """Count the successes among some results of the ring (``outcomes.progress``); return them by lane number."""
        # Tag, result and duration are one word, and at high rates few different ones: one pass in C, then those few.
        words = memoryview(entries).cast("Q")[2 :: ENTRY_BYTES // 8].tolist()
        delivered: Counter[int] = Counter()
        for word, count in Counter(words).items():
            lane_number = (word & 0xFFFF_FFFF) >> URL_BITS
            if lane_number and 200 <= (word >> _RESULT_SHIFT & 0xFFFF) < 300:
                counts = self.of(lane_number)
                counts.delivered += count
                counts.response[bisect_left(DURATION_BUCKETS_MS, word >> _DURATION_SHIFT)] += count
                delivered[lane_number] += count
        return delivered

    def take(self) -> dict[int, Counts]:
        """Everything counted since the last call."""
        taken, self._lanes = self._lanes, {}
        return taken


class Work:
    """The lanes of a process and what is open in them."""

    def __init__(self, clock: Clock, schedule: RetrySchedule, ring: ProgressRing, counters: Counters) -> None:
        self.clock = clock
        self.schedule = schedule
        self.ring = ring
        self.counters = counters
        self.lane_counts = LaneCounts()
        self.batch = Batch()
        self.lanes: dict[int, Lane] = {}
        self.ended: dict[int, Lane] = {}
        """Lanes that have ended, until what was under way then is saved: it counts for their destinations, and nothing
        of it may be left once an erasure is answered."""
        self.open_lanes: set[Lane] = set()
        """Lanes with work that a checkpoint must know of."""
        self.retrying: set[Lane] = set()
        """Lanes that have retry rows."""
        self.probing: set[Lane] = set()
        """Lanes whose breaker lets through one event at a time."""
        self.catching_up: set[Lane] = set()
        """Lanes that keep to the rate that was chosen for the time after a pause."""
        self.stale: set[Lane] = set()
        """Lanes whose rows say something else once the next checkpoint is saved: until then none of them is tried."""
        self.recount: set[Lane] = set()
        """Lanes some of whose rows went to other workers: how many are left is asked of the database."""
        self.fence: Fence | None = None
        """Where deliver is many processes: until when this one may send."""
        self.on_lane: Callable[[Lane], None] = lambda lane: None
        """Called with each new lane, before anything is sent."""
        self.on_open: Callable[[Lane], None] = lambda lane: None
        """Called when a lane's breaker has opened."""
        self.keep_record: Callable[[int, int, Record], None] | None = None
        """Where the journal is on brokers: keeps the record at a partition's offset at hand, for it is tried again."""

    def recover_result(self, entry: bytes) -> None:
        """Have the next checkpoint save a result that an earlier process left in the ring."""
        position, at_ms, tag, result, milliseconds = ENTRY.unpack(entry)
        self.ring.add(position, at_ms, tag, result, milliseconds)
        self.batch.recovered_ms = min(at_ms, self.batch.recovered_ms or at_ms)
