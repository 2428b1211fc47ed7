"""Brokers as managed services have them: others make the topic, and our user may do little more than read and write."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from hookline.journal.conformance import a_record, records_of
from hookline.journal.kafka.address import KafkaAccess, KafkaAddress
from hookline.journal.kafka.appender import KafkaAppender
from hookline.journal.kafka.reader import KafkaReader
from hookline.journal.port import JournalAway
from tests.kafka.cluster import Cluster
from tests.kafka.security import PASSWORD, USER

ASK_SECONDS = 120.0
ALLOWED = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    """Somebody who may do everything."""
    return AdminClient({"bootstrap.servers": cluster.addresses, "allow.auto.create.topics": False})


@pytest.fixture
def address(cluster: Cluster, topic: str, admin: AdminClient) -> Iterator[KafkaAddress]:
    """A topic (not made yet) of which our user may read and write what others made."""
    lists = [_acl(ResourceType.TOPIC, topic, each, AclPermissionType.ALLOW) for each in ALLOWED]
    lists.append(_acl(ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE, AclPermissionType.DENY))
    for made in admin.create_acls(lists).values():
        made.result(ASK_SECONDS)
    access = KafkaAccess(
        tls=True,
        tls_ca_file=str(cluster.certificates.authority),
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username=USER,
        sasl_password=PASSWORD,
    )
    yield KafkaAddress(cluster.listening("PASSWORD"), topic, access)
    ours = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{USER}", None, AclOperation.ANY, AclPermissionType.ANY
    )
    for removed in admin.delete_acls([ours]).values():
        removed.result(ASK_SECONDS)


def test_a_topic_that_we_may_not_make_is_asked_for(
    tmp_path: Path, cluster: Cluster, admin: AdminClient, address: KafkaAddress
) -> None:
    """The command that makes it is in the sentence; once somebody has given it, all goes on."""
    with pytest.raises(JournalAway) as refused:
        _store(tmp_path, address)
    asked = re.search(r"--create --partitions (\d+) --replication-factor (\d+)", str(refused.value))
    assert asked is not None
    assert address.topic not in admin.list_topics(timeout=ASK_SECONDS).topics
    cluster.create(address.topic, int(asked[1]), int(asked[2]))
    _store(tmp_path, address)


def test_a_topic_of_others_is_taken_as_it_is(
    tmp_path: Path, cluster: Cluster, address: KafkaAddress, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the right to look at its settings or to change them: that is said, and events are stored."""
    cluster.create(address.topic, 2, 3)
    _store(tmp_path, address)
    assert "journal_topic_as_it_is" in capsys.readouterr().out
    reader = KafkaReader(tmp_path, address)
    found = [records_of(list(reader.read(partition, 0))) for partition in reader.partitions()]
    reader.close()
    assert [each.message_id for records in found for each in records] == [a_record(0).message_id]


def test_partitions_that_we_may_not_add_are_asked_for(tmp_path: Path, cluster: Cluster, address: KafkaAddress) -> None:
    """With the command that adds them, and the setting that does without."""
    cluster.create(address.topic, 1, 3)
    with pytest.raises(JournalAway, match=r"--alter --partitions 2, or set journal\.partitions to 1"):
        _store(tmp_path, address)


def _store(folder: Path, address: KafkaAddress) -> None:
    async def store() -> None:
        appender = KafkaAppender(folder, address, 2, retention_seconds=1 << 40, retention_bytes=1 << 40)
        try:
            appender.open()
            await appender.append([a_record(0)])
            assert appender.state() == ""
        finally:
            await appender.close()

    asyncio.run(store())


def _acl(kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, permission)
