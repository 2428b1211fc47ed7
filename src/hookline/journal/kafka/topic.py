"""The journal's topic: made when it is not there, held against the settings when it is."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.admin import NOT_ALLOWED, Admin
from hookline.journal.port import JournalAway, JournalError, JournalUnusable
from hookline.telemetry.log import logger

ADMIN_SECONDS = 5.0
"""How long to wait for brokers when the topic is opened; a role that is told to end meanwhile ends after it."""
REPLICAS = 3
"""Copies of every record, where there are so many brokers."""
MESSAGE_BYTES_MAX = 2 * 1024 * 1024
"""A record, its key once more, and headers."""

_SEGMENTS_PER_RETENTION = 8
_SEGMENT_BYTES_MIN = 16 * 1024 * 1024
_SEGMENT_BYTES_MAX = 1024 * 1024 * 1024
_TOLD = ("retention.ms", "retention.bytes")
"""What somebody else who makes the topic has to know of its retention."""
_POLL_SECONDS = 0.05


def open_topic(
    address: KafkaAddress, partitions: int, retention_seconds: float, retention_bytes: int, is_known: bool = False
) -> str:
    """Make the topic or check it, give it this retention and return its id, which no other topic of this name has.

    Raise JournalAway while brokers do not answer, JournalUnusable where a topic ``is_known`` and there is none.
    """
    asking = Admin(address)
    admin = asking.client
    try:
        retention = _retention(retention_seconds, retention_bytes, partitions)
        found = _look(admin, address)
        if found is None and is_known:
            raise JournalUnusable(lost(address))
        made = found is None and _create(admin, address, partitions, retention)
        if not made:
            _adopt(admin, address, _wait_for_leaders(admin, address, 1), partitions, retention)
        found = _wait_for_leaders(admin, address, partitions)
        if made:
            report = logger().info if _copies(found) >= REPLICAS else logger().warning
            numbers = {"partitions": len(found.partitions), "replicas": _copies(found)}
            report("journal_topic_created", topic=address.topic, **numbers)
        return _id(admin, address)
    except KafkaException as error:
        raise asking.told(error) from error


def partition_count(address: KafkaAddress, timeout_seconds: float = ADMIN_SECONDS) -> int:
    """Return how many partitions the topic has, 0 when there is no such topic; raise JournalAway as ``open_topic``
    does."""
    asking = Admin(address)
    try:
        found = _look(asking.client, address, timeout_seconds)
    except KafkaException as error:
        raise asking.told(error) from error
    return len(found.partitions) if found is not None else 0


def topic_state(asking: Admin, address: KafkaAddress, timeout_seconds: float) -> tuple[str, int]:
    """Return why the topic does not take records just now, empty when it does as far as brokers tell; and how many
    partitions it has."""
    try:
        found = _look(asking.client, address, timeout_seconds)
    except KafkaException as error:
        return str(asking.told(error)), 0
    asking.forget()
    if found is None:
        return lost(address), 0
    for number, partition in sorted(found.partitions.items()):
        if partition.leader < 0:
            return f"partition {number} of topic {address.topic} has no broker that leads it", len(found.partitions)
        if len(partition.isrs) < _in_sync_min(len(partition.replicas)):
            return f"partition {number} of topic {address.topic} has too few copies in sync", len(found.partitions)
    return "", len(found.partitions)


def lost(address: KafkaAddress) -> str:
    """Return the sentence for a topic that was there before."""
    return (
        f"the topic {address.topic} is gone, and all events with it that were not delivered: bring it back from a copy"
        " of the brokers' data, or begin anew as docs/kafka.md says (A topic that is lost)"
    )


def _look(admin: AdminClient, address: KafkaAddress, timeout_seconds: float = ADMIN_SECONDS) -> Any:
    topic = admin.list_topics(address.topic, timeout=timeout_seconds).topics[address.topic]
    if topic.error is None:
        return topic
    if topic.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return None
    raise KafkaException(topic.error)


def _create(admin: AdminClient, address: KafkaAddress, partitions: int, retention: dict[str, str]) -> bool:
    """Make the topic; return whether it was this call that made it."""
    replicas = min(REPLICAS, _brokers(admin))
    config = {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "max.message.bytes": str(MESSAGE_BYTES_MAX),
        # Retention goes by when an event was received. A clock that is wrong must not keep events out.
        "message.timestamp.type": "CreateTime",
        "message.timestamp.after.max.ms": str((1 << 63) - 1),
        "min.insync.replicas": str(_in_sync_min(replicas)),
        "unclean.leader.election.enable": "false",
        **retention,
    }
    topic = NewTopic(address.topic, partitions, replicas, config=config)
    try:
        admin.create_topics([topic], request_timeout=ADMIN_SECONDS)[address.topic].result(ADMIN_SECONDS)
    except KafkaException as error:
        if error.args[0].code() in NOT_ALLOWED:
            make = f"--create --partitions {partitions} --replication-factor {replicas}"
            settings = "".join(f" --config {name}={config[name]}" for name in ("min.insync.replicas", *_TOLD))
            raise JournalAway(
                f"there is no topic {address.topic}, and {address.user} may not make it: allow Create on it, or make it"
                f" yourself with {_command(address)} {make}{settings}"
            ) from None
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False  # somebody else made it meanwhile: it is what it is, and looked at as any other
    return True


def _adopt(admin: AdminClient, address: KafkaAddress, found: Any, partitions: int, retention: dict[str, str]) -> None:
    kept, replicas = len(found.partitions), _copies(found)
    if kept > partitions:
        raise JournalError(f"this journal has {kept} partitions: set journal.partitions to {kept} or more")
    wanted = min(REPLICAS, _brokers(admin))
    if replicas < wanted and _is_empty(admin, address, found):
        raise JournalError(
            f"topic {address.topic} keeps {replicas} of {wanted} possible copies of each event, and holds none yet:"
            f" delete it ({_command(address)} --delete) and"
            f" Hookline makes it with {wanted}, or make it yourself with --replication-factor {wanted}"
        )
    if kept < partitions:
        _add_partitions(admin, address, kept, partitions)
    in_sync = _settle(admin, address, retention)
    if replicas < REPLICAS or in_sync < _in_sync_min(replicas):
        next_step = "an acknowledged event is on fewer brokers than three copies and two in sync give; change the topic"
        logger().warning("journal_topic_weak", replicas=replicas, min_in_sync=in_sync, next_step=next_step)


def _add_partitions(admin: AdminClient, address: KafkaAddress, kept: int, partitions: int) -> None:
    more = admin.create_partitions([NewPartitions(address.topic, partitions)])
    try:
        more[address.topic].result(ADMIN_SECONDS)
    except KafkaException as error:
        if error.args[0].code() not in NOT_ALLOWED:
            raise
        raise JournalAway(
            f"topic {address.topic} has {kept} partitions, and {address.user} may not add any: allow Alter on it, add"
            f" them with {_command(address)} --alter --partitions {partitions}, or set journal.partitions to {kept}"
        ) from None


def _settle(admin: AdminClient, address: KafkaAddress, retention: dict[str, str]) -> int:
    """Bring the topic's retention in line, where that is allowed; return how many copies have to be in sync."""
    try:
        resource = ConfigResource(ResourceType.TOPIC, address.topic)
        present = next(iter(admin.describe_configs([resource]).values())).result(ADMIN_SECONDS)
        changes = {name: value for name, value in retention.items() if present[name].value != value}
        if changes:
            entries = [
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()
            ]
            resource = ConfigResource(ResourceType.TOPIC, address.topic, incremental_configs=entries)
            next(iter(admin.incremental_alter_configs([resource]).values())).result(ADMIN_SECONDS)
        return int(present["min.insync.replicas"].value or 1)
    except KafkaException as error:
        if error.args[0].code() not in NOT_ALLOWED:
            raise
    # As managed services have it: whoever made the topic answers for it.
    wanted = ", ".join(f"{name}={retention[name]}" for name in _TOLD)
    next_step = f"see to it that it has {wanted}, or allow DescribeConfigs and AlterConfigs on it"
    logger().warning("journal_topic_as_it_is", topic=address.topic, user=address.user, next_step=next_step)
    return REPLICAS


