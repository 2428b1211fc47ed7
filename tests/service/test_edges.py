"""The rig of balancers and receivers counts right: a few of them, as ``make edges`` plays all."""

from __future__ import annotations

from pathlib import Path

from bench.edges import behind, report, rested
from bench.edges.receivers import RECEIVERS


def test_what_came_of_each_receiver_is_told(tmp_path: Path) -> None:
    """One that is well, one that takes a request and ends, one that refuses and one that nobody reaches."""
    names = ("well", "always resets in its head", "redirects", "nothing listens")
    odds = [odd for odd in RECEIVERS if odd.name in names]
    rows = {row.name: row for row in behind.play(tmp_path / "edges", odds, events=3)}
    assert {name: row.statuses for name, row in rows.items()} == {
        "well": {"delivered": 3},
        "always resets in its head": {"retrying": 3},
        "redirects": {"failed": 3},
        "nothing listens": {"retrying": 3},
    }
    assert [(row.lost, row.doubled, row.unseen) for row in rows.values()] == [(0, 0, 0)] * 4
    assert (rows["well"].calls, rows["well"].attempts) == (3, 3)
    assert rows["nothing listens"].attempts > 0
    assert "| redirects | failed | 3 | 3 failed | 3 | 3 | 0 | 0 | 0 |" in report.tables([], list(rows.values()))


def test_what_came_of_connections_that_rest_is_told(tmp_path: Path) -> None:
    """Receivers that close idle ones, a name that moves away from its address, and one whose first address is dead."""
    kinds = [
        rested.Kind("idle", every_seconds=0.2, receivers=3, idle_seconds=0.2),
        rested.Kind("moving", every_seconds=0.5, closes=True, addresses=1, moves=True),
        rested.Kind("dead", every_seconds=0.5, closes=True, addresses=2, wait_seconds_max=30.0),
    ]
    idle, moving, dead = rested.play(tmp_path / "rested", kinds, seconds=rested.MOVES_AFTER_SECONDS + 2)
    assert [row.statuses for row in (idle, moving, dead)] == [
        {"delivered": row.requests} for row in (idle, moving, dead)
    ]
    assert (idle.requests, moving.requests, dead.requests) == (75, 10, 10)
    assert [(row.unseen, row.lost, row.calls - row.doubled) for row in (idle, dead)] == [(0, 0, 75), (0, 0, 10)]
    assert idle.closed > 0
    assert (idle.followed_seconds, dead.followed_seconds) == (None, None)
    assert moving.followed_seconds is not None
    assert moving.followed_seconds < 60.0
    assert dead.wait_seconds > 0.2, "the dead address costs a moment"
    assert "| moving | 10 | 10 delivered | 10 | 10 | 10 | 0 | 0 | 0 |" in report.tables([], [], [moving])
