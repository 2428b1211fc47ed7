"""What a deliver process tells of itself in its row of ``workers``, for whoever shows it."""

from __future__ import annotations

import msgspec

BREAKERS_MAX = 1_000
"""Destinations named; of more than that one need not know which."""


class WorkerState(msgspec.Struct, frozen=True, rename="camel"):
    """The epoch of each partition that it holds, and the destinations whose breaker is open there."""

    epochs: dict[str, int] = {}
    open_breakers: list[str] = []


def encode(state: WorkerState) -> str:
    """As text."""
    return msgspec.json.encode(state).decode()


decode = msgspec.json.Decoder(WorkerState).decode
