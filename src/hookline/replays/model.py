"""What a replay is: the request people make, and the lane with an end that comes of it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from hookline.connections.model import Offsets
from hookline.connections.names import Id
from hookline.replays.dead_letters import DeadLetterFilter

MESSAGE_IDS_MAX = 1_000
Rate = Annotated[float, msgspec.Meta(ge=0.01, le=100_000)]
"""Events per second, as people may ask for them: not less than for a destination, as a replay would never end."""
OPEN_MAX = 256
"""Replays that have not ended, at one time."""
KEPT_MAX = 1_000
"""Replays that are remembered; the oldest ended ones go first."""

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
State = Literal["preparing", "running", "paused", "cancelled"]
"""What is wanted of a replay; what has become of it is deliver's to say."""


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The events to send again, and where to. A field that is not given does not restrict them; ``from`` and ``to`` are
    times of acceptance, ``[from, to)``. ``deadLetters`` is set by a retry of dead letters, never by the caller of the
    API."""

    destination: Id
    since: Moment | None = msgspec.field(default=None, name="from")
    until: Moment | None = msgspec.field(default=None, name="to")
    source: Id | None = None
    type: Literal["identify", "track", "page", "screen", "group", "alias", "delete"] | None = None
    event: Text | None = None
    user_id: Text | None = msgspec.field(default=None, name="userId")
    message_ids: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1, max_length=MESSAGE_IDS_MAX)] | None = (
        msgspec.field(default=None, name="messageIds")
    )
    dead_lettered_since: Moment | None = msgspec.field(default=None, name="deadLetteredSince")
    rate: float | None = None
    ignore_filters: bool = msgspec.field(default=False, name="ignoreFilters")
    dry_run: bool = msgspec.field(default=False, name="dryRun")
    dead_letters: DeadLetterFilter | None = msgspec.field(default=None, name="deadLetters")

    @property
    def by_positions(self) -> bool:
        """Return whether it is of few events rather than of a whole stretch: they are looked for before it begins."""
        few = (self.message_ids, self.dead_lettered_since, self.dead_letters, self.event, self.user_id)
        return any(each is not None for each in few)

    @property
    def since_ms(self) -> int | None:
        """``from`` in milliseconds since the epoch."""
        return None if self.since is None else _ms(self.since)

    @property
    def until_ms(self) -> int | None:
        """``to`` in milliseconds since the epoch."""
        return None if self.until is None else _ms(self.until)

    def dead_letter_filter(self) -> DeadLetterFilter | None:
        """Return the dead letters it asks for; None when it does not ask for dead letters."""
        if self.dead_letters is not None:
            return self.dead_letters
        if self.dead_lettered_since is None:
            return None
        return DeadLetterFilter(destination=self.destination, since_ms=_ms(self.dead_lettered_since))


class ReplayInput(ReplayRequest, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A replay to begin. A field that is not given does not restrict it. ``rate``: events per second, 0.01 or more."""

    # Only here, as a data folder may hold replays with less, of a version that took any rate.
    rate: Rate | None = None


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A replay as control keeps it. Its lane reads ``[starts, ends)`` of each partition; ``total`` is how many events
    that comes to, None until they are counted; ``version`` is that of the connections when it was made."""

    lane: int
    at_ms: int
    version: int
    request: ReplayRequest
    starts: Offsets
    ends: Offsets
    state: State
    rate: float | None = None
    total: int | None = None
    paused_ms: int | None = None
    """Since when it is paused, by the service's own clock."""
    ended_ms: int | None = None

    @property
    def id(self) -> str:
        """Return the name people know it by; lane numbers are never used twice."""
        return replay_id(self.lane)

    @property
    def is_prepared(self) -> bool:
        """Return whether it may begin: single events have to be looked for first."""
        return self.total is not None or not self.request.by_positions

    def covers(self, partition: int, offset: int) -> bool:
        """Return whether the position lies in what its lane reads."""
        return self.starts.get(partition, 0) <= offset < self.ends.get(partition, 0)


def replay_id(lane: int) -> str:
    """Return the id of the replay with this lane."""
    return f"r{lane}"


def lane_of(id: str) -> int | None:
    """Return the lane of the replay with this id; None for what no replay is called."""
    number = id[1:]
    return int(number) if id[:1] == "r" and number.isascii() and number.isdecimal() and len(number) < 16 else None


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
