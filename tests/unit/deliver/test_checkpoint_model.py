"""The whole role against a model: random events, answers, changes of connections, checkpoints and kills.

The model knows from the connections alone which event belongs to which lane, and from the receivers what they took.
"""

from __future__ import annotations

import os
import random
from contextlib import closing

import pytest

from hookline.connections.model import Offsets, Snapshot
from hookline.journal.port import partition_of
from hookline.outcomes.event_status import EventStatus, EventStatuses
from hookline.outcomes.outcome import Outcome
from hookline.replays.model import Replay
from hookline.replays.predicate import predicate_of
from hookline.route.decision import not_routed_reason
from hookline.settings import Deliver, Seconds
from hookline.telemetry.crashpoints import crash_points_tell
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.late_journal import LateJournal
from tests.unit.deliver.rig import Delete, Request, Rig, destination, source

SEEDS = int(os.environ.get("HOOKLINE_TEST_MODEL_SEEDS", "8"))
LATE_SEEDS = SEEDS // 2
STEPS = 140
SMALL: dict[str, float] = {
    "queue_low": 4,
    "queue_high": 8,
    "open_failures": 6,
    "narrow_failures": 3,
    "open_seconds": 1.0,
    "in_flight_max": 16,
}
"""Limits that a short run reaches."""
SOURCES = ("website", "app")
DESTINATIONS = ("one", "two", "three")
CRASH_POINTS = (
    "deliver.answered_before_mark",
    "deliver.before_checkpoint",
    "deliver.after_checkpoint",
    "deliver.detached",
    "deliver.catching_up",
    "deliver.attached_again",
    "deliver.replay_opened",
)
FAILURES: tuple[int | Outcome, ...] = (500, 503, 429, Outcome.TIMED_OUT, Outcome.CONNECTION_FAILED, 400)
OPEN_STATUSES = {"queued", "retrying"}
Place = tuple[int, int]
"""(partition, offset)"""


class Killed(Exception):
    """The process ended at a crash point."""


