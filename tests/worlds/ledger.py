"""What the world knows beside the system: which events are in the journal, and to which lanes each belongs.

Routing is asked from the explained form (``route/decision.py``) on the connections of each version, not from the
engine; so are filters. A version binds the role from a moment after it was made, and what a lane took before is sent
as it was decided then: an event may meet every version that was in force since it was stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hookline.connections.model import Destination, Filter, LaneConfig, Offsets, Snapshot
from hookline.journal.record import Record
from hookline.route.decision import not_routed_reason
from hookline.route.filters import Filters
from tests.worlds.asked_replay import AskedReplay
from tests.worlds.mappings import requests_of

Place = tuple[int, int]
"""(partition, offset)"""
LanePlace = tuple[int, Place]
"""An event in a lane: (lane number, place)."""
KNOWN_AFTER_SECONDS = 1.0
"""A change of connections is known to the role after this, if it lives."""


class Stored(NamedTuple):
    """One record of the journal; ``duplicate`` when an earlier place holds the same messageId."""

    record: Record
    duplicate: bool
    acknowledged: bool
    at: float


class Version(NamedTuple):
    """Connections, and the journal's ends from which on they are in force."""

    ends: Offsets
    snapshot: Snapshot
    at: float

    def of(self, destination: str | None) -> tuple[Destination, LaneConfig] | None:
        """A destination with its lane, if it has one."""
        lane = self.snapshot.lanes.get(destination or "")
        found = (each for each in self.snapshot.destinations if each.id == destination)
        return None if lane is None else next(((each, lane) for each in found), None)


