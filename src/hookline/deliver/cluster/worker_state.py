"""What a deliver process tells of itself in its row of ``workers``: for whoever shows it, and for the other processes.

By these rows the processes agree on a receiver's limits (``shares``) and learn of its outages (``agreement``).
"""

from __future__ import annotations

from typing import Literal

import msgspec

BREAKERS_MAX = 1_000
"""Destinations named; of more than that one need not know which."""


class Share(msgspec.Struct, frozen=True, array_like=True):
    """What a process holds of a lane's limits, and what it could use.

    ``at_once`` and ``part`` (of the rate, 1.0 is all) nobody else may have. ``most`` is the lane's own limit of
    requests at once, 0 for none. ``turn_seconds`` is for how long it has waited for a first request at once; below
    zero, for how long it has had some.
    """

    most: int
    at_once: int
    wants: int
    turn_seconds: float
    part: float
    needs: float


class BreakerFound(msgspec.Struct, frozen=True, array_like=True):
    """What a process found out about a receiver: that it is down, back, or about to fail (``narrow``).

    ``outage`` numbers what was found, so that all know which end belongs to which begin. ``probes`` is how often this
    process has asked since, ``can_probe`` whether it has something to ask with, ``age_ms`` how long ago it began.
    """

    outage: int
    state: Literal["open", "over", "narrow"]
    probes: int
    can_probe: bool
    age_ms: int
    reason: str


class WorkerState(msgspec.Struct, frozen=True, rename="camel"):
    """The epoch of each partition that it holds, and the destinations whose breaker is open there.

    ``alone``: it owns every partition, and holds all of every limit. Otherwise ``shares`` and ``breakers`` are by
    lane, and ``weight`` is how many partitions it goes on with.
    """

    epochs: dict[str, int] = {}
    open_breakers: list[str] = []
    alone: bool = False
    weight: int = 0
    shares: dict[int, Share] = {}
    breakers: dict[int, BreakerFound] = {}


def encode(state: WorkerState) -> str:
    """As text."""
    return msgspec.json.encode(state).decode()


decode = msgspec.json.Decoder(WorkerState).decode
