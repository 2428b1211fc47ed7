"""Retry rows where reading them must be waited for: the event loop asks, the next checkpoint's thread reads.

What that thread reads right after its commit is what the database holds until the next one, for rows of partitions
that are owned change with checkpoints only. So until the next checkpoint is saved an answer is as good as a read of the
moment: with ``pending_rows``, which has what changed since, nothing is tried twice or forgotten.
"""

from __future__ import annotations

from itertools import islice

from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.store.batch import Answers, Batch, Look, RetryRow
from hookline.deliver.store.retry_rows import OVERDUE_MAX, ProbeRows, RowsComing, values_of_position

AHEAD = 2
"""Rows that are due are asked for in so many times the number that may be tried now: a checkpoint lasts for turns."""


class LateRows:
    """Satisfies ``Rows``; used on the event loop."""

    def __init__(self, engine: Dispatcher) -> None:
        self._engine = engine
        self._looks_max = engine.limits.late_looks_max
        self._wanted: dict[Look, tuple[int, ...]] = {}
        """What was asked and not read yet, in the order of asking."""
        self._found: Answers = {}
        self._epochs: dict[int, int] = {}

    @property
    def wanted(self) -> bool:
        """Return whether a checkpoint has something to read."""
        return bool(self._wanted)

    def ask(self, batch: Batch) -> None:
        """Have a checkpoint read what has waited longest."""
        for look in list(islice(self._wanted, self._looks_max)):
            batch.looks[look] = self._wanted.pop(look)

    def take(self, batch: Batch) -> None:
        """A checkpoint is saved: what it read is what counts now."""
        self._found, self._epochs = batch.found, batch.epochs

    def first_due(self, lane: int, limit: int) -> list[RetryRow]:
        """As ``Rows`` says."""
        return self._answer(Look("first_due", lane), limit * AHEAD)

    def for_probe(self, lane: int, limit: int, now_ms: int, overdue_before_ms: int | None) -> ProbeRows:
        """As ``Rows`` says."""
        oldest, overdue = Look("probe", lane), Look("overdue", lane)
        if overdue_before_ms is not None and self._there(overdue) is None:
            # Both together, for an answer does not outlive the next checkpoint.
            self._wanted[oldest] = (now_ms, limit)
            self._answer(overdue, overdue_before_ms, OVERDUE_MAX)
        return ProbeRows(self._answer(oldest, now_ms, limit), self._there(overdue) or [])

    def row(self, lane: int, position: int) -> RetryRow | None:
        """As ``Rows`` says."""
        found = self._answer(Look("row", lane, position), *values_of_position(position))
        return found[0] if found else None

    def _answer(self, look: Look, *values: int) -> list[RetryRow]:
        found = self._there(look)
        if found is None:
            self._wanted[look] = values
            raise RowsComing
        return found

    def _there(self, look: Look) -> list[RetryRow] | None:
        fence = self._engine.fence
        if fence is not None and fence.epochs != self._epochs:
            return None  # partitions came or went since: what is due first may be another row
        found = self._found.get(look)
        if found is None or fence is None or not fence.leaving:
            return found
        return [row for row in found if row.partition not in fence.leaving]
