"""What the journal on Kafka does when brokers go: nothing acknowledged is lost, nothing unconfirmed is acknowledged."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from hookline.database.location import location_of
from hookline.database.open import ensure, open_deliver
from hookline.deliver.cluster.shared_ring import SharedIndexStore
from hookline.deliver.cluster.takeover import Claims
from hookline.journal.conformance import a_record, records_of
from hookline.journal.damaged import noted_damage, read_lost
from hookline.journal.kafka import follower as followers
from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.appender import DELIVERY_SECONDS as DELIVERY_SECONDS_OF_ROLE
from hookline.journal.kafka.appender import TOPIC_FILE, KafkaAppender
from hookline.journal.kafka.codec import encode
from hookline.journal.kafka.follower import KafkaFollower
from hookline.journal.kafka.reader import KafkaReader
from hookline.journal.kafka.topic import Watermarks, open_topic, partition_count
from hookline.journal.opening import FOLDER, claim, journal_of
from hookline.journal.port import JournalAway, JournalCorrupt, JournalError, JournalFull, JournalUnusable, partition_of
from hookline.journal.reading import PENDING_BYTES_MAX
from hookline.journal.record import Record
from hookline.outcomes.positions import SavedPositions
from hookline.outcomes.positions import encode as encode_offset_sets
from hookline.settings import Journal, Settings
from tests.kafka.cluster import Cluster, standing_still
from tests.service.waiting import wait_until

DELIVERY_SECONDS = 3.0
BOUND_SECONDS = 60.0
SILENCE_SECONDS_MAX = 25.0
"""How long what a frozen broker has led may stand still, for who appends and for who reads."""


class Ledger:
    """Appends records one after another, as a client that sends again what was not acknowledged."""

    def __init__(self, appender: KafkaAppender, user: str) -> None:
        self.acknowledged: list[str] = []
        self.refusals = 0
        self._appender = appender
        self._user = user

    async def go_on(self, until: Callable[[], bool]) -> None:
        """Append until told to stop."""
        while not until():
            record = a_record(len(self.acknowledged), user=self._user)
            try:
                await asyncio.wait_for(self._appender.append([record]), BOUND_SECONDS)
            except JournalFull:
                self.refusals += 1
                await asyncio.sleep(0.01)
            else:
                self.acknowledged.append(record.message_id)


def read_ids(folder: Path, address: KafkaAddress, partitions: int = 1) -> list[list[str]]:
    """What a new reader finds in each partition."""
    reader = KafkaReader(folder, address)
    try:
        found = [records_of(list(reader.read(partition, 0))) for partition in range(partitions)]
    finally:
        reader.close()
    return [[record.message_id for record in records] for records in found]


def without_repeats(ids: list[str]) -> list[str]:
    """As a reader that drops repeats sees them; a resend comes right after what it repeats, one user waits for it."""
    return list(dict.fromkeys(ids))


@pytest.fixture
def address(cluster: Cluster, topic: str) -> KafkaAddress:
    """A topic of its own."""
    return KafkaAddress(cluster.addresses, topic)


@asynccontextmanager
async def appending(
    folder: Path,
    address: KafkaAddress,
    partitions: int = 1,
    *,
    delivery_seconds: float = DELIVERY_SECONDS,
    pending_bytes_max: int = PENDING_BYTES_MAX,
) -> AsyncIterator[KafkaAppender]:
    """An appender, open meanwhile and closed afterwards."""
    appender = KafkaAppender(
        folder,
        address,
        partitions,
        retention_seconds=86_400,
        retention_bytes=1 << 40,
        delivery_seconds=delivery_seconds,
        pending_bytes_max=pending_bytes_max,
    )
    try:
        appender.open()
        yield appender
    finally:
        await appender.close()


def use(
    folder: Path,
    address: KafkaAddress,
    body: Callable[[KafkaAppender], Awaitable[None]],
    **options: Any,
) -> None:
    """Run ``body`` with an appender."""

    async def run() -> None:
        async with appending(folder, address, **options) as appender:
            await body(appender)

    asyncio.run(run())


def test_a_killed_leader_loses_nothing_that_was_acknowledged(
    tmp_path: Path, cluster: Cluster, address: KafkaAddress
) -> None:
    """kill -9 of the broker that leads, in the middle of appends: every acknowledged record is there, in order, and who
    has asked the old leader where the partition ends asks the new one, while the old one stays away."""
    ledgers: list[Ledger] = []

    async def body(appender: KafkaAppender) -> None:
        assert asking.of(0) == (0, 0)
        ledgers.extend(Ledger(appender, f"user-{number}") for number in range(8))
        killed: list[int] = []

        def enough() -> bool:
            done = sum(len(ledger.acknowledged) for ledger in ledgers)
            if done >= 400 and not killed:
                cluster.leader(address.topic, 0).kill()
                killed.append(done)
            return bool(killed) and done >= killed[0] + 400

        await asyncio.gather(*(ledger.go_on(enough) for ledger in ledgers))

    with closing(Watermarks(address)) as asking:
        use(tmp_path, address, body)
        (read,) = _by_user(tmp_path, address)
        assert asking.of(0) == (0, sum(map(len, read.values())))
    for number, ledger in enumerate(ledgers):
        mine = without_repeats(read[f"user-{number}"])
        assert mine[: len(ledger.acknowledged)] == ledger.acknowledged


def test_who_follows_does_not_wait_for_a_broker_that_stands_still(
    tmp_path: Path, cluster: Cluster, address: KafkaAddress
) -> None:
    """A leader that is frozen, or whose power is gone, closes no connection: what comes by way of the next one is read
    soon all the same."""
    follower = KafkaFollower(tmp_path, address, lambda: None)
    found: list[Record] = []

    async def body(appender: KafkaAppender) -> None:
        await appender.append([a_record(0)])
        follower.follow(0, 1)
        follower.begin()
        await asyncio.to_thread(wait_until, partial(read_all, follower, found, [], 1))
        with standing_still([cluster.leader(address.topic, 0)]):
            async with asyncio.timeout(SILENCE_SECONDS_MAX):
                await Ledger(appender, "u1").go_on(lambda: read_all(follower, found, [], 0) or len(found) > 1)

    with closing(follower):
        use(tmp_path, address, body, delivery_seconds=DELIVERY_SECONDS_OF_ROLE)


@pytest.mark.parametrize("is_given_up", [True, False])
def test_a_partition_that_rested_is_read_where_reading_begins_anew(
    tmp_path: Path, address: KafkaAddress, monkeypatch: pytest.MonkeyPatch, is_given_up: bool
) -> None:
    """Enough was read ahead, so the client rests it, and it rested for ever once another process had had it, or once
    what was read was to be read again."""
    monkeypatch.setattr(followers, "AHEAD_BYTES", 2 * 1024)
    use(tmp_path, address, lambda appender: appender.append([a_record(number) for number in range(200)]))
    follower = KafkaFollower(tmp_path, address, lambda: None)
    with closing(follower):
        follower.follow(0, 200)
        follower.begin()
        wait_until(lambda: next(follower.read(0, 0), None) is not None)
        wait_until(lambda: follower._ahead[0].rests)
        if is_given_up:
            follower.leave(0)
            wait_until(lambda: not follower._left)
            follower.follow(0, 200)
        found: list[Record] = []
        wait_until(partial(read_all, follower, found, [], 200))
    assert [record.message_id for record in found] == [f"m{number}" for number in range(200)]


def test_without_brokers_nothing_is_acknowledged_and_what_was_is_there_once_they_are_back(
    tmp_path: Path, cluster: Cluster, address: KafkaAddress
) -> None:
    """All brokers killed: an append fails within its bound, others are refused at once, and who waits when an appender
    is closed hears that nothing was stored for sure; back again, it works, and nothing acknowledged is lost."""

    async def body(appender: KafkaAppender) -> None:
        await appender.append([a_record(1)])
        async with appending(tmp_path / "patient", address, delivery_seconds=300) as patient:
            cluster.kill()
            waiting = asyncio.ensure_future(patient.append([a_record(4)]))
            await fails_within_its_bound(appender)
            assert not waiting.done()
            await asyncio.wait_for(patient.close(), BOUND_SECONDS)
            with pytest.raises(JournalAway):
                await waiting
        await asyncio.to_thread(cluster.start)
        assert appender.state() == ""
        back = Ledger(appender, "u1")
        await back.go_on(lambda: len(back.acknowledged) > 0)

    async def fails_within_its_bound(appender: KafkaAppender) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(JournalAway):
            await asyncio.wait_for(appender.append([a_record(2)]), BOUND_SECONDS)
        assert loop.time() - began < 3 * DELIVERY_SECONDS
        probing = asyncio.ensure_future(appender.append([a_record(3)]))
        await asyncio.sleep(0)
        for number in range(100):
            with pytest.raises(JournalAway):
                await appender.append([a_record(10 + number)])
        assert not probing.done(), "the others did not wait for the brokers"
        with pytest.raises(JournalAway):
            await probing
        assert appender.pending_bytes == 0
        assert appender.state() != ""

    with kept(tmp_path / "kept", KafkaAddress(cluster.addresses, f"{address.topic}-kept")):
        use(tmp_path, address, body)
    (ids,) = read_ids(tmp_path, address)
    assert (ids[0], ids[-1]) == ("m1", "m0")


@contextmanager
def kept(folder: Path, address: KafkaAddress) -> Iterator[None]:
    """Fill four partitions: whatever is done meanwhile, each ends afterwards where it ended, and goes on."""
    many = [a_record(number, user=f"u{number}") for number in range(300)]
    use(folder, address, lambda appender: appender.append(many), partitions=4)
    before = read_ids(folder, address, 4)
    assert sorted(itertools.chain(*before)) == sorted(record.message_id for record in many)
    yield
    assert read_ids(folder, address, 4) == before
    use(folder, address, lambda appender: appender.append([a_record(300)]), partitions=4)
    assert sum(map(len, read_ids(folder, address, 4))) == 301


def test_two_brokers_away_are_too_many_to_acknowledge(tmp_path: Path, cluster: Cluster, address: KafkaAddress) -> None:
    """One copy is not enough: while two of three brokers stand still nothing is acknowledged."""

    async def body(appender: KafkaAppender) -> None:
        await appender.append([a_record(1)])
        leader = cluster.leader(address.topic, 0)
        others = [broker for broker in cluster.brokers if broker is not leader]
        with pytest.raises(JournalAway), standing_still(others):
            await asyncio.wait_for(appender.append([a_record(2)]), BOUND_SECONDS)
        back = Ledger(appender, "u1")
        await back.go_on(lambda: len(back.acknowledged) > 0)

    use(tmp_path, address, body)
    (ids,) = read_ids(tmp_path, address)
    assert ids[0] == "m1"
    assert "m0" in ids


def test_what_waits_for_slow_brokers_is_bounded(tmp_path: Path, cluster: Cluster, address: KafkaAddress) -> None:
    """Brokers that stand still: more than may wait is refused, what waits is stored once they go on."""
    pending_bytes_max = 200_000

    async def body(appender: KafkaAppender) -> None:
        await appender.append([a_record(0)])
        with standing_still(cluster.brokers):
            calls = [asyncio.ensure_future(appender.append([a_record(n, body=b"x" * 2_000)])) for n in range(1, 200)]
            await asyncio.sleep(0)
            assert appender.pending_bytes <= pending_bytes_max
        ends = await asyncio.gather(*calls, return_exceptions=True)
        stored = [number for number, end in enumerate(ends, 1) if end is None]
        assert all(end is None or type(end) is JournalFull for end in ends)
        assert 0 < len(stored) < len(ends)
        acknowledged.extend(f"m{number}" for number in stored)

    acknowledged: list[str] = ["m0"]
    use(tmp_path, address, body, pending_bytes_max=pending_bytes_max, delivery_seconds=60)
    assert read_ids(tmp_path, address) == [acknowledged]


def test_what_waits_behind_a_failed_turn_fails_with_it(tmp_path: Path, cluster: Cluster, address: KafkaAddress) -> None:
    """Brokers that stand still: records that wait for their partition's turn fail when the turn before them does."""
    delivery_seconds = 2.0

    async def body(appender: KafkaAppender) -> None:
        await appender.append([a_record(0)])
        with standing_still(cluster.brokers):
            calls = [asyncio.ensure_future(appender.append([a_record(n)])) for n in range(1, 20)]
            ends = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), BOUND_SECONDS)
        assert {type(end) for end in ends} == {JournalAway}
        assert appender.pending_bytes == 0
        await back_again(appender)

    async def back_again(appender: KafkaAppender) -> None:
        back = Ledger(appender, "u1")
        await back.go_on(lambda: len(back.acknowledged) > 0)

    use(tmp_path, address, body, delivery_seconds=delivery_seconds)


