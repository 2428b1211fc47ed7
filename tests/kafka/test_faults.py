"""The fault report in short, beside the cluster of the other tests: ``make faults`` is the whole of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.scenarios import brokers_killed
from tests.faults.stage import Stage
from tests.kafka.cluster import Cluster
from tests.postgres import PostgresServer

DUPLICATE_SHARE_MAX = 0.02
"""More than in the report: what one kill may repeat is divided by few events."""


@pytest.mark.slow
def test_a_broker_dies_under_load_and_the_ledger_balances(tmp_path: Path, cluster: Cluster, topic: str) -> None:
    """Workers lose the group and their partitions with it, and take them anew: all that was acknowledged arrives."""
    server = PostgresServer()
    try:
        with Stage(tmp_path, cluster, server, rate=200, workers=1, session="3s", topic=topic) as stage:
            stage.start_load()
            brokers_killed(stage, 1)
            counted = stage.settle()
            assert stage.tracebacks() == []
    finally:
        server.remove()
    assert counted.acknowledged > 500
    assert (counted.lost, counted.unexpected, counted.wrong_signatures) == (0, 0, 0)
    assert counted.duplicate_share <= DUPLICATE_SHARE_MAX
    assert len(counted.recoveries) == 1
