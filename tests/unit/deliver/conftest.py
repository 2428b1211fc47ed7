"""A rig per test, a worker on one, and a way to make its limits small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hookline.connections.model import DeliveryOptions
from hookline.settings import Deliver
from tests.unit.deliver.rig import Rig, destination, source
from tests.unit.deliver.worker_rig import WorkerRig

MakeRig = Callable[..., Rig]
MakeWorker = Callable[..., WorkerRig]

FOUR_AT_ONCE = DeliveryOptions(max_concurrency=4)


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[MakeRig]:
    """Makes rigs (not started) in a temporary folder and closes them."""
    made: list[Rig] = []

    def make(partitions: int = 1, deliver: Deliver | None = None, **given: object) -> Rig:
        folder = tmp_path / f"data-{len(made)}"
        folder.mkdir()
        (folder / "run").mkdir()
        made.append(Rig(folder, partitions, deliver, **given))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


@pytest.fixture
def rig(make_rig: MakeRig) -> Rig:
    """A rig with default settings, not started."""
    return make_rig()


@pytest.fixture
def small_queues(rig: Rig) -> tuple[int, int]:
    """The rig's queues are full after a few events; returns (low, high)."""
    low, high = 4, 8
    rig.limit(queue_low=low, queue_high=high)
    return low, high


@pytest.fixture
def make_worker(make_rig: MakeRig) -> Iterator[MakeWorker]:
    """Makes workers that own all partitions, with one destination that takes four requests at once, and closes them."""
    made: list[WorkerRig] = []

    def make(partitions: int = 1, delivery: DeliveryOptions = FOUR_AT_ONCE) -> WorkerRig:
        rig = make_rig(partitions)
        rig.change(source(), destination("crm", delivery=delivery))
        rig.start()
        made.append(WorkerRig(rig))
        return made[-1]

    yield make
    for worker in made:
        worker.close()


@pytest.fixture
def worker(make_worker: MakeWorker) -> WorkerRig:
    """A worker of one partition."""
    return make_worker()
