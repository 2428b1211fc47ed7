"""The rig of balancers and receivers counts right: a few of them, as ``make edges`` plays all."""

from __future__ import annotations

from pathlib import Path

from bench.edges import behind, report
from bench.edges.receivers import RECEIVERS


def test_what_came_of_each_receiver_is_told(tmp_path: Path) -> None:
    """One that is well, one that takes a request and ends, one that refuses and one that nobody reaches."""
    names = ("well", "always resets in its head", "redirects", "nothing listens")
    odds = [odd for odd in RECEIVERS if odd.name in names]
    rows = {row.name: row for row in behind.play(tmp_path / "edges", odds, events=3)}
    assert {name: row.fates for name, row in rows.items()} == {
        "well": {"delivered": 3},
        "always resets in its head": {"retrying": 3},
        "redirects": {"failed": 3},
        "nothing listens": {"retrying": 3},
    }
    assert [(row.lost, row.doubled, row.unseen) for row in rows.values()] == [(0, 0, 0)] * 4
    assert (rows["well"].calls, rows["well"].attempts) == (3, 3)
    assert rows["nothing listens"].attempts > 0
    assert "| redirects | failed | 3 | 3 failed | 3 | 3 | 0 | 0 | 0 |" in report.tables([], list(rows.values()))
