"""What deliver processes agree on by their rows: shares of limits, and what breakers learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hookline.connections.model import DeliveryOptions
from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.open import ensure
from hookline.database.sqlite import OperationalError
from hookline.deliver.cluster.agreement import ALIVE_SECONDS, KEPT_SECONDS, Agreement
from hookline.deliver.cluster.fence import Fence, raise_epoch
from hookline.deliver.cluster.heartbeat import Heartbeat
from hookline.deliver.lanes.lane import Lane
from tests.unit.conftest import LocationOf
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.rig import Rig, destination, source

AT_ONCE = 4
RATE = 100.0
SESSION_SECONDS, TIMEOUT_SECONDS = 10.0, 6.0
STILL_SECONDS = TIMEOUT_SECONDS - SESSION_SECONDS / 2


class Process:
    """A deliver process with one partition of its own, and what it says in its row."""

    def __init__(self, name: str, rig: Rig, rows: Connection, heartbeat: Callable[..., Heartbeat]) -> None:
        self.name, self.rig, self.rows = name, rig, rows
        rig.start()
        self.fence = Fence(SESSION_SECONDS)
        engine, feeder = rig.role.engine, rig.role.feeder
        parts = name, engine, feeder, self.fence, SESSION_SECONDS, TIMEOUT_SECONDS
        self.agreement = Agreement(*parts, lambda work: work(), rig.clock.monotonic)
        for lane in engine.lanes.values():
            self.agreement.join(lane)
        engine.on_lane = self.agreement.join
        self.heartbeat = heartbeat(name, self.agreement)

    def take(self, partition: int) -> Process:
        """Become the owner of a partition, and say so."""
        self.fence.epochs[partition] = raise_epoch(self.rows, partition, self.name, 0)
        self.beat()
        return self

    def beat(self, seconds: float = 0.5) -> None:
        """Let time pass, and speak."""
        self.rig.pass_time(seconds)
        self.heartbeat.beat(self.rows)
        self.rig.turn()

    def append(self, count: int) -> None:
        """Accept events for its partition, and let it send."""
        first = self.rig.appender.ends()[0]
        self.rig.append(*(f"{self.name}-{first + number}" for number in range(count)))
        self.rig.turn()

    @property
    def lane(self) -> Lane:
        """Its lane of the one destination."""
        return next(iter(self.rig.role.engine.lanes.values()))

    @property
    def in_flight(self) -> int:
        """Its requests that have no answer yet."""
        return len(self.rig.network.waiting)


@pytest.fixture
def process(location_of: LocationOf, make_rig: MakeRig) -> Iterator[Callable[..., Process]]:
    """Start processes that share a database; all have the same destination."""
    position = location_of("deliver")
    ensure(position, "deliver")
    rows = connect(position)

    def make(name: str, **options: object) -> Process:
        rig = make_rig()
        rig.change(source(), destination("crm", delivery=DeliveryOptions(**options)))  # type: ignore[arg-type]
        return Process(name, rig, rows, lambda worker, party: Heartbeat(position, worker, party))

    yield make
    rows.close()


def _go_on(*processes: Process, rounds: int = 12, answer: bool = True) -> None:
    for _ in range(rounds):
        for each in processes:
            if answer and each.in_flight:
                each.rig.answer(each.rig.network.waiting[0])
            each.beat()
        assert sum(each.in_flight for each in processes) <= AT_ONCE


def test_a_process_by_itself_has_all_of_a_limit_at_once(process: Callable[..., Process]) -> None:
    """Before its first partition comes it knows that there are no others, and sends as one alone would."""
    one = process("one", max_concurrency=AT_ONCE, max_rate=RATE)
    one.beat()
    one.take(0).append(20)
    one.rig.pass_time(0.1)
    assert one.in_flight == AT_ONCE
    assert one.agreement.alone
    assert one.lane.part == 1.0


def test_requests_at_once_are_shared_with_one_who_comes(process: Callable[..., Process]) -> None:
    """The second begins when the first has given up some: never more than the limit, and soon each has its share."""
    one = process("one", max_concurrency=AT_ONCE).take(0)
    one.append(100)
    two = process("two", max_concurrency=AT_ONCE).take(1)
    two.append(100)
    assert (one.in_flight, two.in_flight) == (AT_ONCE, 0)
    _go_on(one, two)
    assert (one.in_flight, two.in_flight) == (AT_ONCE // 2, AT_ONCE // 2)


def test_what_one_does_not_need_the_other_gets(process: Callable[..., Process]) -> None:
    """One has nothing to send: the other has nearly all, and all once the lane has been idle for long."""
    one, two = (
        process(name, max_concurrency=AT_ONCE, max_rate=RATE).take(at) for at, name in enumerate(("one", "two"))
    )
    one.append(500)
    _go_on(one, two)
    assert one.in_flight >= AT_ONCE - 1
    assert one.lane.part >= 0.95
    two.beat(KEPT_SECONDS + 1)
    _go_on(one, two, rounds=3)
    assert one.in_flight == AT_ONCE
    assert one.lane.part > 0.999
    two.append(500)
    _go_on(one, two)
    assert (one.in_flight, two.in_flight) == (AT_ONCE // 2, AT_ONCE // 2)
    assert one.lane.part + two.lane.part == pytest.approx(1.0, abs=0.001)


def test_fewer_requests_at_once_than_processes_go_round(process: Callable[..., Process]) -> None:
    """One request at once for two who both have events: never two, and both get on."""
    one, two = (process(name, max_concurrency=1).take(at) for at, name in enumerate(("one", "two")))
    one.append(100)
    two.append(100)
    for _ in range(60):
        for each in (one, two):
            if each.in_flight:
                each.rig.answer(each.rig.network.waiting[0])
            each.beat()
        assert one.in_flight + two.in_flight <= 1
    delivered = [each.rig.role.engine.counters.delivered for each in (one, two)]
    assert min(delivered) >= 15
    assert sum(delivered) >= 45


def test_a_share_is_held_until_its_process_owns_nothing(process: Callable[..., Process]) -> None:
    """One that is killed keeps its share until others own its partitions, and what it had begun has ended."""
    one, two = (process(name, max_concurrency=AT_ONCE).take(at) for at, name in enumerate(("one", "two")))
    one.append(100)
    two.append(100)
    _go_on(one, two)
    one.rig.network.waiting.clear()  # killed
    _go_on(two, rounds=30)
    assert two.in_flight == AT_ONCE // 2
    two.take(0)
    two.beat(STILL_SECONDS / 2)
    assert two.in_flight == AT_ONCE // 2
    two.beat(STILL_SECONDS / 2 + 0.1)
    assert two.in_flight == AT_ONCE
    two.beat()
    assert two.agreement.alone


def test_a_share_does_not_outlast_the_last_partition(process: Callable[..., Process]) -> None:
    """One that stood still loses its partitions and gets one again before it has spoken: what it held is another's."""
    one, two = (process(name, max_concurrency=AT_ONCE, max_rate=RATE) for name in ("one", "two"))
    one.take(0).append(100)
    assert one.agreement.alone
    two.take(0)
    two.append(100)
    two.beat(STILL_SECONDS + 0.1)
    two.beat()
    assert (two.in_flight, two.lane.part) == (AT_ONCE, 1.0)
    one.rig.answer_all()
    one.fence.leave(0)
    one.fence.epochs[1] = raise_epoch(one.rows, 1, one.name, 0)
    one.rig.pass_time(1.0)
    assert (one.in_flight, one.lane.part) == (0, 0.0)
    _go_on(one, two)
    assert (one.in_flight, two.in_flight) == (AT_ONCE // 2, AT_ONCE // 2)
    assert one.lane.part + two.lane.part == pytest.approx(1.0, abs=0.001)


def test_what_was_agreed_before_is_not_taken_after_the_last_partition(process: Callable[..., Process]) -> None:
    """The partitions go while the row is being written: what it says was agreed is nobody's then."""
    one = process("one", max_concurrency=AT_ONCE, max_rate=RATE).take(0)
    state = one.agreement.agree(one.agreement.report(), [], [])
    assert state.alone
    one.fence.leave(0)
    one.agreement.agreed()
    assert not one.agreement.alone
    assert one.lane.part == 0.0


def test_shares_stay_while_the_database_is_away(process: Callable[..., Process]) -> None:
    """Who cannot speak goes on with what it has, and nobody takes it."""
    one, two = (process(name, max_concurrency=AT_ONCE).take(at) for at, name in enumerate(("one", "two")))
    one.append(100)
    two.append(100)
    _go_on(one, two)

    class Away:
        in_transaction = False

        def execute(self, *_: object) -> None:
            raise OperationalError("away")

    for _ in range(5):
        with pytest.raises(OperationalError):
            one.heartbeat.beat(Away())  # type: ignore[arg-type]
        one.rig.answer(one.rig.network.waiting[0])
        one.rig.pass_time(ALIVE_SECONDS)
        two.beat()
        assert (one.in_flight, two.in_flight) == (AT_ONCE // 2, AT_ONCE // 2)


def test_a_replays_own_rate_is_shared_too(process: Callable[..., Process]) -> None:
    """Each of two processes sends its part of a replay at its part of the replay's rate."""
    one, two = (process(name).take(at) for at, name in enumerate(("one", "two")))
    for each in (one, two):
        each.append(200)
        each.rig.answer_all()
        each.rig.checkpoint()
        each.rig.replay(rate=20)
        each.rig.follow()
    begun = sum(len(each.rig.network.sent) for each in (one, two))
    for _ in range(80):
        for each in (one, two):
            each.rig.answer_all()
            each.beat(0.1)
    assert sum(len(each.rig.network.sent) for each in (one, two)) - begun == pytest.approx(160, rel=0.1)


def test_what_one_breaker_learns_the_other_follows(process: Callable[..., Process]) -> None:
    """One finds the receiver down, the other stops; they probe in turn; one gets through, and both go on."""
    one, two = (process(name).take(at) for at, name in enumerate(("one", "two")))
    _break(one)
    two.append(100)
    for request in list(two.rig.network.waiting):
        two.rig.answer(request, 500)
    one.beat()
    two.beat()
    assert two.lane.breaker.state == "open"
    two.rig.answer_all(500)
    probed = [0, 0]
    for _ in range(240):
        for at, each in enumerate((one, two)):
            each.beat()
            probed[at] += each.rig.answer_all(500)
    assert sum(probed) == pytest.approx(7, abs=1)  # as one alone: after 1, 2, 4, 8, 16, 32 and 60 s
    assert min(probed) >= 2
    for each in (one, two):  # the database is away: each finds out by itself
        each.rig.pass_time(70.0)
        each.rig.checkpoint()
        each.rig.pass_time(0.1)
        assert each.rig.answer_all(500) == 1
    while not one.in_flight and not two.in_flight:
        one.beat()
        two.beat()
    well, other = (one, two) if one.in_flight else (two, one)
    well.rig.answer_all()
    well.beat()
    other.beat()
    assert other.lane.breaker.state != "open"
    assert other.in_flight


def test_who_saw_the_receiver_well_since_does_not_follow(process: Callable[..., Process]) -> None:
    """One whose own network is broken stops nobody else."""
    one, two = (process(name).take(at) for at, name in enumerate(("one", "two")))
    _break(one)
    two.rig.clock.seconds = one.rig.clock.seconds
    two.append(1)
    one.beat()
    two.rig.pass_time(0.2)
    two.rig.answer_all()
    two.beat(0.0)
    assert (one.lane.breaker.state, two.lane.breaker.state) == ("open", "closed")


def _break(each: Process) -> None:
    """Let its receiver fail until the breaker opens."""
    each.append(100)
    while each.lane.breaker.state != "open":
        for request in list(each.rig.network.waiting):
            each.rig.answer(request, 500)
        each.rig.pass_time(1.0)
        each.rig.checkpoint()
