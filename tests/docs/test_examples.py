"""The examples are good files."""

from __future__ import annotations

from hookline.connections.file import check
from tests.docs.pages import ROOT


def test_the_example_connections_are_a_good_file() -> None:
    """The connections file people copy from passes the check."""
    assert check(ROOT / "examples" / "connections.yaml") == []
