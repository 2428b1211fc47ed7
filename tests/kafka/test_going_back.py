"""PostgreSQL goes back in time beneath many deliver processes: ``make faults`` plays it at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.going_back import replica_behind
from tests.faults.stage import Stage
from tests.kafka.cluster import Cluster
from tests.postgres import PostgresServer

RATE = 100.0
DUPLICATE_SHARE_MAX = 0.005


@pytest.mark.slow
def test_what_was_delivered_is_not_sent_again(
    tmp_path: Path, cluster: Cluster, topic: str, server: PostgresServer
) -> None:
    """A standby that is seconds behind takes over, all processes begin again, partitions change hands: nothing is lost,
    and who takes one up knows what its last owner had delivered."""
    with Stage(tmp_path, cluster, server, rate=RATE, workers=1, session="3s", topic=topic) as stage:
        stage.start_load()
        replica_behind(stage, 1)
        counted = stage.settle()
        assert stage.tracebacks() == []
    assert counted.acknowledged > 500
    assert (counted.lost, counted.unexpected, counted.wrong_signatures) == (0, 0, 0)
    assert counted.duplicate_share <= DUPLICATE_SHARE_MAX