def test_two_machines_append_side_by_side(tmp_path: Path, address: KafkaAddress) -> None:
    """Appenders of two data folders share a topic: everything is there, each one's records in its order."""

    async def both(appender: KafkaAppender) -> None:
        async with appending(tmp_path / "b", address) as second:
            await asyncio.gather(
                *(appender.append([a_record(n, user="a")]) for n in range(200)),
                *(second.append([a_record(n, user="b")]) for n in range(200)),
            )

    use(tmp_path / "a", address, both)
    (read,) = _by_user(tmp_path, address)
    assert read["a"] == read["b"] == [f"m{number}" for number in range(200)]


def _by_user(folder: Path, address: KafkaAddress) -> list[dict[str, list[str]]]:
    reader = KafkaReader(folder, address)
    try:
        found: dict[str, list[str]] = {}
        for record in records_of(list(reader.read(0, 0))):
            found.setdefault(record.user_key, []).append(record.message_id)
    finally:
        reader.close()
    return [found]


def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one(
    tmp_path: Path, cluster: Cluster, address: KafkaAddress
) -> None:
    """The places that a data folder holds mean nothing in it: that is said instead of going on somewhere."""
    use(tmp_path, address, lambda appender: appender.append([a_record(1)]))
    cluster.delete(address.topic)
    with pytest.raises(JournalUnusable, match="is gone"):
        use(tmp_path, address, lambda appender: appender.append([a_record(1)]))
    cluster.create(address.topic, 1, 3)
    with pytest.raises(JournalUnusable, match="made anew"):
        use(tmp_path, address, lambda appender: appender.append([a_record(1)]))


