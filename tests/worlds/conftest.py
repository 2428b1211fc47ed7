"""The rig of the deliver tests."""

from tests.unit.deliver.conftest import make_rig, rig

__all__ = ["make_rig", "rig"]
