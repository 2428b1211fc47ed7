"""How fast each destination's events go right now, and how many wait, from deliver's last ten-second slots."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hookline.telemetry.slots import SLOT_SECONDS, read_slots


class Flow(NamedTuple):
    """Events delivered per second, and the most that can wait."""

    per_second: float = 0.0
    waiting: int = 0


def flows(data_path: Path) -> dict[str, Flow]:
    """Return the flow of every destination that did anything; one that is missing stands still with nothing waiting."""
    slots = read_slots(data_path / "run")
    seconds = len(slots) * SLOT_SECONDS
    delivered: dict[str, int] = {}
    for slot in slots:
        for id, each in slot.destinations.items():
            delivered[id] = delivered.get(id, 0) + each.delivered
    waiting = {id: each.waiting for id, each in slots[-1].destinations.items()} if slots else {}
    return {id: Flow(delivered[id] / seconds, waiting.get(id, 0)) for id in delivered}