def _command(address: KafkaAddress) -> str:
    return f"kafka-topics.sh --bootstrap-server {address.servers} --topic {address.topic}"


def _copies(found: Any) -> int:
    return min(len(partition.replicas) for partition in found.partitions.values())


def _brokers(admin: AdminClient) -> int:
    return len(admin.list_topics(timeout=ADMIN_SECONDS).brokers)


def _is_empty(admin: AdminClient, address: KafkaAddress, found: Any) -> bool:
    latest: Any = OffsetSpec.latest  # the library has no types for it
    ends = admin.list_offsets({TopicPartition(address.topic, number): latest() for number in found.partitions})
    return all(end.result(ADMIN_SECONDS).offset == 0 for end in ends.values())


def _wait_for_leaders(admin: AdminClient, address: KafkaAddress, partitions: int) -> Any:
    """Return the topic once it has so many partitions and each has a leader."""
    deadline = time.monotonic() + ADMIN_SECONDS
    while True:
        found = _look(admin, address)
        there = list(found.partitions.values()) if found is not None else []
        if len(there) >= partitions and all(partition.leader >= 0 for partition in there):
            return found
        if time.monotonic() > deadline:
            raise JournalAway(f"not every partition of topic {address.topic} has a broker that leads it")
        time.sleep(_POLL_SECONDS)


def _id(admin: AdminClient, address: KafkaAddress) -> str:
    deadline = time.monotonic() + ADMIN_SECONDS
    while True:
        described = admin.describe_topics(TopicCollection([address.topic]), request_timeout=ADMIN_SECONDS)
        try:
            return str(described[address.topic].result(ADMIN_SECONDS).topic_id)
        except KafkaException as error:
            # The broker that was asked may not have heard yet of a topic that was just made.
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART or time.monotonic() > deadline:
                raise
        time.sleep(_POLL_SECONDS)


def _retention(seconds: float, size_bytes: int, partitions: int) -> dict[str, str]:
    """Return a partition has an equal share of the bytes; a segment spans an eighth of what is kept, as a local one
    does."""
    share = max(size_bytes // partitions, _SEGMENT_BYTES_MIN)
    milliseconds = max(int(seconds * 1000), 1)
    segment_bytes = min(max(share // _SEGMENTS_PER_RETENTION, _SEGMENT_BYTES_MIN), _SEGMENT_BYTES_MAX)
    return {
        "retention.ms": str(milliseconds),
        "retention.bytes": str(share),
        "segment.ms": str(max(milliseconds // _SEGMENTS_PER_RETENTION, 1)),
        "segment.bytes": str(segment_bytes),
    }


def _in_sync_min(replicas: int) -> int:
    return 2 if replicas >= REPLICAS else 1
