"""One seeded run: builds a machine, lets the plan happen to it, heals everything, and checks the books."""

from __future__ import annotations

import random
from collections import Counter
from hashlib import blake2b
from pathlib import Path

import msgspec

from hookline.deliver.lanes.lane import Lane
from hookline.journal.local.partition_reader import LocalReader
from hookline.outcomes.outcome import Outcome
from hookline.settings import Journal, Secrets, Settings
from hookline.simulation.outage import temporary_folder
from hookline.simulation.scheduler import Answer, Crashed, NeverRests, Request, Scheduler, SimulatedClock
from hookline.telemetry.crashpoints import crash_points_tell
from hookline.telemetry.log import silenced
from tests.worlds.accounts import Accounts
from tests.worlds.arrivals import Arrivals
from tests.worlds.bounds import engine_exceeds, lanes_exceed
from tests.worlds.connected import Connected
from tests.worlds.erasing import Erasing
from tests.worlds.ledger import Ledger
from tests.worlds.levels import Levels
from tests.worlds.limits import SMALL
from tests.worlds.machine import Machine
from tests.worlds.plan import EVERY, REPLAY_OPENED, Fault, Plan
from tests.worlds.receiver import Receiver
from tests.worlds.replaying import Replaying
from tests.worlds.rest import at_rest
from tests.worlds.starvation import Starvation
from tests.worlds.watch import Watch

CHECK_SECONDS = 0.5
REST_SECONDS_MAX = 400.0
"""Within this everything is settled once nothing is wrong any more."""


class Result(msgspec.Struct, frozen=True):
    """What came of a run: nothing wrong when ``violations`` is empty; ``trace`` is the same whenever the run is."""

    seed: int
    violations: tuple[str, ...]
    events: int
    requests: int
    resent: int
    lives: int
    seconds: float
    trace: str
    counts: dict[str, int]


def run(plan: Plan) -> Result:
    """Run a plan in a temporary folder."""
    with temporary_folder() as folder, silenced():
        world = World(plan, folder)
        with crash_points_tell(world.crash_point):
            try:
                world.happen()
            finally:
                world.close()
        return world.result()