class World:
    """A rig, and what must be true of it."""

    def __init__(self, rig: Rig, rng: random.Random) -> None:
        self.rig = rig
        self.rng = rig.rng = rng
        self.armed = ""
        self.versions: list[tuple[Offsets, Snapshot]] = []
        """(the journal's ends, what is in force from there on)"""
        self.events: dict[Place, tuple[str, str, bool]] = {}
        """(source, messageId, duplicate) of each record"""
        self.delivered: set[tuple[int, Place]] = set()
        """(lane number, record) of each success that the role was told"""
        self.ended: set[int] = set()
        """Lanes that the role knows to be gone."""
        self.replays: dict[int, Replay] = {}
        """By lane; those of single events have their places in ``places``."""
        self.positions: dict[int, set[Place]] = {}
        self.health = dict.fromkeys(DESTINATIONS, "well")
        self.kills = 0
        self.wrong: list[str] = []
        """What was sent and should not have been."""
        rig.network.on_send = self.check_send

    # what happens

    def crash_point(self, name: str) -> None:
        if name == self.armed:
            self.armed = ""
            raise Killed(name)

    def change(self, *edits: object) -> None:
        self.rig.change(*edits)  # type: ignore[arg-type]
        self.versions.append((self.rig.appender.ends(), self.rig.store.snapshot()))

    def append(self) -> None:
        records, ends = [], self.rig.appender.ends()
        for _ in range(self.rng.randint(1, 6)):
            name = self.rng.choice(SOURCES)
            message_id = f"m{len(self.events)}"
            if self.events and self.rng.random() < 0.15:
                name, message_id, _ = self.rng.choice(list(self.events.values()))
            duplicate = any(event[:2] == (name, message_id) for event in self.events.values())
            selection = {"All": False} if not duplicate and self.rng.random() < 0.05 else None
            user_key = f"u{message_id[-1]}"
            partition = partition_of(user_key, len(ends))
            self.events[partition, ends[partition]] = (name, message_id, duplicate)
            ends[partition] += 1
            records.append(self.rig.record(message_id, name, selection=selection, user_key=user_key))
        self.rig.append(*records)

    def answer_some(self) -> None:
        for _ in range(self.rng.randint(1, 12)):
            if not self.rig.network.waiting:
                return
            request = self.rng.choice(self.rig.network.waiting[:8])
            ill = {"well": 0.03, "shaky": 0.5, "dead": 1.0}[self.health[request.destination]]
            self.answer(request, self.rng.choice(FAILURES) if self.rng.random() < ill else 200)

    def answer(self, request: Request, how: int | Outcome) -> None:
        self.rig.answer(request, how)
        if how == 200:
            self.delivered.add((request.lane, (request.partition, request.offset)))

    def reconfigure(self) -> None:
        snapshot, id = self.rig.store.snapshot(), self.rng.choice(DESTINATIONS)
        found = next((each for each in snapshot.destinations if each.id == id), None)
        sources = tuple(self.rng.sample(SOURCES, self.rng.randint(1, 2)))
        if found is not None and self.rng.random() < 0.1:
            self.change(Delete("destination", id))
            return
        self.change(destination(id, sources=sources, urls=self.rng.choice((1, 1, 2)), enabled=self.rng.random() < 0.75))

    def ask_for_replay(self) -> None:
        snapshot = self.rig.store.snapshot()
        if not (snapshot.lanes and self.events):
            return
        id = self.rng.choice(sorted(snapshot.lanes))
        some: dict[int, list[int]] | None = None
        if self.rng.random() < 0.4:
            some = {partition: [] for partition in self.rig.appender.ends()}
            for partition, offset in sorted(self.rng.sample(list(self.events), min(5, len(self.events)))):
                some[partition].append(offset)
        given = {"source": self.rng.choice(SOURCES)} if self.rng.random() < 0.3 else {}
        made = self.rig.replay(id, positions=some, **given, **({"rate": 50} if self.rng.random() < 0.2 else {}))
        self.replays[made.lane] = made
        self.positions[made.lane] = (
            {(p, offset) for p, end in made.ends.items() for offset in range(made.starts[p], end)}
            if some is None
            else {(p, offset) for p, offsets in some.items() for offset in offsets}
        )

    def change_replay(self) -> None:
        if self.replays:
            lane = self.rng.choice(list(self.replays))
            found = self.rig.replays.get(lane)
            if found is not None and found.state != "cancelled":
                self.rig.replays.want(lane, self.rng.choice(("paused", "running", "running", "cancelled")), None)

    def one_turn(self) -> None:
        self.rig.one_turn()

    def follow(self) -> None:
        self.rig.follow()
        self.note_ended()

    def note_ended(self) -> None:
        alive = {lane.number for lane in self.rig.store.snapshot().lanes.values()}
        known = {lane.number for _, snapshot in self.versions for lane in snapshot.lanes.values()}
        self.ended = known - alive

    def restart(self) -> None:
        self.armed = ""
        self.kills += 1
        self.rig.kill()
        if self.rng.random() < 0.3:
            self.append()
        if self.rng.random() < 0.2:
            self.reconfigure()
        self.ended = set()
        self.rig.start()
        self.note_ended()

    def step(self) -> None:
        rig, chance = self.rig, self.rng.random()
        if chance < 0.25:
            self.append()
        elif chance < 0.40:
            rig.one_turn()
        elif chance < 0.62:
            self.answer_some()
        elif chance < 0.72:
            rig.pass_time(self.rng.choice((0.05, 0.5, 2.0)))
        elif chance < 0.82:
            rig.checkpoint_while(self.rng.choice((self.answer_some, self.append, self.follow, self.one_turn)))
        elif chance < 0.86:
            self.reconfigure()
        elif chance < 0.88:
            self.ask_for_replay()
        elif chance < 0.89:
            self.change_replay()
        elif chance < 0.92:
            self.follow()
        elif chance < 0.95:
            self.health[self.rng.choice(DESTINATIONS)] = self.rng.choice(("well", "shaky", "dead"))
        elif chance < 0.97:
            self.armed = self.rng.choice(CRASH_POINTS)
        elif chance < 0.985:
            self.check_statuses(self.rng.sample(list(self.events), min(3, len(self.events))))
        else:
            self.restart()

    # what must be true

    def check_send(self, request: Request) -> None:
        """A request goes only to a live lane that the event belongs to, and never after its answer was seen."""
        position = request.partition, request.offset
        _, message_id, duplicate = self.events[position]
        if (request.lane, position) in self.delivered:
            self.wrong.append(f"{message_id} is sent again")
        if request.lane in self.ended:
            self.wrong.append(f"{message_id} is sent after its destination was disabled")
        if duplicate:
            self.wrong.append(f"{message_id} is a repeat")
        if request.lane in self.replays:
            if position not in self.positions[request.lane]:
                self.wrong.append(f"{message_id} is not part of the replay")
            return
        # Connections that the role has not yet heard of cannot bind it.
        routed = set().union(*(self.belongs(position, snapshot) for _, snapshot in self.versions))
        if (request.lane, request.destination) not in routed:
            self.wrong.append(f"{message_id} is misrouted")

    def snapshot_at(self, position: Place) -> Snapshot:
        return [snapshot for ends, snapshot in self.versions if ends[position[0]] <= position[1]][-1]

    def belongs(self, position: Place, snapshot: Snapshot | None = None) -> set[tuple[int, str]]:
        """The lanes the event belongs to, as (number, destination), by the connections when it was accepted."""
        record = self.rig.role.journal.get(*position)
        assert record is not None
        snapshot = snapshot or self.snapshot_at(position)
        lanes = [(each, snapshot.lanes.get(each.id)) for each in snapshot.destinations]
        return {
            (lane.number, each.id)
            for each, lane in lanes
            if lane is not None and not_routed_reason(record, each, lane, *position) is None
        }

    def disconnected(self, position: Place, lane: int, id: str) -> bool:
        """Whether a later version took the event's source, or the whole lane, away."""
        partition, offset = position
        later = [snapshot.lanes.get(id) for ends, snapshot in self.versions if ends[partition] >= offset]
        name = self.events[position][0]
        return any(
            each is None or each.number != lane or each.sources.get(name, {}).get(partition, 1 << 60) > offset
            for each in later
        )

    def check_statuses(self, some: list[Place]) -> None:
        for position in some:
            name, message_id, duplicate = self.events[position]
            if not duplicate:
                self.check_status(position, self.rig.event(message_id, name))

    def check_status(self, position: Place, found: EventStatus) -> None:
        belongs = {id: lane for lane, id in self.belongs(position)}
        statuses = {each.id: each.status for each in found.destinations}
        assert {id for id, status in statuses.items() if status != "not_routed"} == set(belongs)
        for id, lane in belongs.items():
            if (lane, position) in self.delivered:
                assert statuses[id] == "delivered", (found.message_id, id)
            else:
                allowed = (
                    OPEN_STATUSES | {"failed"} | ({"discarded"} if self.disconnected(position, lane, id) else set())
                )
                assert statuses[id] in allowed, (found.message_id, id, statuses[id])

    def check_end(self) -> None:
        """All is settled: each event was taken, or there is a record of why not; and the status says the same."""
        self.check_replays()
        asked = EventStatuses(self.rig.settings)
        for position, (name, message_id, duplicate) in self.events.items():
            statuses = asked.of_message(message_id, name)
            assert statuses is not None
            if duplicate:
                assert statuses.duplicates >= 1
                continue
            self.check_status(position, statuses)
            open_ones = [each for each in statuses.destinations if each.status in OPEN_STATUSES]
            assert not open_ones, (message_id, open_ones)
        asked.close()

    def check_replays(self) -> None:
        """A replay that is done has delivered each of its events or has a dead letter for it; counts are exact."""
        letters = {(lane, message_id) for message_id, lane, _ in self.rig.dead_letters()}
        destinations = {each.id: each for each in self.rig.store.snapshot().destinations}
        for lane, replay in self.replays.items():
            state, delivered, failed = self.rig.replay_row(replay)
            taken = {position for number, position in self.delivered if number == lane}
            assert state in ("done", "cancelled"), (lane, state)
            assert delivered == len(taken), (lane, state, delivered, sorted(taken))
            destination = destinations.get(replay.request.destination)
            if state == "cancelled" or destination is None or len(self.versions_of(destination.id)) > 1:
                continue  # which events belong changed while it ran
            sends = predicate_of(replay.request, destination)
            for position in self.positions[lane] - taken:
                _, message_id, duplicate = self.events[position]
                record = self.rig.role.journal.get(*position)
                assert record is not None
                again = any(position in self.positions[other] for other in self.replays if other != lane)
                if not duplicate and not again and sends(record):  # another takes the letter over
                    assert (lane, message_id) in letters, (lane, message_id, failed)

    def versions_of(self, id: str) -> list[object]:
        """The different states a destination was in."""
        found = [each for _, snapshot in self.versions for each in snapshot.destinations if each.id == id]
        return list({str(each): each for each in found}.values())


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_or_sent_again(seed: int, make_rig: MakeRig) -> None:
    """Whatever happens, each event reaches each lane it belongs to or has a record; what was answered is not resent."""
    live(begun(make_rig(1 + seed % 2, deliver=Deliver(retry_max=Seconds(20.0))), seed))


