"""Replays in a run: somebody asks for them, pauses, resumes and cancels them; and what control does for them."""

from __future__ import annotations

import random
from typing import cast

import msgspec

from hookline.connections.model import Destination
from hookline.events.timestamps import iso
from hookline.features.destinations.service import DestinationPast
from hookline.features.replays.planning import Planner, Planning, past_of
from hookline.features.replays.service import ReplayProgress, ReplayWatch
from hookline.replays.model import Replay, ReplayRequest, State
from hookline.replays.offset_set import span_of
from hookline.replays.store import ReplayStore
from hookline.simulation.scheduler import SimulatedClock
from tests.worlds.asked_replay import AskedReplay
from tests.worlds.ledger import Ledger
from tests.worlds.machine import Machine
from tests.worlds.plan import SOURCES
from tests.worlds.watch import Watch

IDS = 6
"""messageIds asked for by name."""
MOMENT = "2026-11-20T00:00:00Z"
"""Before everything that happens in a run."""


class Replaying:
    """Asks for replays as control does, and tells those who check."""

    def __init__(self, seed: int, clock: SimulatedClock, machine: Machine, ledger: Ledger, watch: Watch) -> None:
        self._seed = seed
        self._clock = clock
        self._machine = machine
        self._ledger = ledger
        self._watch = watch
        self._store = ReplayStore(machine.settings.data_path / "control.db", clock.now_ms, clock.steady_ms)
        self._progress = ReplayProgress(machine.settings.data_path / "deliver.db", clock.monotonic)
        given = machine.settings, machine.store, self._store, cast(Planner, self), self._progress
        self._control = ReplayWatch(*given, clock.steady_ms)

    def ask(self, destination: str, what: str, rate: float, at: float) -> None:
        """Ask for a replay, if the destination is enabled."""
        stored = self._machine.store.destination(destination)
        if stored is None or not stored.object.enabled or not self._ledger.events:
            return
        request = self._request(destination, what, rate or None, random.Random(f"{self._seed}/replay/{at}"))
        reader = self._machine.reader
        starts, ends = span_of(reader, range(self._machine.settings.journal.partitions), request)
        state: State = "preparing" if request.by_positions else "running"
        made = self._store.create(request, self._machine.store.version, starts, ends, "simulation", state)
        self._ledger.asked(AskedReplay(made, self._clock.seconds))
        self._watch.changed()

    def pause(self, chosen: int) -> int | None:
        """Pause one of the replays that go on; return its lane."""
        return self._want(chosen, "paused")

    def resume(self, lane: int) -> None:
        """Let a replay go on."""
        asked, replay = self._ledger.replays[lane], self._store.get(lane)
        if replay is None or replay.paused_ms is None or asked.paused_at is None or replay.state != "paused":
            return
        self._store.want(lane, "running", replay.rate)
        asked.paused_at = None
        self._watch.resumed(lane, max(0, self._clock.steady_ms() - replay.paused_ms))
        self._watch.changed()

    def cancel(self, chosen: int) -> None:
        """Cancel one of the replays that go on."""
        self._want(chosen, "cancelled")

    def heal(self) -> None:
        """Nothing is paused."""
        for lane in self._ledger.replays:
            self.resume(lane)

    def look(self) -> None:
        """What control does once a second: find a replay's events, and note which have ended."""
        try:
            self._control.look()
        finally:
            self._progress.close()  # a power cut changes the file under whoever has it open

    @property
    def at_rest(self) -> bool:
        """Whether every replay has ended."""
        return not self._store.open_ones()

    def close(self) -> None:
        """Let go of files."""
        self._store.close()

    def _request(self, destination: str, what: str, rate: float | None, rng: random.Random) -> ReplayRequest:
        given: dict[str, object] = {"destination": destination, "rate": rate}
        match what:
            case "late":
                events = list(self._ledger.events.values())
                given["from"] = iso(events[len(events) // 2].record.received_at)
            case "source":
                given["source"] = rng.choice(SOURCES)
            case "user":
                given["userId"] = f"u{rng.randrange(9)}"
            case "ids":
                ids = sorted({event.record.message_id for event in self._ledger.events.values()})
                given["messageIds"] = rng.sample(ids, min(IDS, len(ids)))
            case "letters":
                given["deadLetteredSince"] = MOMENT
            case "unfiltered":
                given["ignoreFilters"] = True
        return msgspec.convert(given, ReplayRequest)

    def _want(self, chosen: int, state: State) -> int | None:
        going_on = [replay for replay in self._store.open_ones() if replay.state == "running"]
        if not going_on:
            return None
        replay = going_on[chosen % len(going_on)]
        asked = self._ledger.replays[replay.lane]
        self._store.want(replay.lane, state, replay.rate)
        if state == "paused":
            asked.paused_at = self._clock.seconds
        else:
            asked.cancelled_at = self._clock.seconds
        self._watch.changed()
        return replay.lane

    def plan(self, replay: Replay, destination: Destination) -> None:
        """Find a replay's events at once, where control has a thread for it (``control.replay_planner``)."""
        data = self._machine.settings.data_path
        past = DestinationPast(data / "control.db")
        parts = replay.request, destination, replay.starts, replay.ends, past_of(past, destination.id)
        past.close()
        planning = Planning(data, data / "deliver.db", *parts)
        for _ in planning.steps():
            pass
        if planning.positions is None:
            self._store.plan(replay.lane, planning.count)
            return
        self._store.prepare(replay.lane, planning.positions)
        asked = self._ledger.replays[replay.lane]
        asked.positions, asked.is_prepared = planning.positions, True
        self._watch.changed()
