"""The engine's rig, once with files and once with PostgreSQL: statuses are read from what the real role wrote."""

from __future__ import annotations

import pytest

from hookline.settings import Database
from tests.unit.deliver.conftest import MakeRig, make_rig, small_queues
from tests.unit.deliver.rig import Rig

__all__ = ["make_rig", "rig", "small_queues"]


@pytest.fixture
def partitions() -> int:
    """How many the rig's journal has; a test may say otherwise."""
    return 1


@pytest.fixture
def rig(database: Database, make_rig: MakeRig, partitions: int) -> Rig:
    """A rig with default settings, not started."""
    return make_rig(partitions, database=database)
