"""A destination that is disabled with ``drain`` still gets what was accepted before, and nothing after it."""

from __future__ import annotations

import pytest

from hookline.connections.edits import Put
from hookline.connections.model import Pause
from hookline.connections.store import ChangeRefused
from hookline.journal.port import partition_of
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.rig import Rig, destination, source


@pytest.fixture
def crm(rig: Rig) -> Rig:
    """A started rig with one destination."""
    rig.change(source(), destination("crm"))
    rig.start()
    return rig


def drain(rig: Rig) -> None:
    """Disable it, and let the role learn of it."""
    rig.store.drain("crm", "test", rig.appender.ends)
    rig.follow()


def states(rig: Rig) -> set[str]:
    """What the lane's rows say."""
    rig.checkpoint()
    return {row.state for row in rig.role.store.reader.lanes()}


def test_what_waits_is_sent_and_what_comes_is_not(crm: Rig) -> None:
    """Then the lane says that it is drained, and control ends it."""
    crm.append("a", "b")
    drain(crm)
    crm.append("late")
    crm.come_to_rest()
    assert crm.offsets("crm") == [0, 1]
    assert states(crm) == {"drained"}
    crm.store.end_drain("crm", "test", crm.appender.ends)
    crm.follow()
    crm.checkpoint()
    assert [crm.status_at(name, "crm") for name in ("a", "b", "late")] == ["delivered", "delivered", "not_routed"]
    assert crm.role.engine.lanes == {}


def test_every_partition_is_drained(make_rig: MakeRig) -> None:
    """One that is at its end already does not keep the lane from reading the others."""
    rig = make_rig(partitions=2)
    rig.change(source(), destination("crm"))
    rig.start()
    users = [f"u{n}" for n in range(40) if partition_of(f"u{n}", 2) == 1]
    rig.append(*(rig.record(user, user_key=user) for user in users))
    drain(rig)
    rig.come_to_rest()
    assert sorted(rig.offsets("crm")) == list(range(len(users)))
    assert states(rig) == {"drained"}


def test_it_waits_for_no_slow_destination(rig: Rig, small_queues: tuple[int, int]) -> None:
    """All that follow the journal's end have enough, and stand before what it is still to get: read on for it."""
    rig.change(source(), destination("crm"), destination("slow"))
    rig.start()
    rig.store.pause("crm", Pause(since=rig.clock.now_ms(), reason="a test"), "test", rig.appender.ends)
    rig.follow()
    for number in range(30):
        rig.append(*(f"m{number}-{each}" for each in range(3)))
        rig.turn()
    assert rig.role.feeder.shared[0].next_offset < 90
    drain(rig)
    for _ in range(3):
        rig.answer_all(200, "crm")
        rig.pass_time(0.05)
    assert rig.offsets("crm") == list(range(90))
    rig.come_to_rest()
    assert "drained" in states(rig)
    assert rig.offsets("slow") == list(range(90))


def test_what_came_afterwards_is_not_given_up_with_it(make_rig: MakeRig) -> None:
    """Also in a partition that was empty then: retrying all that was not delivered would send it."""
    rig = make_rig(partitions=2)
    rig.change(source(), destination("crm"))
    rig.start()
    drain(rig)
    rig.append(*(rig.record(f"u{n}", user_key=f"u{n}") for n in range(20)))
    rig.come_to_rest()
    rig.store.end_drain("crm", "test", rig.appender.ends)
    rig.follow()
    rig.checkpoint()
    assert list(rig.role.store.reader.ranges_discarded("crm", 0)) == []


def test_retries_are_waited_for(crm: Rig) -> None:
    """An event that fails is tried again although the destination is disabled."""
    crm.append("a")
    crm.turn()
    crm.answer_all(503)
    drain(crm)
    assert "drained" not in states(crm)
    crm.come_to_rest()
    assert states(crm) == {"drained"}
    assert crm.status_at("a", "crm") == "delivered"


@pytest.mark.parametrize("saved", [True, False])
def test_draining_survives_a_crash(crm: Rig, saved: bool) -> None:
    """Nothing twice, nothing after the end."""
    crm.append("a", "b")
    drain(crm)
    if saved:
        crm.checkpoint()
    crm.append("late")
    crm.restart()
    crm.turn()
    crm.come_to_rest()
    assert sorted(set(crm.offsets("crm"))) == [0, 1]
    crm.restart()
    crm.pass_time(1)
    assert states(crm) == {"drained"}
    assert sorted(set(crm.offsets("crm"))) == [0, 1]


def test_what_is_left_can_be_discarded(crm: Rig) -> None:
    """Ending it early puts the rest on the record."""
    drain(crm)
    crm.store.end_drain("crm", "test", crm.appender.ends)
    crm.follow()
    crm.change(destination("crm"))
    crm.follow()
    crm.append("a", "b")
    crm.turn()
    crm.answer_all(503)
    drain(crm)
    crm.checkpoint()
    crm.store.end_drain("crm", "test", crm.appender.ends)
    crm.follow()
    crm.checkpoint()
    crm.pass_time(60)
    assert crm.network.waiting == []
    assert {crm.status_at(name, "crm") for name in ("a", "b")} == {"discarded"}


def test_it_cannot_be_enabled_while_it_drains(crm: Rig) -> None:
    """What came in between would be sent; a sentence says what to do, and afterwards it can."""
    crm.append("a")
    drain(crm)
    with pytest.raises(ChangeRefused, match="hookline disable crm --waiting discard") as refused:
        crm.change(destination("crm"))
    assert refused.value.problems[0].code == "draining"
    crm.store.change([Put(destination("crm", enabled=False, urls=2))], "test", None, crm.appender.ends)
    crm.follow()
    crm.come_to_rest()
    crm.store.end_drain("crm", "test", crm.appender.ends)
    crm.follow()
    crm.change(destination("crm"))
    crm.follow()
    crm.append("new")
    crm.come_to_rest()
    assert crm.status_at("new", "crm") == "delivered"
