"""The store and a feed against a model: any sequence of changes, looked at after any of them."""

from __future__ import annotations

from contextlib import ExitStack

import hypothesis.strategies as st
import msgspec
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from hookline.connections.definitions.model import Audience, Condition
from hookline.connections.edits import Delete, Put
from hookline.connections.history import KINDS
from hookline.connections.model import Destination, LaneConfig, Snapshot
from hookline.connections.state import Feed
from hookline.connections.store import Store
from tests.postgres import PostgresServer
from tests.unit.conftest import new_places
from tests.unit.connections.examples import change, destination, source

IDS = st.sampled_from(["one", "two", "three"])
SOURCES = st.lists(st.sampled_from(["a", "b"]), unique=True).map(tuple)


class Connections(RuleBasedStateMachine):
    """Destinations and audiences come, change and go; the model keeps lanes by the lifecycle of lanes."""

    def __init__(self, backend: PostgresServer | None) -> None:
        super().__init__()
        self.backend = backend
        self.stack = ExitStack()

    @initialize()
    def open(self) -> None:
        place = self.stack.enter_context(new_places(self.backend))("control")
        self.store, self.feed = Store(place), Feed(place, kinds=KINDS)
        self.end, self.number = 0, 0
        self.objects: dict[str, Destination] = {}
        self.lanes: dict[str, LaneConfig] = {}
        self.audiences: dict[str, Audience] = {}
        self.made: dict[str, int] = {}
        change(self.store, source("a"), source("b"))
        self.past: dict[int, Snapshot] = {}
        self.followed = self.feed.load()

    @rule(id=IDS, sources=SOURCES, enabled=st.booleans(), name=st.sampled_from(["x", "y"]))
    def put(self, id: str, sources: tuple[str, ...], enabled: bool, name: str) -> None:
        self.end += 1
        wanted = destination(id, sources=sources, enabled=enabled, name=name)
        change(self.store, wanted, at=self.end)
        self.objects[id] = wanted
        before = self.lanes.pop(id, None)
        if enabled:
            self.number += before is None
            lane = before or LaneConfig(number=self.number, sources={}, since={0: self.end})
            begins = {each: lane.sources.get(each, {0: self.end}) for each in sources}
            self.lanes[id] = msgspec.structs.replace(lane, sources=begins)

    @rule(id=IDS)
    def delete(self, id: str) -> None:
        if self.objects.pop(id, None) is not None:
            change(self.store, Delete("destination", id))
            self.lanes.pop(id, None)

    @rule(id=IDS, event=st.sampled_from(["x", "y"]))
    def put_audience(self, id: str, event: str) -> None:
        self.audiences[id] = Audience(id=id, name=id, condition=Condition(event=event))
        change(self.store, Put(self.audiences[id]))
        self.made.setdefault(id, self.store.version)

    @rule(id=IDS)
    def delete_audience(self, id: str) -> None:
        if self.audiences.pop(id, None) is not None:
            change(self.store, Delete("audience", id))
            del self.made[id]

    @rule()
    def look(self) -> None:
        self.followed = self.feed.poll() or self.followed
        assert self.followed == self.store.snapshot()

    @invariant()
    def the_store_is_as_the_model(self) -> None:
        snapshot = self.store.snapshot()
        assert {found.id: found for found in snapshot.destinations} == self.objects
        assert {found.id: found for found in snapshot.audiences} == self.audiences
        assert snapshot.lanes == self.lanes
        made = self.feed.made()
        assert {id: made["audience", id] for id in self.audiences} == self.made
        assert self.past.setdefault(snapshot.version, snapshot) == snapshot

    def teardown(self) -> None:
        for version, snapshot in self.past.items():
            assert self.feed.at(version) == self.store.snapshot(version) == snapshot
        self.feed.close()
        self.store.close()
        self.stack.close()


def test_store_feed_and_history_agree_with_the_model(backend: PostgresServer | None) -> None:
    """They agree now and about every past version."""
    run_state_machine_as_test(
        lambda: Connections(backend),  # type: ignore[arg-type]  # a factory will do
        settings=settings(max_examples=40 if backend is None else 12, stateful_step_count=20, deadline=None),
    )
