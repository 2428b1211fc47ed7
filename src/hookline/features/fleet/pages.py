"""The deliver processes as the first page shows them, where there may be several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hookline.features.fleet.service import Fleet
from hookline.web.rendering import number


class WorkerView(NamedTuple):
    """One process."""

    name: str
    kind: str
    shape: str
    word: str
    partitions: str
    behind: str
    since: str


class FleetView(NamedTuple):
    """All of them, and the partitions that nobody delivers."""

    workers: Sequence[WorkerView]
    unowned: str
    waiting: str


def fleet_view(fleet: Fleet) -> FleetView | None:
    """Return what is shown; None where there is only one process and the list of roles says all."""
    if not fleet.shared:
        return None
    workers = [
        WorkerView(
            each.worker,
            *(("good", "●", "running") if each.alive else ("dead", "■", "gone")),
            _ranges(each.partitions) or "none",
            _behind([each.behind]),
            each.since,
        )
        for each in fleet.workers
    ]
    unowned = fleet.unowned
    return FleetView(workers, _ranges(each.partition for each in unowned), _behind([each.behind for each in unowned]))


def _behind(lags: Sequence[int | None]) -> str:
    known = [lag for lag in lags if lag is not None]
    return number(sum(known)) if len(known) == len(lags) else "not known"


def _ranges(numbers: Iterable[int]) -> str:
    """``0–3, 7``."""
    found: list[list[int]] = []
    for each in sorted(numbers):
        if found and found[-1][1] == each - 1:
            found[-1][1] = each
        else:
            found.append([each, each])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in found)