def test_a_topic_that_is_made_anew_beneath_a_running_appender_takes_nothing(
    tmp_path: Path, cluster: Cluster, address: KafkaAddress
) -> None:
    """What was acknowledged into it would be below the positions that readers have, and never be read."""

    async def body(appender: KafkaAppender) -> None:
        await appender.append([a_record(1)])
        assert appender.state() == ""
        cluster.delete(address.topic)
        assert "is gone" in appender.state()
        cluster.create(address.topic, 1, 3)
        wait_until(lambda: "made anew" in appender.state())  # a broker may not know of it yet: then it is gone still
        with pytest.raises(JournalAway, match="made anew"):
            await appender.append([a_record(2)])

    use(tmp_path, address, body)


def test_a_note_of_the_topic_that_a_power_cut_left_empty_is_written_anew(tmp_path: Path, address: KafkaAddress) -> None:
    """It says nothing of another topic; and the note is durable before the first record is taken."""
    (tmp_path / TOPIC_FILE).write_text("")
    use(tmp_path, address, lambda appender: appender.append([a_record(1)]))
    assert (tmp_path / TOPIC_FILE).read_text() != ""
    use(tmp_path, address, lambda appender: appender.append([a_record(2)]))


def test_retention_and_copies_are_the_topics(tmp_path: Path, cluster: Cluster, address: KafkaAddress) -> None:
    """Three copies, two in sync, the retention of the settings; that of later settings takes its place."""
    for seconds in (86_400, 3_600):
        appender = KafkaAppender(tmp_path, address, 2, retention_seconds=seconds, retention_bytes=1 << 30)
        appender.open()
        asyncio.run(appender.close())
        admin = AdminClient({"bootstrap.servers": cluster.addresses})
        asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, address.topic)])
        config = {name: entry.value for name, entry in next(iter(asked.values())).result(30).items()}
        assert (config["min.insync.replicas"], config["unclean.leader.election.enable"]) == ("2", "false")
        assert (config["retention.ms"], config["retention.bytes"]) == (str(seconds * 1_000), str(1 << 29))
    partitions = admin.list_topics(address.topic, timeout=30).topics[address.topic].partitions
    assert [len(partition.replicas) for partition in partitions.values()] == [3, 3]


