"""The readers: who gets what, who holds up whom, and what comes back in which order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookline.connections.edits import Delete
from hookline.deliver.role import REST_AFTER_SECONDS
from hookline.journal.port import Follower, Group, JournalError
from hookline.journal.record import Rejection
from hookline.limits import LIMITS
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.rig import Rig, destination, source


def begin(rig: Rig, *ids: str) -> None:
    """Start with these destinations of the website."""
    rig.change(source(), source("app"), *(destination(id) for id in ids))
    rig.start()


def append_groups(rig: Rig, groups: int, size: int) -> int:
    """Groups of so many events each, read as they come; return the number of events."""
    for _ in range(groups):
        end = rig.appender.ends()[0]
        rig.append(*(f"m{end + n}" for n in range(size)))
        rig.turn()
    return rig.appender.ends()[0]


def open_breaker(rig: Rig, id: str) -> None:
    """Let a receiver fail until its breaker opens."""
    lane = rig.lane(id)
    for _ in range(60):
        rig.answer_all(500, id)
        if lane.breaker.state == "open":
            return
        rig.checkpoint()
        rig.pass_time(1.0)
    raise AssertionError("the breaker did not open")


def test_a_slow_lane_is_detached_and_the_others_go_on(rig: Rig, small_queues: tuple[int, int]) -> None:
    """A receiver that does not answer stops only its own stream; what it holds stays bounded."""
    begin(rig, "fast", "slow")
    slow = rig.lane("slow")
    for _ in range(30):
        append_groups(rig, 1, 3)
        rig.answer_all(200, "fast")
        assert len(slow.queue) <= small_queues[1] + 3
    assert rig.offsets("fast") == list(range(90))
    assert not slow.cursors[0].attached
    assert rig.role.engine.counters.detached == 1


def test_catching_up_gives_every_event_once_in_order(rig: Rig, small_queues: tuple[int, int]) -> None:
    """A detached lane gets what it missed in the order of offsets, with no gap or repeat, and is attached again."""
    begin(rig, "fast", "slow")
    for _ in range(30):
        append_groups(rig, 1, 3)
        rig.answer_all(200, "fast")
    rig.come_to_rest()
    assert rig.offsets("slow") == list(range(90))
    assert rig.lane("slow").cursors[0].attached
    append_groups(rig, 2, 3)
    rig.come_to_rest()
    assert rig.offsets("slow") == list(range(96))
    assert rig.offsets("fast") == list(range(96))


class Singly:
    """A journal as the shared reader may have it on Kafka: what has arrived so far is not what others read at once."""

    def __init__(self, journal: Follower) -> None:
        self._journal = journal

    def end(self, partition: int) -> int:
        """The journal's end."""
        return self._journal.end(partition)

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """Groups of one record."""
        for group in self._journal.read(partition, offset):
            for at, record in enumerate(group.records):
                if group.first_offset + at >= offset:
                    yield Group(group.first_offset + at, [record], group.size_bytes)


def test_catching_up_ends_where_the_shared_reader_is_within_a_group(rig: Rig) -> None:
    """Where groups are not the same for both readers, a lane that comes back still gets every event once."""
    begin(rig, "crm")
    shared, lane = rig.role.feeder.shared[0], rig.lane("crm")
    shared._journal = Singly(shared._journal)
    rig.role.feeder.detach(lane)
    rig.append("a", "b", "c")
    rig.role.feeder.room(lane)
    rig.come_to_rest()
    assert lane.cursors[0].attached
    assert rig.offsets("crm") == [0, 1, 2]


class Ended(Singly):
    """A journal that cannot be followed any more."""

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """Nothing comes of it."""
        raise JournalError("start again")


def test_a_journal_that_cannot_be_followed_any_more_ends_the_role(rig: Rig) -> None:
    """It is started again then; as long as it went on, it held its partitions and sent nothing of them."""
    begin(rig, "crm")
    shared = rig.role.feeder.shared[0]
    shared._journal = Ended(shared._journal)
    rig.append("a")
    rig.turn()
    with pytest.raises(JournalError, match="start again"):
        rig.role.beat()


