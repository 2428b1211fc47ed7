"""One of many workers, on a rig: partitions come and go as ``Worker`` has them do, without a consumer group."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import cast
from unittest.mock import Mock

from hookline.database.connect import connect
from hookline.database.location import location_of
from hookline.deliver.cluster.fence import Fence, now_seconds
from hookline.deliver.cluster.shared_ring import SharedIndexStore, SharedRing
from hookline.deliver.cluster.takeover import Claims, PartitionTakeover
from hookline.deliver.cluster.worker import Worker
from hookline.deliver.read.catch_up import SharedReader
from hookline.deliver.recovery import Recovery
from hookline.journal.port import Follower, partition_of
from hookline.telemetry.log import logger
from tests.unit.deliver.rig import Request, Rig


class WorkerRig:
    """The partitions of one worker, all of them at first; what it lets go of others might own meanwhile."""

    def __init__(self, rig: Rig) -> None:
        """Begin with a rig whose role runs."""
        self.rig = rig
        self.fence = Fence(1e9)
        self.fence.confirm(now_seconds())
        self._shelf = SharedIndexStore(location_of(rig.settings, "deliver"))
        self._claims = Claims(rig.settings, self._shelf, rig.clock.steady_ms)
        self._join()
        for partition in range(rig.settings.journal.partitions):
            self.take_up(partition)

    def _join(self) -> None:
        """Have the role be one of many, which owns nothing yet."""
        role = self.rig.role
        role.engine.fence = role.store._fence = role.store.rows._fence = self.fence
        role.replays._is_shared = True
        for partition in list(role.feeder.shared):
            role.feeder.leave(partition)
            role.checkpointer.leave(partition)

    def give_up(self, partition: int = 0, answer: int | None = None) -> None:
        """Give a partition back as a worker does that is asked to: what is in flight of it ends, all with ``answer`` if
        one is given, and everything is saved."""
        role = self.rig.role
        self.fence.leaving.add(partition)
        role.feeder.freeze(partition)
        if answer is not None:
            for request in self.in_flight(partition):
                self.rig.answer(request, answer)
        self.rig.loop.run_until_complete(role.checkpointer.save())
        self.lose(partition)

    def lose(self, partition: int = 0) -> None:
        """Find a partition with others: nothing is saved any more, and what is in flight goes on."""
        role = self.rig.role
        self.fence.leave(partition)
        role.feeder.leave(partition)
        role.checkpointer.leave(partition)
        role.engine.batch.leave_out(partition.__eq__)

    def take_up(self, partition: int = 0) -> None:
        """Take a partition as a worker does that it was assigned to."""
        role = self.rig.role
        claim = self._claims.take(partition, lambda: True)
        assert claim is not None
        role.follow_connections()
        role.engine.batch.leave_out(partition.__eq__)
        shared = SharedReader(partition, cast(Follower, role.journal), claim.duplicates, claim.next_offset)
        self.fence.epochs[partition] = claim.epoch
        role.checkpointer.take(partition, claim.next_offset)
        parts = role.engine, role.feeder, role.lane_set, role.replays
        recovery = Recovery(*parts, role.store, role.journal)
        PartitionTakeover(*parts, recovery).take_over(claim, shared, role.checkpointer.version)
        role.feeder.wake()
        self.rig.turn()

    @contextmanager
    def member(self) -> Iterator[Worker]:
        """Yield what the group speaks to, with these parts and without a group; at the end its thread has done its
        work."""
        role, made = self.rig.role, Worker.__new__(Worker)
        made._fence, made._claims, made._loop = self.fence, self._claims, self.rig.loop
        made._engine, made._feeder, made._checkpointer = role.engine, role.feeder, role.checkpointer
        made._wanted, made._doubtful, made._is_closing, made._log = {}, {}, False, logger()
        made._follower, made._heartbeat, made._data_path = role._follower, Mock(), self.rig.settings.data_path
        made._follow_connections, made._journal = role.follow_connections, role.lookups
        parts = role.engine, role.feeder, role.lane_set, role.replays
        made._takeover = PartitionTakeover(*parts, Recovery(*parts, role.store, role.journal))
        with ThreadPoolExecutor(1) as made._thread:
            yield made

    def replace(self, *, is_killed: bool = False) -> None:
        """Give everything up, or be killed, and have a new process take it: it opens the lanes that it has to."""
        for partition in list(self.fence.epochs):
            if is_killed:
                self.fence.leave(partition)
            else:
                self.give_up(partition)
        self.rig.kill()
        self.rig.start(recovers=False)
        self._join()
        SharedRing(location_of(self.rig.settings, "deliver"), self.rig.role.engine.ring).publish()
        self.rig.follow()
        self.rig.pass_time(0.1)  # the group is not quicker than a beat
        for partition in range(self.rig.settings.journal.partitions):
            self.take_up(partition)

    def go_on(self, rounds: int = 20, seconds: float = 60.0) -> None:
        """Let time pass in which all succeeds."""
        for _ in range(rounds):
            self.rig.pass_time(seconds)
            self.rig.answer_all()
            self.rig.checkpoint()

    def in_flight(self, partition: int = 0) -> list[Request]:
        """Return the requests of a partition that wait for an answer."""
        return [request for request in self.rig.network.waiting if request.partition == partition]

    def append(self, partition: int, *message_ids: str, **given: object) -> None:
        """Store events in a partition."""
        partitions = self.rig.settings.journal.partitions
        user = next(key for key in map(str, range(1000)) if partition_of(key, partitions) == partition)
        self.rig.append(*(self.rig.record(message_id, user_key=user, **given) for message_id in message_ids))

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return what is saved."""
        with closing(connect(location_of(self.rig.settings, "deliver"), read_only=True)) as connection:
            return [tuple(row) for row in connection.execute(query).fetchall()]

    def close(self) -> None:
        """Let go of files."""
        self._claims.close()
        self._shelf.close()