def test_what_is_stored_while_retention_looks_is_not_dropped(tmp_path: Path, address: KafkaAddress) -> None:
    """A record that comes between two answers of the brokers is not taken for one of those that are old, be there any
    or none."""

    class Interrupted(Watermarks):
        def of(self, partition: int) -> tuple[int, int]:
            use(tmp_path, address, lambda appender: appender.append([a_record(1, received_at=10_000)]))
            return super().of(partition)

    use(tmp_path, address, lambda appender: appender.append([a_record(0, received_at=1_000)]))
    with closing(Interrupted(address)) as asking:
        assert asking.at(0, 5_000) == 1


def test_a_look_makes_no_topic(tmp_path: Path, cluster: Cluster, address: KafkaAddress) -> None:
    """Brokers that make topics on demand, as Kafka's defaults have it, are not asked in a way that makes ours; the one
    that is made has its three copies."""
    assert partition_count(address) == 0
    with closing(KafkaReader(tmp_path, address)) as reader:
        assert len(reader.partitions()) == 0
    admin = AdminClient({"bootstrap.servers": cluster.addresses})
    assert address.topic not in admin.list_topics(timeout=30).topics
    use(tmp_path, address, lambda appender: appender.append([a_record(1)]), partitions=4)
    partitions = admin.list_topics(timeout=30).topics[address.topic].partitions.values()
    assert [len(partition.replicas) for partition in partitions] == [3] * 4