class World:
    """A machine, its receivers, and what happens to them."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._clock = SimulatedClock()
        self._started = self._clock.seconds
        self._scheduler = Scheduler(self._clock)
        settings = Settings(
            data_dir=str(folder),
            deliver=plan.deliver,
            journal=Journal(partitions=plan.partitions),
            secrets=Secrets(dir=str(folder)),
        )
        self._ledger = Ledger()
        self._watch = Watch(self._clock, self._ledger, plan.deliver, self._receiver_of, self._lane_of, SMALL)
        self._starvation = Starvation(self._clock, self._ledger, self._watch, plan.deliver, plan.destinations)
        self._levels = Levels(self._clock, self._ledger, self._watch)
        self._arrivals = Arrivals(random.Random(f"{plan.seed}/arrivals"), self._clock, plan.destinations)
        self._armed: tuple[str, int] | None = None
        self._poke_lost = False
        self._trace = blake2b(digest_size=8)
        self._counts: Counter[str] = Counter()
        self._machine = Machine(settings, self._scheduler, self, f"{plan.seed}", self._failed, self._ended)
        given = self._clock, self._machine, self._ledger, self._watch
        self._connected = Connected(plan.seed, plan.features, *given, self._starvation, self._levels)
        self._replaying = Replaying(plan.seed, *given)
        self._erasing = Erasing(*given, self._arrivals)

    # what the run is

    def happen(self) -> None:
        """Let the plan happen, heal, come to rest, check."""
        self._connected.begin(self._plan.destinations)
        for number in range(self._plan.spared, self._plan.destinations):
            self._starvation.spared.add(f"d{number}")
        self._machine.start()
        for burst in self._plan.bursts:
            self._scheduler.after(burst.at, self._arrive, burst.events)
        for fault in self._plan.faults:
            self._scheduler.after(fault.at, self._strike, fault)
        try:
            self._check_until(self._started + self._plan.seconds)
            self._heal()
            self._come_to_rest()
        except NeverRests as error:
            self._watch.wrong(str(error))
        if not self._watch.violations:
            self._check_books()

    def result(self) -> Result:
        """What came of it."""
        watch = self._watch
        return Result(
            self._plan.seed,
            tuple(watch.violations),
            len(self._ledger.events),
            watch.requests,
            watch.resent,
            self._machine.lives,
            self._clock.seconds - self._started,
            self._trace.hexdigest(),
            dict(self._counts),
        )

    def close(self) -> None:
        """Let go of files."""
        self._replaying.close()
        self._erasing.close()
        self._machine.close()

    def _check_until(self, seconds: float) -> None:
        while self._clock.seconds < seconds and not self._watch.violations:
            self._scheduler.run_for(CHECK_SECONDS)
            self._connected.look()
            self._replaying.look()
            self._erasing.look()
            role = self._machine.role
            self._watch.look(role is not None, self._machine.saved_at)
            lanes = role.engine.lanes.values() if role is not None else ()
            for wrong in self._levels.found(lanes):
                self._watch.wrong(wrong)
            for wrong in lanes_exceed(role) if role is not None else ():
                self._watch.wrong(wrong)
            if role is None or self._machine.disk.full:
                self._starvation.ready_since = self._clock.seconds
            for wrong in self._starvation.found():
                self._watch.wrong(wrong)

    def _heal(self) -> None:
        """Nothing is wrong any more."""
        self._armed = None
        self._connected.heal()
        self._replaying.heal()
        self._machine.disk.full = self._machine.slow_commits = False
        self._machine.start()

    def _come_to_rest(self) -> None:
        end = self._clock.seconds + REST_SECONDS_MAX
        while self._clock.seconds < end and not self._watch.violations:
            self._check_until(self._clock.seconds + CHECK_SECONDS)
            others = self._connected, self._replaying, self._erasing
            if all(each.at_rest for each in others) and at_rest(self._machine):
                return
            self._machine.start()
            self._connected.resume_all()  # control may have paused what was gone a moment ago
        if not self._watch.violations:
            self._watch.wrong(f"not at rest {REST_SECONDS_MAX:g} s after everything was healed")

    def _check_books(self) -> None:
        data = self._machine.settings.data_path
        for wrong in Accounts(data, self._ledger, self._watch, self._plan.deliver, self._clock.back_ms).wrong():
            self._watch.wrong(wrong)
        kept = {
            (partition, group.first_offset + index): record
            for partition in self._machine.ends()
            for group in self._machine.reader.read(partition, 0)
            for index, record in enumerate(group.records)
        }
        for position, event in self._ledger.events.items():
            record, message_id = kept.get(position), event.record.message_id
            if position in self._ledger.erasing:
                if record is None or not record.erased:
                    self._watch.wrong(f"{message_id} was erased and is in the journal")
            elif record is None or record.message_id != message_id:
                self._watch.wrong(f"{message_id} was acknowledged and is not in the journal")

    # what happens to it

    def _arrive(self, count: int) -> None:
        records = self._arrivals.burst(count)
        try:
            stored = self._machine.append(records)
        except Crashed:
            stored = False
            self._counts["journal_crash"] += 1
            if self._arrivals.rng.random() < 0.5:
                self._cut_power(1.0)
            else:
                self._machine.open_journal()
        self._note_stored(stored)
        if not stored:
            self._arrivals.refused(records)
        if self._poke_lost:
            self._poke_lost = False
        else:
            self._machine.poke()

    def _note_stored(self, acknowledged: bool) -> None:
        """What is in the journal now and was not before."""
        reader = LocalReader(self._machine.settings.data_path / "journal")
        known = Counter(partition for partition, _ in self._ledger.events)
        for partition in reader.partitions():
            offset = known[partition]
            for group in reader.read(partition, offset):
                for record in group.records:
                    self._ledger.stored((partition, offset), record, acknowledged, self._clock.seconds)
                    self._starvation.stored((partition, offset))
                    offset += 1
        reader.close()

    def _strike(self, fault: Fault) -> None:
        self._counts[fault.kind] += 1
        match fault.kind:
            case "kill":
                self._kill(fault.amount)
            case "power_cut":
                self._cut_power(fault.amount)
            case "stop":
                self._machine.stop()
                self._scheduler.after(8.0, self._machine.start)
            case "crash_point":
                self._armed = (fault.what, int(fault.amount))
            case "clock_jump":
                self._clock.jump(fault.amount)
            case "receiver":
                touched = range(self._plan.spared) if fault.target == EVERY else [fault.target]
                for number in touched:
                    self._connected.behave(f"d{number}", fault.what)
            case "change":
                self._connected.change(f"d{fault.target}", fault.at)
            case "pause":
                self._connected.pause(f"d{fault.target}")
                self._scheduler.after(fault.amount, self._connected.resume, f"d{fault.target}", fault.amount)
            case "disk_full":
                self._machine.disk.full = True
                self._scheduler.after(fault.amount, setattr, self._machine.disk, "full", False)
            case "slow_disk":
                self._machine.slow_commits = True
                self._scheduler.after(fault.amount, setattr, self._machine, "slow_commits", False)
            case "poke_lost":
                self._poke_lost = True
            case "drain":
                id = f"d{fault.target}"
                if self._connected.drain(id) and fault.what:
                    self._scheduler.after(fault.amount, self._connected.discard, id)
            case "replay":
                self._replaying.ask(f"d{fault.target}", fault.what, fault.amount, fault.at)
            case "replay_pause":
                lane = self._replaying.pause(fault.target)
                if lane is not None:
                    self._scheduler.after(fault.amount, self._replaying.resume, lane)
            case "replay_cancel":
                self._replaying.cancel(fault.target)
            case "touch":
                self._connected.touch(f"d{fault.target}")
            case "erase":
                self._erasing.ask(f"u{fault.target}")
            case "secret":
                self._connected.lose_secret(f"d{fault.target}", is_noticed=fault.what != "unnoticed")
                self._scheduler.after(fault.amount, self._connected.find_secret, f"d{fault.target}")

    def crash_point(self, name: str) -> None:
        """The code passes a named point: the process ends here if it is armed."""
        if name == REPLAY_OPENED:
            self._watch.changed()  # as whoever changes settings, whoever replays wants to see whether it is back
        if self._armed is None or self._armed[0] != name:
            return
        if self._armed[1] > 0:
            self._armed = (name, self._armed[1] - 1)
            return
        self._armed = None
        if name.startswith("deliver."):
            self._counts[name] += 1
            self._machine.freeze()
            self._scheduler.after(0.0, self._kill, 0.5)
        raise Crashed(name)

    def _kill(self, down_seconds: float) -> None:
        self._machine.kill()
        self._crashed(ring_kept=True)
        self._scheduler.after(down_seconds, self._machine.start)

    def _cut_power(self, down_seconds: float) -> None:
        self._machine.cut_power()
        self._crashed(ring_kept=False)
        self._scheduler.after(down_seconds, self._machine.start)

    def _ended(self) -> None:
        """The process ended by itself; with a full disk it could not save what it knew last."""
        self._crashed(ring_kept=True)

    def _crashed(self, ring_kept: bool) -> None:
        self._watch.crashed(self._machine.saved_at, ring_kept)
        self._levels.crashed(self._machine.saved_at)

    def _failed(self, error: BaseException | str) -> None:
        """The process reports an error that no crash explains."""
        self._watch.wrong(f"the role failed: {error!r}")

    # what the network asks

    def sent(self, request: Request) -> Answer:
        """A request leaves (``network.Traffic``)."""
        answer = self._watch.sent(request)
        role = self._machine.role
        for wrong in engine_exceeds(role) if role is not None else ():
            self._watch.wrong(wrong)
        ids = ",".join(message_id for message_id, _ in request.events)
        line = f"{self._clock.seconds:.6f} {request.lane} {ids} {request.url} {answer.result}\n"
        self._trace.update(line.encode())
        return answer

    def answered(self, request: Request, result: int | Outcome, retry_after: bytes | None) -> None:
        """The sender has taken an answer in (``network.Traffic``)."""
        self._watch.answered(request, result, retry_after)

    def _receiver_of(self, lane: int, url: int) -> Receiver:
        return self._connected.receiver_of(lane, url)

    def _lane_of(self, number: int) -> Lane | None:
        role = self._machine.role
        return role.engine.lanes.get(number) if role is not None else None
