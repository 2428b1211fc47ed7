"""The model of the whole role, with filters that come, change and go while everything else happens."""

from __future__ import annotations

import os
import random
import re

import pytest
from msgspec.structs import replace

from hookline.connections.model import Filter
from hookline.outcomes.event_status import EventStatus
from hookline.route.filters import Filters
from hookline.settings import Deliver, Seconds
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.rig import Delete, Request, destination, source
from tests.unit.deliver.test_checkpoint_model import DESTINATIONS, SMALL, SOURCES, Place, World, live

SEEDS = int(os.environ.get("HOOKLINE_TEST_MODEL_SEEDS", "6"))
CHOICES: tuple[tuple[Filter, ...], ...] = (
    (),
    (Filter(condition='match(messageId, "*3") or match(messageId, "*7")', do="drop"),),
    (Filter(condition='contains(messageId, "1")', do="sample", percent=50),),
    (Filter(condition='source = "app"', do="drop"), Filter(condition="true", do="sample", percent=80)),
    (Filter(condition="true", do="dropProperties", properties=("properties.card",)),),
)


class FilteredWorld(World):
    """A world in which a change of a destination may bring it other filters."""

    def reconfigure(self) -> None:
        if self.rng.random() < 0.1 and any(each.id == "one" for each in self.rig.store.snapshot().destinations):
            self.change(Delete("destination", "one"))
            return
        sources = tuple(self.rng.sample(SOURCES, self.rng.randint(1, 2)))
        enabled, filters = self.rng.random() < 0.85, self.rng.choice(CHOICES)
        id, urls = self.rng.choice(DESTINATIONS), self.rng.choice((1, 1, 2))
        self.change(destination(id, sources=sources, urls=urls, enabled=enabled, filters=filters))

    def stopped(self, position: Place, id: str, version: int) -> bool:
        """Whether the filters of a version stop the event."""
        record = self.rig.role.journal.get(*position)
        assert record is not None
        snapshot = next(snapshot for _, snapshot in self.versions if snapshot.version == version)
        found = next(each for each in snapshot.destinations if each.id == id)
        return not Filters(found.filters).passes(record)

    def check_send(self, request: Request) -> None:
        """What is sent passed the filters of some version of its lane."""
        super().check_send(request)
        position = request.partition, request.offset
        versions = [
            snapshot.version
            for _, snapshot in self.versions
            if (lane := snapshot.lanes.get(request.destination)) is not None
            and (lane.number == request.lane or request.lane in self.replays)
        ]
        if all(self.stopped(position, request.destination, version) for version in versions):
            self.wrong.append(f"{self.events[position][1]} is sent although every version's filters stop it")

    def check_status(self, position: Place, found: EventStatus) -> None:
        """A filter that is named stops the event; whatever is neither filtered nor sent is known as before."""
        for each in found.destinations:
            if each.status == "filtered":
                named = re.search(r"\(version (\d+) of the connections\)$", each.rule or "")
                assert named, each
                assert self.stopped(position, each.id, int(named[1])), (found.message_id, each)
        settled = tuple(
            replace(each, status="failed") if each.status == "filtered" else each for each in found.destinations
        )
        super().check_status(position, replace(found, destinations=settled))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_event_is_sent_or_filtered_and_why_knows(seed: int, make_rig: MakeRig) -> None:
    """Through kills, detaching and changes of filters no event is lost, sent twice, or explained wrongly."""
    rig = make_rig(1 + seed % 2, deliver=Deliver(retry_max=Seconds(20.0)))
    rig.limit(**SMALL)
    world = FilteredWorld(rig, random.Random(seed))
    world.change(*(source(id) for id in SOURCES), destination("one", sources=SOURCES, filters=CHOICES[1]))
    live(world)