def test_an_empty_topic_with_one_copy_is_refused_with_the_command_to_give(
    tmp_path: Path, cluster: Cluster, address: KafkaAddress
) -> None:
    """One that a look of somebody else's had made; one with three copies is taken as it is."""
    cluster.create(address.topic, 1, 1)
    with pytest.raises(JournalError, match=f"--topic {address.topic} --delete"):
        use(tmp_path, address, lambda appender: appender.append([a_record(1)]))
    cluster.delete(address.topic)
    cluster.create(address.topic, 2, 3)
    use(tmp_path, address, lambda appender: appender.append([a_record(1)]), partitions=2)


def test_partitions_are_added_and_never_taken_away(tmp_path: Path, address: KafkaAddress) -> None:
    """A larger number adds some; a smaller one is refused, with the number to set."""
    use(tmp_path, address, lambda appender: appender.append([a_record(1)]), partitions=1)
    many = [a_record(number, user=f"u{number}") for number in range(30)]
    use(tmp_path, address, lambda appender: appender.append(many), partitions=3)
    assert all(read_ids(tmp_path, address, 3))
    with pytest.raises(JournalError, match=r"set journal\.partitions to 3 or more"):
        use(tmp_path, address, lambda appender: appender.append([]), partitions=2)


def test_who_waits_for_partitions_learns_of_more(tmp_path: Path, address: KafkaAddress) -> None:
    """A role that is started with a larger number before collect is goes on as soon as collect has added them."""
    use(tmp_path, address, lambda appender: appender.append([a_record(1)]), partitions=1)
    settings = Settings(data_dir=str(tmp_path), journal=Journal(url=address.url, partitions=3))
    claim(settings)

    async def raised_while_somebody_waits() -> None:
        waiting = asyncio.create_task(
            journal_of(settings).wait_for_partitions(settings.journal.partitions, asyncio.Event())
        )
        done, _ = await asyncio.wait({waiting}, timeout=1.0)
        assert not done
        await asyncio.to_thread(open_topic, address, 3, 3_600, 1 << 30)
        await asyncio.wait_for(waiting, BOUND_SECONDS)

    asyncio.run(raised_while_somebody_waits())


