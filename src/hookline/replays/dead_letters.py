"""Which dead letters are meant: the filter of lists, retries and discards, and its SQL over ``dead_letters``."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

DEAD_LETTERS_MAX = 100_000
"""Dead letter rows per destination; past that the oldest go, their status stays in the attempts."""

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
Ids = Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)], ...], msgspec.Meta(max_length=1_000)]
Causes = Annotated[tuple[int, ...], msgspec.Meta(max_length=100)]


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A choice of dead letters. A field that is not given does not restrict it. ``sinceMs`` and ``untilMs`` are when
    the delivery failed or expired; ``lastId`` keeps out dead letters that were written after somebody looked.
    ``cause`` is the number of a cause; ``otherCauses`` asks for all causes but these.
    """

    destination: Text | None = None
    source: Text | None = None
    type: Text | None = None
    event: Text | None = None
    outcome: Text | None = None
    status: Text | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    last_id: int | None = None
    ids: Ids | None = None
    http_status: int | None = None
    cause: int | None = None
    other_causes: Causes | None = None

    def where(self) -> tuple[str, list[Any]]:
        """Return the condition and its values; discarded letters count only where that status is asked for."""
        parts = ["1 = 1"]
        values: list[Any] = []
        for column in ("destination", "source", "type", "event", "outcome", "status", "http_status", "cause"):
            wanted = getattr(self, column)
            if wanted is not None:
                parts.append(f"{column} = ?")
                values.append(wanted)
        for condition, wanted in (("at >= ?", self.since_ms), ("at < ?", self.until_ms), ("id <= ?", self.last_id)):
            if wanted is not None:
                parts.append(condition)
                values.append(wanted)
        if self.ids is not None:
            parts.append(f"id IN ({','.join('?' * len(self.ids))})")
            values += self.ids
        if self.other_causes:
            parts.append(f"cause NOT IN ({','.join('?' * len(self.other_causes))})")
            values += self.other_causes
        if self.status is None:
            parts.append("status <> 'discarded'")
        return " AND ".join(parts), values


class RetryPlace(msgspec.Struct, frozen=True):
    """An event of a lane that waits for another try."""

    lane: int
    partition: int
    offset: int


class StoredAction(DeadLetterFilter, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An action as it is kept: with ``retry_now`` it is about that event, with ``try_lane`` about all that waits in
    that lane, and not about dead letters."""

    retry_now: RetryPlace | None = None
    try_lane: int | None = None


class DeadLetterAction(msgspec.Struct, frozen=True):
    """Dead letters to be discarded, or with ``retry`` an event, with ``try_lane`` all events of a lane, to be tried
    again at once, as control asked for it; deliver carries them out in the order of ``id``."""

    id: int
    dead_letters: DeadLetterFilter
    retry: RetryPlace | None = None
    try_lane: int | None = None

    @property
    def tried_lane(self) -> int | None:
        """Return the lane in which something is to be tried at once."""
        return self.try_lane if self.retry is None else self.retry.lane