@pytest.mark.parametrize("seed", range(LATE_SEEDS))
def test_the_same_where_records_and_rows_come_late(seed: int, make_rig: MakeRig) -> None:
    """As from Kafka and PostgreSQL: what was found is of the last checkpoint, and what happened since counts too."""
    world = begun(make_rig(1 + seed % 2, deliver=Deliver(retry_max=Seconds(20.0))), seed)
    world.append()  # so that there is a journal
    with closing(LateJournal(world.rig.folder / "journal", room=1_000)) as world.rig.lookups:
        live(world)


def begun(rig: Rig, seed: int) -> World:
    """A world with one destination, not started."""
    rig.limit(**SMALL)
    world = World(rig, random.Random(seed))
    world.change(*(source(id) for id in SOURCES), destination("one", sources=SOURCES))
    return world


def live(world: World) -> None:
    """Let everything happen in an order of chance, and look at the end what came of it."""
    with crash_points_tell(world.crash_point):
        world.rig.start()
        for _ in range(STEPS):
            try:
                world.step()
            except Killed:
                world.restart()
            assert not world.wrong
        world.armed = ""
        world.follow()
        finish(world)
        assert not world.wrong
        world.check_end()


def finish(world: World) -> None:
    """Let every receiver be well, and no replay be paused, until all is settled."""
    for lane in world.replays:
        if world.rig.replays.get(lane).state == "paused":  # type: ignore[union-attr]
            world.rig.replays.want(lane, "running", None)
    world.follow()
    for _ in range(400):
        while world.rig.network.waiting:
            world.answer(world.rig.network.waiting[0], 200)
            world.rig.turn()
        world.rig.checkpoint()
        if world.rig.at_rest() and not world.rig.role.replays.lanes:
            return
        world.rig.pass_time(5.0)
    raise AssertionError("the role does not come to rest")