def test_a_single_lane_makes_the_reader_wait(rig: Rig, small_queues: tuple[int, int]) -> None:
    """With nobody to go on for, the reader waits: the journal is the buffer, and the lane stays attached."""
    begin(rig, "only")
    append_groups(rig, 30, 3)
    lane = rig.lane("only")
    assert len(lane.queue) < small_queues[0] + 3
    assert rig.role.feeder.shared[0].next_offset < 20
    assert lane.cursors[0].attached
    rig.come_to_rest()
    assert rig.offsets("only") == list(range(90))


def test_what_a_lane_holds_is_bounded_at_its_real_size(rig: Rig) -> None:
    """With the real limits and large groups a lane holds at most ``queue_high`` and one group."""
    begin(rig, "fast", "slow")
    most = 0
    for _ in range(12):
        append_groups(rig, 1, 600)
        rig.answer_all(200, "fast")
        most = max(most, len(rig.lane("slow").queue))
    assert LIMITS.queue_low < most <= LIMITS.queue_high + 600
    assert len(rig.offsets("fast")) == 7_200


def test_an_open_breaker_parks_and_gives_back(rig: Rig) -> None:
    """What was queued is let go of, in the journal it still is; nothing new is taken until the receiver is back."""
    begin(rig, "crm")
    append_groups(rig, 20, 3)
    open_breaker(rig, "crm")
    lane = rig.lane("crm")
    assert not lane.queue
    assert lane.cursors[0].next_offset < 60
    append_groups(rig, 20, 3)
    assert not lane.queue
    tried = set(rig.offsets("crm"))
    assert len(tried) < 60
    rig.come_to_rest()
    assert set(rig.offsets("crm")) == set(range(120))
    assert not [offset for offset in range(120) if offset not in tried and rig.offsets("crm").count(offset) > 1]


def test_take_one_gives_the_next_event_of_the_lane_alone(rig: Rig) -> None:
    """A probe gets the first event that is the lane's, over everything that is not, and nothing twice."""
    begin(rig, "crm")
    rejection = Rejection("missing_user_id", "Give a userId.")
    rig.role.feeder.detach(rig.lane("crm"))
    rig.lane("crm").breaker.open("test")
    rig.append(rig.record("a", "app"), rig.record("b", rejection=rejection), rig.record("c", selection={"All": False}))
    rig.append("d", "e", "d")
    rig.append("f")
    rig.turn()
    taken = []
    while event := rig.role.feeder.catch_up.take_one(rig.lane("crm")):
        taken.append(event.record.message_id)
    assert taken == ["d", "e", "f"]
    assert rig.lane("crm").cursors[0].next_offset == 7


def catch_up_together(rig: Rig, count: int) -> list[str]:
    """Have destinations stand at the first of twenty events, all about to read; return their ids."""
    ids = [f"d{n}" for n in range(count)]
    begin(rig, *ids)
    for id in ids:
        rig.role.feeder.detach(rig.lane(id))
        rig.lane(id).breaker.open("test")
    append_groups(rig, 5, 4)
    for id in ids:
        rig.lane(id).breaker.succeeded()
        rig.role.feeder.room(rig.lane(id))
    return ids


def test_lanes_at_one_place_share_a_read(rig: Rig) -> None:
    """Many lanes that stand at the same offset cost one read of the journal, and each event is rendered once."""
    ids = catch_up_together(rig, 6)
    rig.turn()
    assert rig.role.engine.counters.read_again == 20
    rig.come_to_rest()
    for id in ids:
        assert rig.offsets(id) == list(range(20))
    assert len({*(request.delivery.event for request in rig.network.sent)}) == 20


def test_a_lane_that_has_ended_reads_along_with_nobody(rig: Rig) -> None:
    """A destination that is deleted while it and others are about to read the same events gets none of them."""
    deleted, *others = catch_up_together(rig, 3)[::-1]
    rig.change(Delete("destination", deleted))
    rig.follow()
    rig.come_to_rest()
    assert [rig.offsets(id) for id in others] == [list(range(20))] * 2
    assert rig.offsets(deleted) == []


