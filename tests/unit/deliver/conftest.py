"""A rig per test, and a way to make its limits small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hookline.deliver.lanes import lane
from hookline.deliver.read import feeder
from hookline.settings import Deliver
from tests.unit.deliver.rig import Rig

MakeRig = Callable[..., Rig]


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
def small_queues(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Queues that are full after a few events; returns (low, high)."""
    low, high = 4, 8
    monkeypatch.setattr(lane, "QUEUE_LOW", low)
    monkeypatch.setattr(feeder, "QUEUE_HIGH", high)
    return low, high