def test_who_reads_and_appends_learns_of_partitions_that_others_add(tmp_path: Path, address: KafkaAddress) -> None:
    """A reader and a collect that were there before go on with all of them, without a restart."""
    many = [a_record(number, user=f"u{number}") for number in range(30)]
    with closing(KafkaReader(tmp_path, address)) as reader:

        async def add_some(appender: KafkaAppender) -> None:
            await appender.append([a_record(99)])
            assert reader.partitions() == range(1)
            await asyncio.to_thread(open_topic, address, 3, 3_600, 1 << 30)
            await asyncio.to_thread(wait_until, lambda: reader.partitions() == range(3))
            await asyncio.to_thread(wait_until, lambda: appender.state() == "" and len(appender.ends()) == 3)
            await appender.append(many)

        use(tmp_path, address, add_some)
        found = [records_of(list(reader.read(partition, 0))) for partition in reader.partitions()]
    for partition, records in enumerate(found):
        assert [each for each in records if each in many] == [
            each for each in many if partition_of(each.user_key, 3) == partition
        ]


def test_a_message_that_is_no_record_is_told_as_damage(tmp_path: Path, cluster: Cluster, address: KafkaAddress) -> None:
    """What somebody else wrote into the topic does not stop a reader, and is not passed over in silence."""
    use(tmp_path, address, lambda appender: appender.append([a_record(0)]))
    producer = Producer({"bootstrap.servers": cluster.addresses})
    producer.produce(address.topic, b"not a record", partition=0)
    assert producer.flush(30) == 0
    use(tmp_path, address, lambda appender: appender.append([a_record(2)]))
    reader = KafkaReader(tmp_path, address)
    groups = reader.read(0, 0)
    assert [record.message_id for record in next(groups).records] == ["m0"]
    with pytest.raises(JournalCorrupt) as damage:
        next(groups)
    assert (damage.value.offset, damage.value.next_offset) == (1, 2)
    assert [(each.partition, each.first, each.next) for each in noted_damage(tmp_path)] == [(0, 1, 2)]
    assert records_of(list(reader.read(0, 2))) == [a_record(2)]
    assert [reader.get(0, offset) for offset in range(3)] == [a_record(0), None, a_record(2)]
    assert [group.first_offset for group in reader.read_backwards(0, 3)] == [2, 0]
    assert list(reader.find(0, a_record(2).fingerprint, 0, 3)) == [2]
    reader.close()


