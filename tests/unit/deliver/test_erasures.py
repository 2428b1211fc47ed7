"""What was erased is not sent any more, whatever the readers of deliver had of it before."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import structlog

from hookline.database.location import DatabaseLocation, location_of
from hookline.deliver import erasures
from hookline.deliver.cluster.shared_erasures import SharedErasures
from hookline.deliver.cluster.shared_ring import SharedIndexStore
from hookline.journal.folder import write_note
from hookline.journal.kafka import erased
from hookline.journal.opening import FOLDER
from hookline.privacy.shared_erased import CHANGES
from hookline.privacy.suppressions import PrivacyStore
from hookline.replays.offset_set import OffsetSet, encode_offset_sets
from tests.service.waiting import wait_until
from tests.unit.deliver.rig import Rig, destination, source
from tests.unit.deliver.test_feeder import append_groups
from tests.unit.deliver.worker_rig import WorkerRig


class Shelf(SharedIndexStore):
    """Renews and drops nothing before ``answers`` is set, and notes for which epochs it renews, and what it drops."""

    def __init__(self, location: DatabaseLocation) -> None:
        super().__init__(location)
        self.answers = threading.Event()
        self.answers.set()
        self.epochs: list[int] = []
        self.dropped: list[int] = []

    def renew(self, partition: int, epoch: int, folder: Path, offsets: Sequence[int]) -> None:
        """Wait for the database."""
        self.epochs.append(epoch)
        assert self.answers.wait(10)
        super().renew(partition, epoch, folder, offsets)

    def drop_stale(self, partition: int, folder: Path, first: int, end: int) -> None:
        """Wait for the database."""
        assert self.answers.wait(10)
        super().drop_stale(partition, folder, first, end)
        self.dropped.append(partition)


@pytest.fixture
def privacy(rig: Rig) -> Iterator[PrivacyStore]:
    """Where control writes what is to be erased."""
    store = PrivacyStore(location_of(rig.settings, "privacy"))
    yield store
    store.close()


@pytest.fixture
def shelf(worker: WorkerRig) -> Iterator[Shelf]:
    """The runs that a worker keeps in the database; it has delivered an event, and erases as one of many."""
    rig, role = worker.rig, worker.rig.role
    rig.append("m0")
    rig.come_to_rest()
    write_note(rig.settings.data_path / FOLDER, "kafka://broker:9092/events\n")
    parts = role.engine, role.feeder, role.retries, role.store, role.erasure_feed
    with closing(Shelf(location_of(rig.settings, "deliver"))) as made:
        role.erasures = SharedErasures(*parts, worker.fence, made, rig.settings.data_path)
        yield made


@pytest.fixture
def its_privacy(worker: WorkerRig) -> Iterator[PrivacyStore]:
    """Where control writes what is to be erased by the worker."""
    with closing(PrivacyStore(location_of(worker.rig.settings, "privacy"))) as store:
        yield store


def ask(rig: Rig, privacy: PrivacyStore, *offsets: int) -> None:
    """Ask for the erasure of events as control does, once the journal has nothing of them, and let deliver begin."""
    assert rig.appender.erase(0, offsets) == len(offsets)
    with privacy.change(CHANGES) as execute:
        execute(
            "INSERT INTO deletion_requests (at, author, action, state, updated_at, round, places)"
            " VALUES (1, 'a', 'delete', 'clearing', 1, 1, ?)",
            (encode_offset_sets({0: OffsetSet(offsets)}),),
        )
    rig.follow()
    rig.checkpoint()


def follow(rig: Rig) -> None:
    """Let deliver go as far as it can."""
    for _ in range(3):
        rig.follow()
        rig.checkpoint()


def erase(rig: Rig, privacy: PrivacyStore, offset: int) -> None:
    """Erase an event; deliver says at once that nothing is left."""
    ask(rig, privacy, offset)
    follow(rig)
    assert rig.role.store.reader.erased(1, 1, 1) is not None


def is_erased(worker: WorkerRig) -> bool:
    """Let the worker go on; return whether it has said that its part of an erasure is done."""
    follow(worker.rig)
    return worker.rig.role.store.reader.erased_partitions(1, 1, 1) == {0}


def test_a_reader_that_waits_has_nothing_of_it(rig: Rig, privacy: PrivacyStore, small_queues: tuple[int, int]) -> None:
    """A full lane keeps the reader waiting, which has read ahead what was erased meanwhile."""
    rig.change(source(), destination("crm"))
    for first in range(0, 90, 3):
        rig.append(*(f"m{first + n}" for n in range(3)))
    rig.restart()
    rig.turn()
    erase(rig, privacy, 60)
    rig.come_to_rest()
    assert rig.offsets("crm") == [each for each in range(90) if each != 60]


def test_a_lane_that_catches_up_has_nothing_of_it(
    rig: Rig, privacy: PrivacyStore, small_queues: tuple[int, int]
) -> None:
    """The same of a lane that fell behind, and of the reader that is at its place."""
    rig.change(source(), destination("fast"), destination("slow"))
    rig.start()
    for _ in range(30):
        append_groups(rig, 1, 3)
        rig.answer_all(200, "fast")
    while not rig.role.feeder.catch_up._readings:
        rig.answer(next(each for each in rig.network.waiting if each.destination == "slow"))
        rig.turn()
    erase(rig, privacy, 60)
    rig.come_to_rest()
    assert rig.offsets("slow") == [each for each in range(90) if each != 60]


@pytest.mark.parametrize("is_replay", [False, True])
def test_what_is_under_way_of_a_lane_that_ended_is_waited_for(rig: Rig, privacy: PrivacyStore, is_replay: bool) -> None:
    """Its receiver may still answer, with words about the person."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append("m0")
    rig.turn()
    if is_replay:
        rig.answer_all(200)
        rig.checkpoint()
        rig.replay()
        rig.follow()
    assert len(rig.network.waiting) == 1
    rig.change(destination("crm", enabled=False))
    rig.follow()
    rig.checkpoint()
    ask(rig, privacy, 0)
    assert rig.role.store.reader.erased(1, 1, 1) is None
    rig.answer_all(500)
    follow(rig)
    assert rig.role.store.reader.erased(1, 1, 1) is not None
    assert rig.role.store._read.execute("SELECT count(*) FROM attempts").fetchone() == (0,)


