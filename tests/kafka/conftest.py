"""Fixtures of the tests that need Kafka: one cluster of three brokers for all of them, whole at the start of each."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.kafka.cluster import Cluster
from tests.postgres import PostgresServer

pytest.register_assert_rewrite("hookline.journal.conformance")


@pytest.fixture(scope="package")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers, started once, and ended with the last of their tests."""
    with Cluster(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster: Cluster) -> Iterator[Cluster]:
    """Three brokers that run; what a test stopped is started again after it."""
    yield running_cluster
    running_cluster.start()


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"journal-{uuid4().hex[:12]}"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own."""
    running = PostgresServer(in_memory=True)
    try:
        yield running
    finally:
        running.remove()
