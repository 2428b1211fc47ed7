"""The connections of a run: sources, destinations that change, pause and go, and the receivers behind them."""

from __future__ import annotations

import random

from hookline.connections.edits import Delete, Edit, Put
from hookline.connections.model import DeliveryOptions, Destination, Pause, Source, Webhook, WebhookSettings
from hookline.simulation.clock import SimulatedClock
from hookline.simulation.ledger import Ledger
from hookline.simulation.machine import Machine
from hookline.simulation.plan import SOURCES
from hookline.simulation.receiver import BEHAVIOURS, WELL, Receiver
from hookline.simulation.starvation import Starvation
from hookline.simulation.watch import Watch

HARMLESS = frozenset({"well", "slow"})
"""Behaviours with which a receiver takes everything in time."""
DELETED = 0.15
"""How often a change deletes the destination."""
ENABLED = 0.75
RATE_PER_PAUSED_SECOND = 10.0
"""Events per second of a catch-up, for each second that the pause had lasted."""
_BY_NAME = {behaviour.name: behaviour for behaviour in BEHAVIOURS}


class Connected:
    """Changes the connections as control does, and tells those who check."""

    def __init__(
        self, seed: int, clock: SimulatedClock, machine: Machine, ledger: Ledger, watch: Watch, starvation: Starvation
    ) -> None:
        self._seed = seed
        self._clock = clock
        self._machine = machine
        self._ledger = ledger
        self._watch = watch
        self._starvation = starvation
        self._receivers: dict[tuple[str, int], Receiver] = {}
        self._names: dict[int, str] = {}
        self._paused: dict[str, Pause] = {}

    def begin(self, destinations: int) -> None:
        """Connect the first sources and destinations."""
        self._change([Put(Source(id=id, name=id, write_keys=(f"wk_{id}",))) for id in SOURCES])
        rng = random.Random(f"{self._seed}/connections")
        self._change([Put(self._destination(f"d{number}", rng)) for number in range(destinations)])

    def receiver_of(self, lane: int, url: int) -> Receiver:
        """The receiver of a lane's URL."""
        return self._receivers[self._names[lane], url]

    def behave(self, destination: str, what: str) -> None:
        """Let every receiver of a destination behave like this from now on."""
        for (id, _), receiver in self._receivers.items():
            if id == destination:
                receiver.behaviour = _BY_NAME[what]
        if what in HARMLESS:
            self._starvation.well_since.setdefault(destination, self._clock.seconds)
        else:
            self._starvation.well_since.pop(destination, None)

    def change(self, id: str, at: float) -> None:
        """Give a destination other settings, switch it on or off, or delete it."""
        rng = random.Random(f"{self._seed}/{at}")
        exists = any(each.id == id for each in self._machine.store.snapshot().destinations)
        if exists and rng.random() < DELETED:
            self._change([Delete("destination", id)])
        else:
            self._change([Put(self._destination(id, rng, enabled=rng.random() < ENABLED))])

    def pause(self, id: str) -> None:
        """Pause a destination that is enabled and not paused."""
        lane = self._machine.store.snapshot().lanes.get(id)
        if lane is not None and lane.paused is None:
            self._paused[id] = Pause(since=self._clock.now_ms())
            self._machine.store.pause(id, self._paused[id], "simulation", self._machine.ends)
            self._note_change()

    def resume(self, id: str, seconds: float) -> None:
        """Resume what was paused here, sometimes at a chosen rate."""
        pause, lane = self._paused.pop(id, None), self._machine.store.snapshot().lanes.get(id)
        if pause is None or lane is None or lane.paused != pause:
            return
        rate = seconds * RATE_PER_PAUSED_SECOND if int(seconds * 10) % 2 else None
        self._machine.store.resume(id, rate, "simulation", self._machine.ends)
        self._watch.resumed(lane.number, max(0, self._clock.now_ms() - pause.since))
        self._note_change()

    def heal(self) -> None:
        """Every receiver is well, nothing is paused."""
        for destination in list(self._paused):
            self.resume(destination, 0.0)
        for destination in dict.fromkeys(id for id, _ in self._receivers):
            self.behave(destination, WELL.name)

    def _change(self, edits: list[Edit]) -> None:
        self._machine.change(edits)
        self._note_change()

    def _note_change(self) -> None:
        snapshot = self._machine.store.snapshot()
        self._names.update({lane.number: id for id, lane in snapshot.lanes.items()})
        self._ledger.changed(self._machine.ends(), snapshot, self._clock.seconds)
        self._watch.changed()

    def _destination(self, id: str, rng: random.Random, enabled: bool = True) -> Destination:
        urls = rng.choice((1, 1, 1, 2, 3))
        behaviour = next((each.behaviour for (name, _), each in self._receivers.items() if name == id), WELL)
        for url in range(urls):
            if (id, url) not in self._receivers:
                self._receivers[id, url] = Receiver(random.Random(f"{self._seed}/receiver/{id}/{url}"), behaviour)
        if behaviour.name in HARMLESS:
            self._starvation.well_since.setdefault(id, self._clock.seconds)
        webhooks = tuple(Webhook(url=f"https://{id}.example.com/{url}") for url in range(urls))
        return Destination(
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