def test_what_the_topic_lacks_is_missing_and_what_was_erased_is_not(
    tmp_path: Path, cluster: Cluster, address: KafkaAddress
) -> None:
    """An offset that holds nothing, as a transaction of somebody else's leaves one, is told as missing, forwards and by
    whoever follows; a record that was erased is there, and is told as neither missing nor damaged."""

    async def erase_one(appender: KafkaAppender) -> None:
        await appender.append([a_record(0), a_record(1)])
        appender.erase(0, [1])

    use(tmp_path, address, erase_one)
    producer = Producer({"bootstrap.servers": cluster.addresses, "transactional.id": address.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(address.topic, encode(a_record(2)), partition=0)
    producer.commit_transaction(30)  # leaves a mark at offset 3, some time after the coordinator has answered
    with closing(KafkaReader(tmp_path, address)) as reader:
        wait_until(lambda: reader.end(0) == 4)
    use(tmp_path, address, lambda appender: appender.append([a_record(4)]))
    follower = KafkaFollower(tmp_path, address, lambda: None)
    with closing(KafkaReader(tmp_path, address)) as reader, closing(follower):
        follower.follow(0, reader.end(0))
        follower.begin()
        for journal in (reader, follower):
            found: list[Record] = []
            lost: list[JournalCorrupt] = []
            wait_until(partial(read_all, journal, found, lost, reader.end(0)))
            assert [(each.message_id, each.erased) for each in found] == [
                ("m0", False),
                (found[1].message_id, True),
                ("m2", False),
                ("m4", False),
            ]
            assert [(why.offset, why.next_offset, why.is_missing) for why in lost] == [(3, 4, True)]
    assert [(each.first, each.next, each.is_missing) for each in noted_damage(tmp_path)] == [(3, 4, True)]


def read_all(journal: KafkaReader | KafkaFollower, found: list[Record], lost: list[JournalCorrupt], end: int) -> bool:
    """Go on where the last call ended, as far as there is something; return whether that is the end."""
    offset = len(found) + sum(each.next_offset - each.offset for each in lost)
    try:
        for group in journal.read(0, offset):
            found += group.records
    except JournalCorrupt as why:
        lost.append(why)
    return bool(found) and offset == end


def test_an_end_that_all_brokers_lost_is_told_once_its_offsets_are_given_again(
    tmp_path: Path, cluster: Cluster, address: KafkaAddress
) -> None:
    """As a power cut of all of them leaves it: who takes the partition up is refused while it is too short, and who
    lives through the loss stands still; when it is not any more, both go on behind, and each says which events came at
    offsets that it knew."""
    survivor = tmp_path / "survivor"
    settings = Settings(data_dir=str(tmp_path / "anew"), journal=Journal(url=address.url))
    claim(settings)
    journal = settings.data_path / FOLDER
    use(survivor, address, lambda appender: appender.append([a_record(0)]))
    kept_bytes = stored_bytes(cluster, address)
    use(survivor, address, lambda appender: appender.append([a_record(1), a_record(2)]))
    ensure(location_of(settings, "control"), "control")
    with closing(open_deliver(location_of(settings, "deliver"))) as database:
        row = (0, 3, 0, encode_offset_sets(SavedPositions({})))
        database.execute("INSERT INTO checkpoints (partition, next_offset, version, blob) VALUES (?, ?, ?, ?)", row)
    shelf = SharedIndexStore(location_of(settings, "deliver"))
    follower = KafkaFollower(survivor, address, lambda: None)
    with closing(follower), closing(shelf), closing(Claims(settings, shelf, lambda: 1)) as claims:
        follower.follow(0, 3)
        follower.begin()
        found: list[Record] = []
        wait_until(partial(read_all, follower, found, [], 3))
        lose_end(cluster, address, kept_bytes)
        with pytest.raises(JournalAway, match="ends at 1, before 3"):
            claims.take(0, lambda: True)
        assert read_lost(journal) == read_lost(survivor) == ()
        use(survivor, address, lambda appender: appender.append([a_record(3), a_record(4)]))
        taken = claims.take(0, lambda: True)
        assert taken is not None
        taken.duplicates.close()
        use(survivor, address, lambda appender: appender.append([a_record(5)]))
        wait_until(partial(read_all, follower, found, [], 4))
        assert [each.message_id for each in found] == ["m0", "m1", "m2", "m5"]
        assert follower.end(0) == 4
    for folder in (journal, survivor):
        assert [(each.partition, each.first, each.next_offset) for each in read_lost(folder)] == [(0, 1, 3)]


def stored_bytes(cluster: Cluster, address: KafkaAddress) -> int:
    """What is stored of the first partition."""
    return max(broker.segment(address.topic, 0).stat().st_size for broker in cluster.brokers)


def lose_end(cluster: Cluster, address: KafkaAddress, kept_bytes: int) -> None:
    """As a power cut of all brokers at once: what came after these bytes of the first partition was on no disk yet."""
    cluster.kill()
    for broker in cluster.brokers:
        os.truncate(broker.segment(address.topic, 0), kept_bytes)
    cluster.start()


def test_messages_carry_trace_key_and_time(tmp_path: Path, cluster: Cluster, address: KafkaAddress) -> None:
    """Other tools for Kafka find the user as key, when it was received as time, and the trace as header."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    record = msgspec.structs.replace(a_record(1, received_at=1_700_000_000_000), traceparent=trace)
    use(tmp_path, address, lambda appender: appender.append([record]))
    consumer = Consumer({"bootstrap.servers": cluster.addresses, "group.id": "test"})
    consumer.assign([TopicPartition(address.topic, 0, 0)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert (message.key(), message.timestamp()[1]) == (b"u1", 1_700_000_000_000)
    assert message.headers() == [("traceparent", trace.encode())]
