"""Make the journal's topic when it is not there, hold it against the settings when it is, and ask brokers about it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
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
from hookline.journal.port import JournalAway, JournalError, JournalUnusable
from hookline.telemetry.log import logger

_SILENCE = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN)
NOT_ALLOWED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)


class Admin:
    """``client`` to ask with, and ``told`` for what went wrong."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        # Of its own, without the way back from the client to this object: a ring would keep the connections open.
        self._refusal = _Refusal(address)
        options = {**address.client(), "error_cb": self._refusal.note}
        self.client = AdminClient(options)

    def explained(self, error: KafkaException) -> JournalError:
        """Return the error of the port for one of a call: JournalAway where asking again may help."""
        reason: KafkaError = error.args[0]
        if reason.code() in NOT_ALLOWED:
            return JournalAway(
                f"Kafka does not let {self._address.user} use topic {self._address.topic} ({reason.str()}): allow it"
            )
        if reason.code() not in _SILENCE:
            return JournalError(f"Kafka refused to open topic {self._address.topic}: {reason.str()}")
        self.client.poll(0)  # what brokers said meanwhile; that nothing was heard is all the call itself tells
        return JournalAway(
            self._refusal.reason
            or f"no Kafka broker answers at {self._address.servers}: start them, or correct journal.url"
        )

    def forget(self) -> None:
        """Brokers answer: what they said before is over."""
        self.client.poll(0)
        self._refusal.reason = ""


class _Refusal:
    """Why brokers turn a client away; kept until they answer, for the client tells the same only twice a minute."""

    def __init__(self, address: KafkaAddress) -> None:
        self.reason = ""
        self._address = address

    def note(self, error: KafkaError) -> None:
        """Take what a broker, or the way to it, made of the client."""
        self.reason = self._reason(error) or self.reason

    def _reason(self, error: KafkaError) -> str:
        said, code = error.str().partition(" (after ")[0], error.code()
        if code == KafkaError._AUTHENTICATION:
            user, mechanism = self._address.access.sasl_username, self._address.access.sasl_mechanism
            said = said.partition("error: ")[2] or said
            return (
                f"Kafka refuses the user {user} with {mechanism} ({said}): correct journal.sasl_mechanism,"
                " journal.sasl_username or journal.sasl_password"
            )
        if code == KafkaError._SSL and "certificate verify failed" in said:
            return (
                f"the certificate of the brokers at {self._address.servers} is not to be trusted: set"
                " journal.tls_ca_file to who issued it, and name brokers in journal.url as it names them"
            )
        if "alert" in said and ("certificate" in said or "unknown ca" in said):
            return (
                "Kafka refuses the client's certificate, or that there is none: correct journal.tls_certificate_file"
                " and journal.tls_key_file"
            )
        if code == KafkaError._SSL or "SSL handshake failed" in said:
            return (
                f"no TLS with the brokers at {self._address.servers} ({said.partition(': ')[2]}): name the port that"
                " speaks TLS in journal.url, or set journal.tls to false"
            )
        return ""


T = TypeVar("T")

ADMIN_SECONDS = 5.0
"""How long to wait for brokers when the topic is opened; a role that is told to end meanwhile ends after it."""


def answered(answer: Future[T], seconds: float = ADMIN_SECONDS) -> T:
    """Wait for what brokers are asked, and return it; raise KafkaException also for one that is silent."""
    try:
        return answer.result(seconds)
    except TimeoutError:  # the client's own limit comes a moment later
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None


ASK_SECONDS = 5.0
"""How long to ask, while a partition's leader changes too."""
TRY_SECONDS = 2.0
"""How long one broker may take: the client waits for a leader that is gone as for one that is slow."""

_PAUSE_SECONDS = 0.05


