"""The connections of a run: sources, destinations that change, pause and go, and the receivers behind them."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

from msgspec.structs import replace

from hookline.connections.edits import Delete, Edit, Put
from hookline.connections.model import (
    DeliveryOptions,
    Destination,
    Filter,
    Pause,
    Snapshot,
    Source,
    Webhook,
    WebhookSettings,
)
from hookline.connections.store import ChangeRefused
from hookline.features.destinations.service import LaneWatch
from hookline.simulation.scheduler import SimulatedClock
from tests.worlds.ledger import KNOWN_AFTER_SECONDS, Ledger, Place
from tests.worlds.levels import Levels
from tests.worlds.machine import Machine
from tests.worlds.mappings import mapped
from tests.worlds.plan import SOURCES, Feature
from tests.worlds.receiver import BEHAVIOURS, BURST, CHOOSY, PARTLY, STRICT, WELL, Receiver
from tests.worlds.starvation import Starvation
from tests.worlds.watch import Watch

HARMLESS = frozenset({"well", "slow", CHOOSY.name, STRICT.name})
"""Behaviours with which a receiver answers everything in time, and fails at nothing."""
DELETED = 0.15
"""How often a change deletes the destination."""
ENABLED = 0.75
RATE_PER_PAUSED_SECOND = 10.0
"""Events per second of a catch-up, for each second that the pause had lasted."""
FILTERS = (
    Filter(condition='event = "Heartbeat"', do="drop"),
    Filter(condition='event = "View"', do="sample", percent=50),
    Filter(condition="true", do="sample", percent=80),
    Filter(condition="true", do="dropProperties", properties=("properties.card",)),
    Filter(condition='event = "Order"', do="allowProperties", properties=("properties.total",)),
    Filter(condition='properties.card = "4000" and event = "View"', do="drop"),
)
ALONE = 0.5
"""How often only the last URL of a destination falls ill, in runs where all of them must accept."""
LOW_RATES = (8.0, 15.0)
_BY_NAME = {behaviour.name: behaviour for behaviour in (*BEHAVIOURS, BURST, CHOOSY, PARTLY, STRICT)}


class Connected:
    """Changes the connections as control does, and tells those who check."""

    def __init__(
        self,
        seed: int,
        features: tuple[Feature, ...],
        clock: SimulatedClock,
        machine: Machine,
        ledger: Ledger,
        watch: Watch,
        starvation: Starvation,
        levels: Levels,
    ) -> None:
        self._seed = seed
        self._features = features
        self._clock = clock
        self._machine = machine
        self._ledger = ledger
        self._watch = watch
        self._starvation = starvation
        self._levels = levels
        self._receivers: dict[tuple[str, int], Receiver] = {}
        self._paused: dict[str, Pause] = {}
        self._without_secret: set[str] = set()
        self._touched = 0
        self._control = LaneWatch(machine.settings, machine.store, clock.monotonic)

    def begin(self, destinations: int) -> None:
        """Connect the first sources and destinations."""
        self._change([Put(Source(id=id, name=id, write_keys=(f"wk_{id}",))) for id in SOURCES])
        rng = random.Random(f"{self._seed}/connections")
        self._change([Put(self._destination(f"d{number}", rng)) for number in range(destinations)])

    def receiver_of(self, lane: int, url: int) -> Receiver:
        """The receiver of a lane's URL."""
        return self._receivers[self._ledger.name_of(lane), url]

    def behave(self, destination: str, what: str) -> None:
        """Let every receiver of a destination behave like this from now on; where all must accept, perhaps only one."""
        mine = {url: receiver for (id, url), receiver in self._receivers.items() if id == destination}
        alone = random.Random(f"{self._seed}/alone/{destination}/{what}").random() < ALONE
        if alone and "all" in self._features and what != WELL.name:
            mine = {url: receiver for url, receiver in mine.items() if url == len(mine) - 1}
        for receiver in mine.values():
            receiver.behaviour = _BY_NAME[what]
        if self._is_well(destination):
            self._starvation.well_since.setdefault(destination, self._clock.seconds)
        else:
            self._starvation.well_since.pop(destination, None)

    def _is_well(self, destination: str) -> bool:
        if destination in self._without_secret:
            return False
        behaviours = (receiver.behaviour for (id, _), receiver in self._receivers.items() if id == destination)
        return all(behaviour.name in HARMLESS for behaviour in behaviours)

    def change(self, id: str, at: float) -> None:
        """Give a destination other settings, switch it on or off, or delete it."""
        rng = random.Random(f"{self._seed}/{at}")
        exists = any(each.id == id for each in self._machine.store.snapshot().destinations)
        if exists and rng.random() < DELETED:
            self._change([Delete("destination", id)])
        else:
            with contextlib.suppress(ChangeRefused):  # nobody enables what is still being drained
                self._change([Put(self._destination(id, rng, enabled=rng.random() < ENABLED))])

    def lose_secret(self, id: str, *, is_noticed: bool) -> None:
        """Take a destination's secret away; unless somebody changes it as well, nobody notices before a restart."""
        self._secret(id).unlink(missing_ok=True)
        self._without_secret.add(id)
        self._starvation.well_since.pop(id, None)
        if is_noticed and self.touch(id):
            self._ledger.unusable[id] = self._clock.seconds

    def find_secret(self, id: str) -> None:
        """Put a secret back and have the destination look for it."""
        if id not in self._without_secret:
            return
        self._secret(id).write_text("s3cret")
        self._without_secret.discard(id)
        self._ledger.unusable.pop(id, None)
        self.touch(id)
        if self._is_well(id):
            self._starvation.well_since.setdefault(id, self._clock.seconds)

    def touch(self, id: str) -> bool:
        """Change a destination in nothing that matters; return whether it exists."""
        found = next((each for each in self._snapshot.destinations if each.id == id), None)
        if found is not None:
            self._touched += 1
            self._change([Put(replace(found, name=f"{id} {self._touched}"))])
        return found is not None

    def _secret(self, id: str) -> Path:
        return self._machine.settings.data_path / f"secret-{id}"

    def pause(self, id: str) -> None:
        """Pause a destination that is enabled and not paused."""
        lane = self._machine.store.snapshot().lanes.get(id)
        if lane is not None and lane.paused is None:
            self._paused[id] = Pause(since=self._clock.now_ms(), steady_since=self._clock.steady_ms())
            self._machine.store.pause(id, self._paused[id], "simulation", self._machine.ends)
            self._note_change()

    def resume(self, id: str, seconds: float) -> None:
        """Resume what was paused here, sometimes at a chosen rate."""
        pause, lane = self._paused.pop(id, None), self._machine.store.snapshot().lanes.get(id)
        if pause is None or lane is None or lane.paused != pause:
            return
        self._control.resumed(id)
        rate = seconds * RATE_PER_PAUSED_SECOND if int(seconds * 10) % 2 else None
        self._machine.store.resume(id, rate, "simulation", self._machine.ends)
        paused_ms = self._note_pause(id, lane.number, pause)
        self._note_change()
        self._watch.pace.changed(lane.number)
        self._levels.changed(lane.number)
        ordered = any(each.id == id and each.delivery.order != "none" for each in self._snapshot.destinations)
        was_known = self._machine.up and paused_ms > 1_000 * KNOWN_AFTER_SECONDS
        if rate is not None and was_known and not ordered:  # rows that wait for their user's turn do not catch up
            self._watch.pace.resumed(lane.number, rate, self._waiting(lane.number))

    def _note_pause(self, id: str, lane: int, pause: Pause) -> int:
        """Have no window count a pause that ends, those of replays neither; return how long it was."""
        paused_ms = _lasted_ms(pause, self._clock)
        for number in (lane, *(replay.lane for replay in self._ledger.replays_to(id))):
            self._watch.resumed(number, paused_ms)
        return paused_ms

    def drain(self, id: str) -> bool:
        """Disable a destination that is enabled, but let it get what was accepted; return whether it was enabled."""
        lane = self._snapshot.lanes.get(id)
        if lane is None or lane.until is not None:
            return False
        self._paused.pop(id, None)
        self._machine.store.drain(id, "simulation", self._machine.ends)
        if lane.paused is not None:
            self._note_pause(id, lane.number, lane.paused)
            self._watch.pace.changed(lane.number)  # the rate of an earlier resume ended with the pause
        self._note_change()
        return True

    def discard(self, id: str) -> None:
        """What is still being drained is not wanted any more."""
        lane = self._snapshot.lanes.get(id)
        if lane is not None and lane.until is not None:
            self._machine.store.end_drain(id, "simulation", self._machine.ends)
            self._note_change()

    def look(self) -> None:
        """What control does once a second: pause what is gone, end the lanes that have nothing left to drain."""
        before = self._snapshot
        try:
            self._control.look()
        finally:
            self._control.close()  # a power cut changes the file under whoever has it open
        if self._snapshot.version != before.version:
            for id, lane in before.lanes.items():
                if lane.until is not None and id not in self._snapshot.lanes:
                    self._ledger.drained[lane.number] = len(self._ledger.versions)
            self._note_change()

    @property
    def at_rest(self) -> bool:
        """Whether nothing is being drained any more."""
        return all(lane.until is None for lane in self._snapshot.lanes.values())

    def _waiting(self, lane: int) -> set[Place]:
        return {
            position
            for position, event in self._ledger.events.items()
            if not event.duplicate
            and lane in self._ledger.lanes_of(position)
            and (lane, position) not in self._watch.tries
            and not self._ledger.may_be_filtered(position, lane)
            and not self._ledger.disconnected(position, lane, self._ledger.name_of(lane))
        }

    @property
    def _snapshot(self) -> Snapshot:
        return self._machine.store.snapshot()

    def resume_all(self) -> None:
        """Nothing is paused."""
        for id, lane in self._snapshot.lanes.items():
            if lane.paused is not None:  # by a fault, or because every URL had answered 410
                self._paused[id] = lane.paused
                self.resume(id, 0.0)

    def heal(self) -> None:
        """Every receiver is well, nothing is paused, every secret is there."""
        self.resume_all()
        for id in sorted(self._without_secret):
            self.find_secret(id)
        for destination in dict.fromkeys(id for id, _ in self._receivers):
            self.behave(destination, WELL.name)

    def _change(self, edits: list[Edit]) -> None:
        self._machine.change(edits)
        for edit in edits:
            lane = self._snapshot.lanes.get(edit.id)
            if lane is not None:
                self._watch.pace.changed(lane.number)
        self._note_change()

    def _note_change(self) -> None:
        self._ledger.changed(self._machine.ends(), self._snapshot, self._clock.seconds)
        self._watch.changed()

    def _destination(self, id: str, rng: random.Random, enabled: bool = True) -> Destination:
        urls = rng.choice((1, 1, 1, 2, 3))
        behaviour = next((each.behaviour for (name, _), each in self._receivers.items() if name == id), WELL)
        for url in range(urls):
            if (id, url) not in self._receivers:
                self._receivers[id, url] = Receiver(random.Random(f"{self._seed}/receiver/{id}/{url}"), behaviour)
        if self._is_well(id):
            self._starvation.well_since.setdefault(id, self._clock.seconds)
        webhooks = tuple(Webhook(url=f"https://{id}.example.com/{url}") for url in range(urls))
        made = Destination(
            id=id,
            name=id,
            enabled=enabled,
            sources=tuple(sorted(rng.sample(SOURCES, rng.randint(1, len(SOURCES))))),
            settings=WebhookSettings(webhooks=webhooks, shared_secret=rng.choice((None, "s3cret"))),
            delivery=DeliveryOptions(
                fan_out=rng.choice(("any", "any", "fallback")),
                max_concurrency=rng.choice((None, None, None, 1, 3)),
                max_rate=rng.choice((None, None, None, 30.0)),
                order=random.Random(f"{self._seed}/order/{id}/{urls}").choice(("none", "none", "user")),
            ),
        )
        return self._featured(made, rng)

    def _featured(self, plain: Destination, rng: random.Random) -> Destination:
        """The destination with what this run has of features."""
        options, filters, settings = plain.delivery, plain.filters, plain.settings
        fixed = random.Random(f"{self._seed}/features/{plain.id}")
        if "all" in self._features and fixed.random() < 0.6:
            options = replace(options, fan_out="all")
        if "rates" in self._features and rng.random() < 0.6:
            options = replace(options, max_rate=rng.choice(LOW_RATES))
        if "filters" in self._features and rng.random() < 0.7:
            filters = tuple(rng.sample(FILTERS, rng.randint(1, 3)))
        if "secrets" in self._features and isinstance(settings, WebhookSettings):
            settings = replace(settings, shared_secret=f"file:secret-{plain.id}")
            if plain.id not in self._without_secret:
                self._secret(plain.id).write_text("s3cret")
        made = replace(plain, delivery=options, filters=filters, settings=settings)
        return mapped(made, self._seed, rng) if "mappings" in self._features else made


def _lasted_ms(pause: Pause, clock: SimulatedClock) -> int:
    return max(0, clock.steady_ms() - (pause.since if pause.steady_since is None else pause.steady_since))
