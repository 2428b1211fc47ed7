"""Retry rows that a checkpoint's thread reads: nobody waits for them, and what they were before is not acted on."""

from __future__ import annotations

from threading import Event

import pytest

from hookline.database.sqlite import OperationalError
from hookline.deliver.cluster.fence import Fence
from hookline.deliver.cluster.late_rows import LateRows
from hookline.deliver.store.batch import Batch, Look, RetryRow
from hookline.deliver.store.retry_rows import RowsComing
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.late_journal import LateJournal
from tests.unit.deliver.rig import Rig, destination, source

WAIT_SECONDS = 20.0


@pytest.fixture
def late(make_rig: MakeRig) -> Rig:
    """A rig, not started, with three destinations, whose records and rows are late."""
    rig = make_rig()
    rig.change(source(), *(destination(name) for name in ("one", "two", "three")))
    rig.append("first")
    rig.lookups = LateJournal(rig.folder / "journal", room=1_000)
    return rig


def fail(rig: Rig, *ids: str) -> None:
    """Have the first attempts of these destinations fail, and those of the others succeed; all of it is saved."""
    rig.turn()
    for request in list(rig.network.waiting):
        rig.answer(request, 500 if request.destination in ids else 200)
    rig.checkpoint()


def retried(rig: Rig) -> set[str]:
    """Who has a request that waits."""
    return {request.destination for request in rig.network.waiting}


def test_who_is_well_is_sent_to_while_rows_are_read(late: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that does not answer a question about rows before somebody else's event has left gets its way."""
    late.start()
    fail(late, "one")
    late.pass_time(2.0)
    store, sent, waited = late.role.store, Event(), []
    read = store.look

    def look(batch: Batch) -> None:
        waited.append(sent.wait(WAIT_SECONDS))
        read(batch)

    monkeypatch.setattr(store, "look", look)
    late.network.on_send = lambda request: sent.set() if request.destination == "two" else None

    def arrive() -> None:
        late.append("second")
        late.pass_time(0.05)

    late.checkpoint_while(arrive)
    assert waited == [True]
    late.come_to_rest()
    assert sorted(late.offsets("one")) == [0, 0, 1]


def test_what_a_checkpoint_has_no_room_for_keeps_its_turn(late: Rig) -> None:
    """Though those before it ask again and again."""
    late.limit(late_looks_max=1)
    late.start()
    fail(late, "one", "two", "three")
    late.pass_time(2.0)
    seen = set()
    for _ in range(3):
        late.checkpoint()
        for _ in range(2):
            late.pass_time(0.05)
        seen |= retried(late)
        for request in list(late.network.waiting):
            late.answer(request, 500)
        late.pass_time(5.0)
    assert seen == {"one", "two", "three"}


def test_what_could_not_be_read_is_asked_for_again(late: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that the database refused holds up neither the checkpoint nor whoever asked it for good."""
    late.start()
    fail(late, "one")
    late.pass_time(2.0)

    def refuse(batch: Batch) -> None:
        raise OperationalError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(late.role.store, "look", refuse)
        late.checkpoint()
    assert late.role.checkpointer.committing is None
    late.come_to_rest()
    assert late.offsets("one") == [0, 0]


def test_answers_do_not_outlive_the_partitions_they_are_of(rig: Rig) -> None:
    """When one comes or goes what is due first may be another row; of one that is being given up nothing is begun."""
    rig.start()
    fence = rig.role.engine.fence = Fence(10.0)
    fence.epochs.update({0: 1, 1: 1})
    rows, batch = LateRows(rig.role.engine), Batch()
    here, there = (RetryRow(7, partition, 5, 1, 0, 0, 31) for partition in (0, 1))
    batch.found, batch.epochs = {Look("first_due", 7): [here, there]}, dict(fence.epochs)
    rows.take(batch)
    assert rows.first_due(7, 9) == [here, there]
    fence.leaving.add(1)
    assert rows.first_due(7, 9) == [here]
    fence.leaving.clear()
    for epochs in ({0: 1}, {0: 1, 1: 2}, {0: 1, 1: 1, 2: 1}):
        fence.epochs = epochs
        with pytest.raises(RowsComing):
            rows.first_due(7, 9)
    assert rows.wanted
