"""Records and rows that are looked up come late, as from Kafka and PostgreSQL: nothing waits for them, nothing is left
out or sent twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from hookline.journal.port import JournalAway, JournalFetching, partition_of
from hookline.outcomes.progress import POSITION_SHIFT
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.late_journal import LateJournal
from tests.unit.deliver.rig import Rig, destination, source

EVENTS = 700
"""Several groups of the journal."""


@pytest.fixture
def late(make_rig: MakeRig) -> Iterator[Callable[..., Rig]]:
    """Make rigs whose journal is late."""
    made: list[LateJournal] = []

    def make(room: int, partitions: int = 1) -> Rig:
        rig = make_rig(partitions)
        rig.append("first")  # so that there is a journal
        made.append(LateJournal(rig.folder / "journal", room))
        rig.lookups = made[-1]
        return rig

    yield make
    for each in made:
        each.close()


def sent(rig: Rig) -> dict[str, Counter[int]]:
    """How often each offset was sent, by destination."""
    found: dict[str, Counter[int]] = {}
    for request in rig.network.sent:
        found.setdefault(request.destination, Counter())[request.offset] += 1
    return found


def test_lanes_that_catch_up_come_to_the_end(late: Callable[..., Rig]) -> None:
    """Many stand at places of their own, and there is room for the answer to one question only."""
    rig = late(room=1)
    names = [f"d{number}" for number in range(6)]
    rig.change(source(), *(destination(name) for name in names))
    rig.start()
    for number, name in enumerate(names):
        rig.append(*(f"{name}-{n}" for n in range(EVENTS // 6)))
        rig.turn()
        rig.answer_all()
        rig.role.feeder.detach(rig.lane(names[number]))
    for name in names:
        rig.role.feeder.room(rig.lane(name))
    rig.come_to_rest()
    everything = dict.fromkeys(range(1, 1 + EVENTS // 6 * 6), 1)
    assert sent(rig) == {name: Counter(everything) for name in names}


def test_rows_that_are_due_are_asked_for_together(late: Callable[..., Rig]) -> None:
    """In one turn for all, and tried in the next."""
    rig = late(room=1_000)
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*(f"m{n}" for n in range(3)))
    rig.turn()
    rig.answer_all(500)
    rig.checkpoint()
    rig.pass_time(5.0)  # the rows are asked for
    rig.checkpoint()
    rig.pass_time(0.05)
    assert rig.network.waiting == []
    rig.pass_time(0.05)
    assert len(rig.network.waiting) == 3
    rig.come_to_rest()
    assert set(sent(rig)["crm"].values()) == {2}


def test_a_probe_waits_for_its_event_and_is_not_lost(late: Callable[..., Rig]) -> None:
    """An open breaker tries its oldest event as soon as that has come, not at the next time of the schedule."""
    rig = late(room=1_000)
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*(f"m{n}" for n in range(60)))
    rig.turn()
    for _ in range(30):
        if rig.lane("crm").breaker.state == "open":
            break
        rig.answer_all(500)
        rig.checkpoint()
        rig.pass_time(3.0)
    assert rig.lane("crm").breaker.state == "open"
    rig.answer_all(500)
    rig.checkpoint()
    rig.pass_time(700.0)  # the rows are asked for
    rig.checkpoint()
    rig.pass_time(0.05)
    rig.pass_time(0.05)
    assert len(rig.network.waiting) == 1


def test_while_nobody_answers_the_rest_goes_on(late: Callable[..., Rig]) -> None:
    """What is new is delivered; what is to be looked up waits, and is tried when there are answers again."""
    rig = late(room=1_000)
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append("fails")
    rig.turn()
    rig.answer_all(500)
    rig.checkpoint()
    journal = rig.lookups
    assert isinstance(journal, LateJournal)
    journal.away = {0}
    rig.append("new")
    rig.turn()
    rig.pass_time(2.0)
    assert [request.offset for request in rig.network.waiting] == [2]
    rig.answer_all()
    journal.away = ()
    rig.come_to_rest()
    assert sent(rig)["crm"] == Counter({1: 2, 2: 1})


USERS = [f"u{number}" for number in range(80)]
"""Of either partition some forty."""


@pytest.fixture
def half(late: Callable[..., Rig]) -> tuple[Rig, LateJournal]:
    """A destination that stands before an event of each user, in two partitions, and their journal."""
    rig = late(room=1_000, partitions=2)
    rig.change(source(), destination("crm"))
    rig.start()
    rig.role.feeder.detach(rig.lane("crm"))
    rig.append(*(rig.record(user, user_key=user) for user in USERS))
    rig.turn()
    journal = rig.lookups
    assert isinstance(journal, LateJournal)
    return rig, journal


def sent_of(rig: Rig) -> Counter[int]:
    """Count the events that were sent of each partition."""
    return Counter(request.partition for request in rig.network.sent)


def owed() -> Counter[int]:
    """Count the events that each partition has."""
    return Counter(partition_of(user, 2) for user in USERS)


@pytest.mark.parametrize("away", [0, 1])
def test_a_partition_that_cannot_be_read_holds_up_no_other(half: tuple[Rig, LateJournal], away: int) -> None:
    """A lane that catches up gets everything of the other one meanwhile, and the rest when it can be read again."""
    rig, journal = half
    journal.away = {away}
    rig.role.feeder.room(rig.lane("crm"))
    for _ in range(20):
        rig.turn()
        rig.answer_all()
        rig.pass_time(0.05)
    assert sent_of(rig) == {1 - away: owed()[1 - away]}
    journal.away = ()
    rig.come_to_rest()
    assert sent_of(rig) == owed()


@pytest.mark.parametrize("away", [0, 1])
def test_due_retries_of_another_partition_are_tried(half: tuple[Rig, LateJournal], away: int) -> None:
    """Those that can be looked up are, whichever is due first."""
    rig, journal = half
    rig.role.feeder.room(rig.lane("crm"))
    for _ in range(20):
        for request in list(rig.network.waiting):
            rig.answer(request, 500 if request.offset == 2 else 200)
        rig.pass_time(0.05)
    rig.checkpoint()
    journal.away = {away}
    for _ in range(4):
        rig.pass_time(2.5)
        rig.checkpoint()
    assert [request.partition for request in rig.network.waiting] == [1 - away]


@pytest.mark.parametrize("away", [0, 1])
def test_a_probe_takes_an_event_of_another_partition(half: tuple[Rig, LateJournal], away: int) -> None:
    """A receiver that is well again is found out by what can be read."""
    rig, journal = half
    journal.away = {away}
    event = None
    for _ in range(5):  # groups are asked for first, and not all are of the source
        with suppress(JournalFetching):
            event = event or rig.role.feeder.catch_up.take_one(rig.lane("crm"))
    assert event is not None
    assert event.position >> POSITION_SHIFT == 1 - away
    journal.away = {0, 1}
    rig.role.feeder.catch_up.leave(1 - away)
    with pytest.raises(JournalAway):
        rig.role.feeder.catch_up.take_one(rig.lane("crm"))


def test_lanes_that_wait_for_a_partition_let_the_others_go_on(half: tuple[Rig, LateJournal]) -> None:
    """However many they are, those that have something to read are not looked at in turn with them."""
    rig, journal = half
    waiting = [f"d{number}" for number in range(5)]
    rig.change(*(destination(name) for name in waiting))
    rig.follow()
    rig.role.feeder.room(rig.lane("crm"))
    rig.come_to_rest()
    for name in (*waiting, "crm"):
        rig.role.feeder.detach(rig.lane(name))
    rig.append(*(rig.record(f"{user}-2", user_key=user) for user in USERS))
    journal.away = {0}
    for name in waiting:
        rig.role.feeder.room(rig.lane(name))
    for _ in range(20):
        rig.pass_time(0.05)
        rig.answer_all()
    rig.role.feeder.room(rig.lane("crm"))
    before = sent_of(rig)
    for _ in range(3):
        rig.pass_time(0.05)
        rig.answer_all()
    assert (sent_of(rig) - before)[1] == owed()[1]
    journal.away = ()
    rig.come_to_rest()
    every = Counter((request.destination, request.partition, request.offset) for request in rig.network.sent)
    assert set(every.values()) == {1}