class Watermarks:
    """Asks about the partitions of a topic; may be used from any thread."""

    def __init__(self, address: KafkaAddress, ask_seconds: float = ASK_SECONDS) -> None:
        self._topic = address.topic
        self.ask_seconds = ask_seconds
        # A consumer in name only: it is assigned nothing and fetches nothing.
        self._consumer = Consumer(address.client(group_id="hookline", isolation_level="read_uncommitted"))

    def of(self, partition: int) -> tuple[int, int]:
        """Return the oldest offset kept, and one past the last that is on every replica in sync."""
        position = TopicPartition(self._topic, partition)
        return self._ask(lambda seconds: self._consumer.get_watermark_offsets(position, seconds))

    def at(self, partition: int, time_ms: int) -> int:
        """Return the offset of the first record received at this time or later, the end when there is none."""
        _, end = self.of(partition)  # first: what is stored after the answer that there is none must not be below it
        position = TopicPartition(self._topic, partition, max(time_ms, 0))
        (found,) = self._ask(lambda seconds: self._consumer.offsets_for_times([position], seconds))
        return int(found.offset) if found.offset >= 0 else end

    def partition_count(self) -> int:
        """Return how many partitions the topic has now; 0 when it is gone."""
        return self._ask(self._count)

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()

    def _ask(self, question: Callable[[float], T | None]) -> T:
        """Ask again for as long as it may take: a leader that has just changed answers the next time. That a broker
        does not know the topic is no answer either: one that has just started may not know it yet."""
        deadline = time.monotonic() + self.ask_seconds
        while True:
            reason = "no answer"
            try:
                answer = question(_left_seconds(deadline))
                if answer is not None:
                    return answer
            except KafkaException as error:
                reason = error.args[0].str()
            except RuntimeError as closed:  # by whoever ends, while a thread asks
                raise JournalAway(f"Kafka is not asked any more: {closed}") from None
            if time.monotonic() > deadline:
                raise JournalAway(f"Kafka does not say where the journal ends: {reason}")
            self._look_for_leaders(_left_seconds(deadline))
            time.sleep(_PAUSE_SECONDS)

    def _count(self, seconds: float) -> int:
        topic = self._consumer.list_topics(self._topic, seconds).topics[self._topic]
        if topic.error is not None and topic.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(topic.error)
        return len(topic.partitions)

    def _look_for_leaders(self, seconds: float) -> None:
        """Learn who leads the topic now: of a consumer that is assigned nothing the client does not look by itself for
        minutes, and asks a broker that was killed again and again."""
        with contextlib.suppress(KafkaException):  # the next answer tells
            self._consumer.list_topics(self._topic, seconds)


def _left_seconds(deadline: float) -> float:
    return max(min(deadline - time.monotonic(), TRY_SECONDS), _PAUSE_SECONDS)


REPLICAS = 3
"""Copies of every record, where there are so many brokers."""
MESSAGE_BYTES_MAX = 2 * 1024 * 1024
"""A record, its key once more, and headers."""

_SEGMENTS_PER_RETENTION = 8
_SEGMENT_BYTES_MIN = 16 * 1024 * 1024
_SEGMENT_BYTES_MAX = 1024 * 1024 * 1024
_NAMED = ("retention.ms", "retention.bytes")
"""What somebody else who makes the topic has to know of its retention."""
_POLL_SECONDS = 0.05


def open_topic(
    address: KafkaAddress,
    partitions: int,
    retention_seconds: float,
    retention_bytes: int,
    was_there: Callable[[], object] = lambda: False,
) -> str:
    """Make the topic or check it, give it this retention and return its id, which no other topic of this name has.

    Raise JournalAway while brokers do not answer, JournalUnusable where a topic ``was_there`` and there is none.
    """
    asking = Admin(address)
    admin = asking.client
    try:
        retention = _retention(retention_seconds, retention_bytes, partitions)
        found = _look(admin, address)
        if found is None and was_there():
            raise JournalUnusable(lost(address))
        made = found is None and _create(admin, address, partitions, retention)
        if not made:
            _once_known(lambda: _adopt(admin, address, _wait_for_leaders(admin, address, 1), partitions, retention))
        found = _wait_for_leaders(admin, address, partitions)
        if made:
            report = logger().info if _copies(found) >= REPLICAS else logger().warning
            numbers = {"partitions": len(found.partitions), "replicas": _copies(found)}
            report("journal_topic_created", topic=address.topic, **numbers)
        return _id(admin, address)
    except KafkaException as error:
        raise asking.explained(error) from error


