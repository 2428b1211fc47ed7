"""What deliver counted in its last ten-second slots: the raw material of the time series.

Deliver writes ``run/slots-deliver.json`` when a slot has ended: the counts of the last few slots, each by itself and
not since the start. So whoever reads them needs no earlier value to compare with, and a restart on either side makes
neither a spike nor a number that is counted twice; the slot in which deliver ended is short, and what no process
counted is missing.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from hookline.whole_file import try_to_write_whole

SLOT_SECONDS = 10
SLOTS_KEPT = 3
"""Slots in one report: a control role that was away for less has missed nothing."""
DESTINATIONS_MAX = 1_000
SOURCES_MAX = 1_000
"""In one slot, the busiest of them; ``omitted`` says how many were left out."""
REPORT_BYTES_MAX = 16 * 1024 * 1024


class DestinationSlot(msgspec.Struct, array_like=True, kw_only=True):
    """One destination in one slot; replays count at the replay and not here.

    ``attempted`` are events tried for the first time, ``failures`` requests that failed, ``not_delivered`` dead letters
    (below zero when more were called back). ``waiting`` is the most that can wait at the slot's end. ``response``
    counts successful requests by their time (``metrics.DURATION_BUCKETS_MS``).
    """

    delivered: int = 0
    attempted: int = 0
    failures: int = 0
    retries: int = 0
    not_delivered: int = 0
    filtered: int = 0
    waiting: int = 0
    response: list[int] = []


class SourceSlot(msgspec.Struct, array_like=True):
    """The events of one source in one slot, and those of them that filters kept from every destination."""

    events: int = 0
    filtered: int = 0


class Slot(msgspec.Struct, kw_only=True):
    """One slot, ``at`` its first second since the epoch; ``latency`` counts deliveries by the time since acceptance."""

    at: int
    delivered: int = 0
    failures: int = 0
    retries: int = 0
    not_delivered: int = 0
    waiting: int = 0
    lag: int = 0
    response: list[int] = []
    latency: list[int] = []
    destinations: dict[str, DestinationSlot] = {}
    sources: dict[str, SourceSlot] = {}
    omitted: int = 0


def write_slots(run_folder: Path, slots: list[Slot]) -> None:
    """Replace the report at once; a full disk only leaves a gap."""
    try_to_write_whole(run_folder / "slots-deliver.json", msgspec.json.encode(slots))


def read_slots(run_folder: Path) -> list[Slot]:
    """Return the slots of the last report, oldest first; none where there is no report, or one of another version."""
    try:
        with (run_folder / "slots-deliver.json").open("rb") as file:
            return msgspec.json.decode(file.read(REPORT_BYTES_MAX), type=list[Slot])
    except (OSError, msgspec.DecodeError):
        return []


def slot_of(now_ms: int) -> int:
    """Return the first second of the slot that a time lies in."""
    return now_ms // 1000 // SLOT_SECONDS * SLOT_SECONDS
