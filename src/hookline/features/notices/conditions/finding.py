"""What a look at the system found, what it is given to look at, and what every condition promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from hookline.connections.model import Destination, Pause, Source
from hookline.connections.notifications import Notification
from hookline.connections.state import Stored
from hookline.features.fleet.metrics import RoleReport

BREAKER_OPEN = "hookline_deliver_breaker_open"
NEXT_PROBE = "hookline_deliver_next_probe_timestamp_seconds"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is so now. ``count`` is how many there are in all; a ``weak`` finding keeps a notice open and
    does not open one, so that what goes up and down around a threshold is told once. ``since_ms`` is when it began,
    where that is known better than by the first look."""

    kind: str
    subject: str
    detail: str
    count: int = 1
    weak: bool = False
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OpenNotice:
    """A notice that is open, as far as conditions need it."""

    id: int
    message: str
    count: int
    opened_at_ms: int
    last_seen_at_ms: int
    since_ms: int | None = None


class Moment:
    """The system at one moment, gathered once for all conditions."""

    def __init__(
        self,
        now_ms: int,
        reports: Mapping[str, RoleReport],
        destinations: Sequence[Stored[Destination]] = (),
        sources: Sequence[Stored[Source]] = (),
        notices: Mapping[tuple[str, str], OpenNotice] | None = None,
        open_elsewhere: frozenset[str] | None = None,
        rules: Sequence[Notification] = (),
    ) -> None:
        """``open_elsewhere`` are the destinations whose breaker is open at a deliver process that does not report
        here, None where no such process says so; ``rules`` the notification rules that are enabled, whose thresholds
        may be lower than the settings'."""
        self.rules = rules
        self.now_ms = now_ms
        self.reports = reports
        self.sources = sources
        self.notices = notices or {}
        self._destinations = destinations
        self._open_elsewhere = open_elsewhere

    def has_lasted(self, since_ms: int, ms: float) -> bool:
        """Return whether something has lasted for so long, or the clock was set back by so much since."""
        return abs(self.now_ms - since_ms) >= ms

    def open_notice(self, kind: str, subject: str) -> OpenNotice | None:
        """Return the open notice of a kind about a subject: what goes on keeps it open, whatever the clock says."""
        return self.notices.get((kind, subject))

    @cached_property
    def lanes(self) -> dict[int, str]:
        """Return the enabled destinations by the number of their lane."""
        return {stored.lane.number: stored.object.id for stored in self._destinations if stored.lane is not None}

    @cached_property
    def destinations(self) -> dict[str, Stored[Destination]]:
        """Return the enabled destinations by id."""
        return {stored.object.id: stored for stored in self._destinations if stored.lane is not None}

    def waits_for(self, trigger: str) -> list[Notification]:
        """Return the rules that wait for a trigger."""
        return [rule for rule in self.rules if trigger in rule.when]

    @cached_property
    def enabled(self) -> frozenset[str]:
        """Return the ids of the enabled destinations."""
        return frozenset(self.lanes.values())

    @cached_property
    def pauses(self) -> dict[str, Pause]:
        """Return the paused destinations."""
        lanes = {stored.object.id: stored.lane for stored in self._destinations if stored.lane is not None}
        return {id: lane.paused for id, lane in lanes.items() if lane.paused is not None}

    @cached_property
    def certificate_pairs(self) -> dict[str, tuple[str, str]]:
        """Return what the enabled destinations that show a client certificate refer to."""
        enabled = [stored.object for stored in self._destinations if stored.lane is not None]
        return {each.id: pair for each in enabled if (pair := each.settings.certificate_pair) is not None}

    def is_well(self, destination: str) -> bool:
        """Return whether it is enabled, not paused, and its breaker is closed."""
        held = destination in self.pauses or destination in (self.open_breakers or ())
        return destination in self.enabled and not held

    @cached_property
    def open_breakers(self) -> frozenset[str] | None:
        """Return the enabled destinations whose breaker is open; None while no deliver process says so, here or on
        another machine: control may be on one without any."""
        deliver, found = self.reports.get("deliver"), self._open_elsewhere
        if deliver is not None and deliver.fresh:
            here = frozenset(id for id, value in deliver.by_label(BREAKER_OPEN).items() if value)
            found = here | (found or frozenset())
        return None if found is None else found & self.enabled


class Condition(Protocol):
    """Something to look at every few seconds. It must cost next to nothing while all is well."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of notice it opens and resolves, it alone."""

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Return what is so now: a notice of these kinds that is not found is resolved. None: it cannot be told now.

        May raise OSError, a SQLite error or JournalError, which count as None.
        """

    def close(self) -> None:
        """Let go of what is held; idempotent."""