def test_one_that_waits_for_what_is_under_way_holds_up_no_other(rig: Rig, privacy: PrivacyStore) -> None:
    """The code of a sink may take for ever."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append("m0", "m1")
    rig.turn()
    rig.answer(next(each for each in rig.network.waiting if each.offset == 1))
    rig.checkpoint()
    ask(rig, privacy, 0)
    ask(rig, privacy, 1)
    follow(rig)
    assert rig.role.store.reader.erased(1, 1, 1) is None
    assert rig.role.store.reader.erased(2, 1, 1) is not None
    rig.answer_all(500)
    follow(rig)
    assert rig.role.store.reader.erased(1, 1, 1) is not None


def test_a_worker_whose_disk_takes_no_note_of_what_is_erased_goes_on(
    worker: WorkerRig, shelf: Shelf, its_privacy: PrivacyStore
) -> None:
    """It ended, as often as it was started, while its disk was full. The note is made, and its part done, once it can
    be."""
    journal = worker.rig.settings.data_path / FOLDER
    in_the_way = journal / erased.FOLDER
    in_the_way.touch()
    with structlog.testing.capture_logs() as lines:
        ask(worker.rig, its_privacy, 0)
    assert [line["event"] for line in lines].count("erasures_not_noted") == 1
    assert shelf.epochs == []
    in_the_way.unlink()
    wait_until(lambda: is_erased(worker), 10, "its part is done")
    assert erased.ErasedPlaces(journal).of(0) == {0}


def test_a_worker_goes_on_while_the_database_takes_the_runs_of_an_erasure(
    worker: WorkerRig, shelf: Shelf, its_privacy: PrivacyStore
) -> None:
    """Each is megabytes, and nothing was sent until all were written."""
    shelf.answers.clear()
    ask(worker.rig, its_privacy, 0)
    worker.rig.append("m1")
    worker.rig.come_to_rest()
    assert worker.rig.offsets("crm") == [0, 1]
    assert not is_erased(worker)
    shelf.answers.set()
    wait_until(lambda: is_erased(worker), 10, "its part is done")
    assert len(shelf.epochs) == 1


def test_runs_that_come_from_another_worker_during_an_erasure_are_renewed_too(
    worker: WorkerRig, shelf: Shelf, its_privacy: PrivacyStore
) -> None:
    """The partition was with others and is back before the database has answered: what they kept says whose it was."""
    shelf.answers.clear()
    ask(worker.rig, its_privacy, 0)
    worker.lose()
    worker.take_up()
    shelf.answers.set()
    wait_until(lambda: is_erased(worker), 10, "its part is done")
    assert shelf.epochs == [1, 2]


def test_the_rows_of_an_erasure_go_a_few_with_each_checkpoint(
    rig: Rig, privacy: PrivacyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One person may have millions of events. A restart in between begins anew, and counts no row twice."""
    monkeypatch.setattr(erasures, "EVENTS_PER_CHECKPOINT", 2)
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*(f"m{n}" for n in range(6)))
    rig.turn()
    rig.answer_all(400)
    rig.checkpoint()

    def left() -> list[tuple[int]]:
        return rig.role.store._read.execute('SELECT "offset" FROM attempts ORDER BY id').fetchall()

    ask(rig, privacy, 0, 1, 2, 3, 4)
    assert left() == [(2,), (3,), (4,), (5,)]
    rig.restart()
    for _ in range(4):
        assert rig.role.store.reader.erased(1, 1, 1) is None
        rig.follow()
        rig.checkpoint()
    assert left() == [(5,)]
    assert rig.role.store._read.execute("SELECT attempts FROM erasures").fetchall() == [(5,)]
    assert rig.role.store.reader.erased(1, 1, 1) is not None


def test_a_worker_goes_on_while_runs_of_others_are_dropped(
    worker: WorkerRig, shelf: Shelf, its_privacy: PrivacyStore
) -> None:
    """They are read for that, all that hold something of it; others take partitions away from who stands still."""
    worker.lose()
    ask(worker.rig, its_privacy, 0)
    shelf.answers.clear()
    with its_privacy.change(CHANGES) as execute:
        execute("UPDATE deletion_requests SET state = 'done'")
    follow(worker.rig)
    assert shelf.dropped == []
    shelf.answers.set()
    wait_until(lambda: (follow(worker.rig), shelf.dropped)[1] == [0], 10, "the runs are dropped")
