"""What one of many deliver processes may touch: the partitions it owns, each by its epoch, and until when it may send.

Where there is only one process there is no fence, and nothing here is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from hookline.database.connection import Connection

LEASE_SHARE = 0.5
"""Of the session timeout: a lease ends well before the group may give the partitions to somebody else."""


class Fenced(Exception):
    """Others own these partitions by now: nothing of the transaction was written."""

    def __init__(self, partitions: frozenset[int]) -> None:
        super().__init__(f"partitions {sorted(partitions)} have other owners")
        self.partitions = partitions


class Fence:
    """The partitions of this worker, used on its event loop; ``confirm`` may be called on any thread."""

    def __init__(self, session_seconds: float) -> None:
        self.epochs: dict[int, int] = {}
        """By partition that is owned: the number raised when it was taken."""
        self.leaving: set[int] = set()
        """Owned partitions that are being given up: of their rows nothing is begun any more."""
        self.on_last_left: Callable[[], None] = lambda: None
        """Called when the last partition was left: others may own them all by now, and hold what was ours."""
        self._lease_seconds = session_seconds * LEASE_SHARE
        self._confirmed = -self._lease_seconds

    @property
    def taken(self) -> str:
        """Return the partitions whose rows are this worker's to act on, as SQL writes a list."""
        return listed(self.epochs.keys() - self.leaving)

    @property
    def is_shut(self) -> bool:
        """Return whether nothing new may be sent: that this worker is a member in good standing was not heard for too
        long."""
        return now_seconds() >= self._confirmed + self._lease_seconds

    def leave(self, partition: int) -> None:
        """Own a partition no more."""
        self.epochs.pop(partition)
        self.leaving.discard(partition)
        if not self.epochs:
            self.on_last_left()

    def confirm(self, asked_seconds: float) -> None:
        """The group has taken a commit of this worker that was asked for at this time (``now_seconds``)."""
        self._confirmed = max(self._confirmed, asked_seconds)

    def is_confirmed_since(self, seconds: float) -> bool:
        """Return whether a commit that was asked for later has been taken."""
        return self._confirmed > seconds

    def shut(self) -> None:
        """Send nothing until the group has confirmed anew."""
        self._confirmed = -self._lease_seconds


def check(connection: Connection, epochs: Mapping[int, int]) -> None:
    """Within a transaction that writes: raise Fenced when one of these partitions has had a later owner."""
    kept = dict(connection.execute("SELECT partition, epoch FROM owned").fetchall())
    lost = frozenset(partition for partition, epoch in epochs.items() if kept.get(partition) != epoch)
    if lost:
        raise Fenced(lost)


def raise_epoch(connection: Connection, partition: int, worker: str, now_ms: int) -> int:
    """Become the owner of a partition; whoever was it before writes nothing of it from now on."""
    row = connection.execute(
        "INSERT INTO owned (partition, epoch, worker, since) VALUES (?, 1, ?, ?) ON CONFLICT (partition)"
        " DO UPDATE SET epoch = owned.epoch + 1, worker = excluded.worker, since = excluded.since RETURNING epoch",
        (partition, worker, now_ms),
    ).fetchone()
    return int(row[0])


def listed(partitions: Iterable[int]) -> str:
    """Some partitions as SQL writes a list."""
    return f"({', '.join(str(number) for number in sorted(partitions))})"


def now_seconds() -> float:
    """Return a clock that goes on while the process, or the machine, stands still."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