def partition_count(address: KafkaAddress, timeout_seconds: float = ADMIN_SECONDS) -> int:
    """Return how many partitions the topic has, 0 when there is no such topic; raise JournalAway as ``open_topic``
    does."""
    asking = Admin(address)
    try:
        found = _look(asking.client, address, timeout_seconds)
    except KafkaException as error:
        raise asking.explained(error) from error
    return len(found.partitions) if found is not None else 0


def topic_state(asking: Admin, address: KafkaAddress, timeout_seconds: float, known_id: str = "") -> tuple[str, int]:
    """Return why the topic does not take records just now, empty when it does as far as brokers tell; and how many
    partitions it has. With ``known_id`` another topic of the same name takes none."""
    try:
        found = _look(asking.client, address, timeout_seconds)
        is_another = found is not None and known_id and _id(asking.client, address, timeout_seconds) != known_id
    except KafkaException as error:
        return str(asking.explained(error)), 0
    asking.forget()
    if found is None:
        return lost(address), 0
    if is_another:
        return made_anew(address), 0
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
        " of the brokers' data, or begin anew as docs/explanation/kafka.md says (A topic that is lost)"
    )


def made_anew(address: KafkaAddress) -> str:
    """Return the sentence for a topic that has only the name of the one before."""
    return (
        f"the topic {address.topic} was made anew since this data folder was used with it: bring the old one back, or"
        " begin anew as docs/explanation/kafka.md says (A topic that is lost)"
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
        answered(admin.create_topics([topic], request_timeout=ADMIN_SECONDS)[address.topic])
    except KafkaException as error:
        if error.args[0].code() in NOT_ALLOWED:
            make = f"--create --partitions {partitions} --replication-factor {replicas}"
            settings = "".join(f" --config {name}={config[name]}" for name in ("min.insync.replicas", *_NAMED))
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
        answered(more[address.topic])
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
        present = answered(next(iter(admin.describe_configs([resource]).values())))
        changes = {name: value for name, value in retention.items() if present[name].value != value}
        if changes:
            entries = [
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()
            ]
            resource = ConfigResource(ResourceType.TOPIC, address.topic, incremental_configs=entries)
            answered(next(iter(admin.incremental_alter_configs([resource]).values())))
        return int(present["min.insync.replicas"].value or 1)
    except KafkaException as error:
        if error.args[0].code() not in NOT_ALLOWED:
            raise
    # As managed services have it: whoever made the topic answers for it.
    wanted = ", ".join(f"{name}={retention[name]}" for name in _NAMED)
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
    return all(answered(end).offset == 0 for end in ends.values())


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


def _id(admin: AdminClient, address: KafkaAddress, timeout_seconds: float = ADMIN_SECONDS) -> str:
    def ask() -> str:
        described = admin.describe_topics(TopicCollection([address.topic]), request_timeout=timeout_seconds)
        return str(answered(described[address.topic], timeout_seconds).topic_id)

    return _once_known(ask, timeout_seconds)


def _once_known(ask: Callable[[], T], timeout_seconds: float = ADMIN_SECONDS) -> T:
    """Ask until the broker that is asked has heard of the topic, which another machine may just have made."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART or time.monotonic() > deadline:
                raise
        time.sleep(_POLL_SECONDS)


def _retention(seconds: float, size_bytes: int, partitions: int) -> dict[str, str]:
    """Return a topic's settings: each partition has an equal share of the bytes, and a segment an eighth of what is
    kept, as a local one does."""
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