class Ledger:
    """Events, versions and replays, in the order in which they came about."""

    def __init__(self) -> None:
        self.events: dict[Place, Stored] = {}
        self.positions: dict[str, Place] = {}
        """By messageId: where the event counts, the first place within its partition."""
        self.versions: list[Version] = []
        self.replays: dict[int, AskedReplay] = {}
        """By lane."""
        self.drained: dict[int, int] = {}
        """By lane: from which version on it is gone because the role said that nothing was left to drain."""
        self.erasing: set[Place] = set()
        """Events that somebody asked to be erased."""
        self.erased: dict[Place, float] = {}
        """Of these: when deliver had answered that it has nothing of them."""
        self.unusable: dict[str, float] = {}
        """By destination: since when its settings cannot be used, where the role has to know it."""
        self._names: dict[int, str] = {}
        self._sent_to: set[LanePlace] = set()
        self._compiled: dict[tuple[Filter, ...], Filters] = {}

    def stored(self, position: Place, record: Record, acknowledged: bool, at: float) -> None:
        """Note a record that is in the journal."""
        first = self.positions.get(record.message_id)
        duplicate = first is not None
        if first is None:
            self.positions[record.message_id] = position
        self.events[position] = Stored(record, duplicate, acknowledged, at)

    def changed(self, ends: Offsets, snapshot: Snapshot, at: float) -> None:
        """Note new connections."""
        self.versions.append(Version(dict(ends), snapshot, at))
        self._names.update({lane.number: id for id, lane in snapshot.lanes.items()})

    def asked(self, replay: AskedReplay) -> None:
        """Note a replay."""
        self.replays[replay.lane] = replay
        self._names[replay.lane] = replay.destination

    def name_of(self, lane: int) -> str:
        """The destination of a lane."""
        return self._names[lane]

    def replays_to(self, destination: str) -> list[AskedReplay]:
        """The replays to a destination."""
        return [replay for replay in self.replays.values() if replay.destination == destination]

    # what belongs where

    def lanes_of(self, position: Place) -> dict[int, str]:
        """The lanes the event belongs to by the connections when it was stored: number to destination."""
        partition, offset = position
        in_force = [version for version in self.versions if version.ends.get(partition, 0) <= offset]
        return dict(self._belongs(position, in_force[-1].snapshot)) if in_force else {}

    def may_be_sent(self, position: Place, lane: int) -> bool:
        """Whether a version that the event may have met routes it to the lane, and no filter of it stops the event."""
        key = lane, position
        if key not in self._sent_to:
            replay = self.replays.get(lane)
            verdicts = self._verdicts(position, lane) if replay is None else self._replay_verdicts(position, replay)
            if not any(verdicts):
                return False
            self._sent_to.add(key)
        return True

    def may_be_filtered(self, position: Place, lane: int) -> bool:
        """Whether filters that the event may have met stop it."""
        return not all(self._verdicts(position, lane))

    def may_come_late(self, position: Place, lane: int) -> bool:
        """Whether the role may have passed the event before it heard that its source is connected: it reads it beside
        the others then, in no order with them."""
        record, name = self.events[position].record, self._names[lane]
        met = [version.of(name) for version in self.since(self.events[position].at)]
        return any(found is None or not_routed_reason(record, *found, *position) is not None for found in met)

    def must_be_replayed(self, position: Place, lane: int) -> bool:
        """Whether the replay has to send the event, whatever versions it met."""
        is_gone = self.events[position].duplicate or position in self.erasing
        return not is_gone and all(self._replay_verdicts(position, self.replays[lane]))

    def urls_of_all(self, position: Place, lane: int) -> int | None:
        """How many URLs must accept the event, with fan-out ``all`` or a mapping; 0 when one is enough; None when that
        changed, or the kind did."""
        found = self._needed(position, lane)
        return found.pop()[1] if len(found) == 1 else None

    def urls_meanwhile(self, position: Place, lane: int) -> set[int]:
        """Each number of URLs that had to accept the event, since it was there."""
        return {count for _, count in self._needed(position, lane)}

    def _needed(self, position: Place, lane: int) -> set[tuple[str, int]]:
        """Each kind that the destination had since the event was there, with how many of its URLs must accept it."""
        replay = self.replays.get(lane)
        event = self.events[position]
        since = event.at if replay is None else replay.at
        return {
            (
                each.kind,
                len(each.settings.webhooks) if each.delivery.fan_out == "all" else requests_of(each, event.record),
            )
            for version in self.since(since)
            for each, its in [version.of(self._names[lane]) or (None, None)]
            if each is not None and its is not None and (replay is not None or its.number == lane)
        }

    def asks_all_again(self, lane: int) -> bool:
        """Return whether conditions choose among the requests of its mapping now: then one that was given up and comes
        back is sent by all of them, whichever were accepted."""
        found = self.versions[-1].of(self._names[lane])
        return found is not None and any(each.condition is not None for each in found[0].mapping or ())

    def keeps_card(self, position: Place, lane: int, now: float) -> set[bool]:
        """Whether the body may be sent with what a filter takes out, and without: by the filters of this moment."""
        record = self.events[position].record
        return {
            not (each.filters and self.filters(each).edited_by(record))
            for version in self.since(now)
            for each, _ in [version.of(self._names[lane]) or (None, None)]
            if each is not None
        }

    def since(self, seconds: float) -> Iterator[Version]:
        """The versions that the role may have followed since a moment, newest first."""
        for version in reversed(self.versions):
            yield version
            if version.at < seconds - KNOWN_AFTER_SECONDS:
                return

    def filters(self, destination: Destination) -> Filters:
        """The filters of a destination, compiled."""
        if destination.filters not in self._compiled:
            self._compiled[destination.filters] = Filters(destination.filters)
        return self._compiled[destination.filters]

    def _verdicts(self, position: Place, lane: int) -> Iterator[bool]:
        """For each version that routes the event to the lane, whether its filters let it pass."""
        event = self.events[position]
        for version in self.since(event.at):
            found = version.of(self._names.get(lane))
            if (
                found is None
                or found[1].number != lane
                or not_routed_reason(event.record, *found, *position) is not None
            ):
                continue
            yield not found[0].filters or self.filters(found[0]).passes(event.record)

    def _replay_verdicts(self, position: Place, replay: AskedReplay) -> Iterator[bool]:
        """For each version since the replay was asked for, whether it is to send the event."""
        covered = replay.covers(position)
        for version in self.since(replay.at):
            found = version.of(replay.destination)
            if found is not None:
                yield covered and replay.sends(self.events[position].record, found[0])

    def _belongs(self, position: Place, snapshot: Snapshot) -> list[tuple[int, str]]:
        record = self.events[position].record
        found: list[tuple[Destination, LaneConfig]] = [
            (each, snapshot.lanes[each.id]) for each in snapshot.destinations if each.id in snapshot.lanes
        ]
        return [
            (lane.number, each.id) for each, lane in found if not_routed_reason(record, each, lane, *position) is None
        ]

    # what has become of lanes

    def disconnected(self, position: Place, lane: int, destination: str) -> bool:
        """Whether a later version took the event's source, or the whole lane, away; draining it does not."""
        partition, offset = position
        record = self.events[position].record
        versions = self.versions[: self.drained.get(lane)]
        later = [v.snapshot.lanes.get(destination) for v in versions if v.ends.get(partition, 0) >= offset]
        return any(
            each is None
            or each.number != lane
            or (record.to is None and each.sources.get(record.source, {}).get(partition, 1 << 60) > offset)
            for each in later
        )

    def gone_since(self, lane: int) -> float | None:
        """When the lane was ended, None while it exists."""
        replay = self.replays.get(lane)
        if replay is not None:
            return replay.cancelled_at if replay.cancelled_at is not None else self._absent_since(replay.destination)
        known = False
        for version in self.versions:
            numbers = {each.number for each in version.snapshot.lanes.values()}
            if lane in numbers:
                known = True
            elif known:
                return version.at
        return None

    def paused_since(self, lane: int) -> float | None:
        """Since when the lane is paused by all versions up to now, None when it is not."""
        replay, since = self.replays.get(lane), None
        for version in reversed(self.versions):
            found = version.of(self._names.get(lane))
            is_mine = found is not None and (replay is not None or found[1].number == lane)
            if found is None or not is_mine or found[1].paused is None:
                break
            since = version.at
        if replay is None or replay.paused_at is None:
            return since
        return replay.paused_at if since is None else min(since, replay.paused_at)

    def was_absent(self, replay: AskedReplay) -> bool:
        """Whether the destination of a replay was disabled or deleted at some time since it was asked for."""
        return any(version.of(replay.destination) is None for version in self.since(replay.at))

    def rate_of(self, destination: str, now: float) -> float | None:
        """The most events per second that a destination may get now by its settings, None for any number."""
        found = [each[0].delivery.max_rate for v in self.since(now) for each in [v.of(destination)] if each is not None]
        rates = [rate for rate in found if rate is not None]
        return max(rates) if rates and len(rates) == len(found) else None

    def may_gather(self, destination: str, now: float) -> bool:
        """Return whether its events may go in batches by any settings that the role may follow now."""
        found = [each[0].mapping or () for v in self.since(now) for each in [v.of(destination)] if each is not None]
        return any(request.batch is not None for mapping in found for request in mapping)

    def keeps_order(self, destination: str) -> bool:
        """Return whether each user's events go to it one after the other, by its settings now."""
        found = self.versions[-1].of(destination)
        return found is not None and found[0].delivery.order == "user"

    def set_aside_after(self, destination: str, since: float) -> int | None:
        """Return how often an event may fail before it no longer holds up its user's others; None where they did not
        keep an order by each version that the role may have followed since."""
        found = [each[0].delivery for v in self.since(since) for each in [v.of(destination)] if each is not None]
        keeps = bool(found) and all(each.order == "user" for each in found)
        return min(each.set_aside_after for each in found) if keeps else None

    def may_keep_order(self, destination: str, since: float) -> bool:
        """Return whether they do by any that the role may have followed since."""
        found = [each[0].delivery.order for v in self.since(since) for each in [v.of(destination)] if each is not None]
        return "user" in found

    def _absent_since(self, destination: str) -> float | None:
        since: float | None = None
        for version in reversed(self.versions):
            if version.of(destination) is not None:
                return since
            since = version.at
        return since
