"""The engine's rig: fates are read from what the real role wrote."""

from tests.unit.deliver.conftest import make_rig, rig, small_queues

__all__ = ["make_rig", "rig", "small_queues"]