def test_repeats_are_dropped_when_catching_up_too(rig: Rig) -> None:
    """A second reading decides as the first one did, also about the first of two equal events."""
    begin(rig, "crm")
    rig.role.feeder.detach(rig.lane("crm"))
    rig.lane("crm").breaker.open("test")
    rig.append("a", "b", "a")
    rig.append("b", "c")
    rig.turn()
    assert rig.role.engine.counters.duplicates == 2
    rig.lane("crm").breaker.succeeded()
    rig.role.feeder.room(rig.lane("crm"))
    rig.turn()
    rig.come_to_rest()
    assert rig.offsets("crm") == [0, 1, 4]
    assert rig.event("a").duplicates == 1


def test_retention_that_passes_a_detached_lane_is_on_record(rig: Rig) -> None:
    """What the journal dropped before the lane came back is one range record, and the lane goes on behind it."""
    begin(rig, "crm", "mail")
    rig.role.feeder.detach(rig.lane("crm"))
    rig.lane("crm").breaker.open("test")
    for _ in range(24):
        append_groups(rig, 1, 25)
        rig.answer_all(200, "mail")
    rig.appender.retain(rig.clock.now_ms() + 10**12)
    start = rig.role.journal.start(0)
    assert 0 < start < 600
    rig.lane("crm").breaker.succeeded()
    rig.role.feeder.room(rig.lane("crm"))
    rig.turn()
    rows = [(row.destination, row.first_offset, row.last_offset, row.status) for row in rig.role.engine.batch.ranges]
    assert rows == [("crm", 0, start - 1, "expired_by_retention")]
    rig.come_to_rest()
    assert rig.offsets("crm") == list(range(start, 600))


def test_retention_that_passes_the_reader_is_on_record(make_rig: MakeRig) -> None:
    """A service that was down for longer than events are kept says so for every lane that would have had them."""
    rig = make_rig()
    begin(rig, "crm", "mail")
    rig.append("m0")
    rig.turn()
    rig.come_to_rest()
    rig.kill()
    for first in range(1, 601, 25):
        rig.append(*(f"m{n}" for n in range(first, first + 25)))
    rig.appender.retain(rig.clock.now_ms() + 10**12)
    rig.start()
    rig.role.beat()
    rig.turn()
    start = rig.role.journal.start(0)
    rows = [(row.destination, row.first_offset, row.last_offset, row.status) for row in rig.role.engine.batch.ranges]
    assert sorted(rows) == [(id, 1, start - 1, "expired_by_retention") for id in ("crm", "mail")]
    rig.come_to_rest()
    assert rig.offsets("crm") == [0, *range(start, 601)]


@pytest.mark.parametrize("partitions", [1, 3])
def test_each_partition_is_read(make_rig: MakeRig, partitions: int) -> None:
    """A lane gets the events of every partition, also when it was detached from all of them."""
    rig = make_rig(partitions)
    begin(rig, "crm")
    for n in range(30):
        rig.append(rig.record(f"m{n}", user_key=f"u{n}"))
    rig.turn()
    rig.answer_all(500)
    rig.role.feeder.detach(rig.lane("crm"))
    rig.role.feeder.room(rig.lane("crm"))
    for n in range(30, 60):
        rig.append(rig.record(f"m{n}", user_key=f"u{n}"))
    rig.turn()
    rig.come_to_rest()
    taken = {request.delivery.event.record.message_id for request in rig.network.sent}
    assert taken == {f"m{n}" for n in range(60)}
    assert len({request.partition for request in rig.network.sent}) == partitions


def test_with_nothing_to_do_it_rests(make_rig: MakeRig) -> None:
    """Once all is delivered and saved, beats are few; what begins anew makes them quick, told of or found."""
    rig = make_rig()
    begin(rig, "crm")
    rig.append("m0")
    rig.turn()
    rig.pass_time(REST_AFTER_SECONDS)
    assert not rig.role.is_at_rest, "a request is under way"
    rig.answer_all()
    rig.pass_time(REST_AFTER_SECONDS)
    assert not rig.role.is_at_rest, "what came of it is to be saved"
    for _ in range(2):  # the second finds no lane open any more
        rig.checkpoint()
    rig.pass_time(REST_AFTER_SECONDS / 2)
    assert not rig.role.is_at_rest, "an event may come right after the last one"
    rig.pass_time(REST_AFTER_SECONDS / 2)
    assert rig.role.is_at_rest
    rig.append("m1")
    rig.role.beat()
    assert not rig.role.is_at_rest
    rig.come_to_rest()
    assert rig.offsets("crm") == [0, 1]
