"""Records and rows that are looked up come late, as from Kafka and PostgreSQL: nothing waits for them, nothing is left
out or sent twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.late_journal import LateJournal
from tests.unit.deliver.rig import Rig, destination, source

EVENTS = 700
"""Several groups of the journal."""


@pytest.fixture
def late(make_rig: MakeRig) -> Iterator[Callable[..., Rig]]:
    """Make rigs whose journal is late."""
    made: list[LateJournal] = []

    def make(room: int) -> Rig:
        rig = make_rig()
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
    journal.away = True
    rig.append("new")
    rig.turn()
    rig.pass_time(2.0)
    assert [request.offset for request in rig.network.waiting] == [2]
    rig.answer_all()
    journal.away = False
    rig.come_to_rest()
    assert sent(rig)["crm"] == Counter({1: 2, 2: 1})
