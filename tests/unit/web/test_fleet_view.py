"""The deliver processes on the first page."""

from __future__ import annotations

from hookline.features.fleet.pages import fleet_view
from hookline.features.fleet.service import Fleet, FleetPartition, FleetWorker

SINCE = "2026-01-01T00:00:00.000Z"


def worker(name: str, alive: bool, *partitions: int, behind: int | None) -> FleetWorker:
    return FleetWorker(name, alive, SINCE, SINCE, partitions, behind)


def partition(number: int, name: str | None, behind: int | None) -> FleetPartition:
    return FleetPartition(number, name, SINCE, 0, behind, behind)


def test_who_has_what_is_short_and_what_nobody_has_stands_out() -> None:
    """Neighbouring partitions are told as a range; what brokers do not tell is not made up."""
    partitions = [partition(0, "a:1", 1), partition(1, "a:1", 2), partition(2, None, 3), partition(3, "a:1", None)]
    workers = [worker("a:1", True, 0, 1, 3, behind=None), worker("b:1", False, behind=0)]
    view = fleet_view(Fleet(True, workers, partitions))
    assert view is not None
    assert [(each.word, each.partitions, each.behind) for each in view.workers] == [
        ("running", "0–1, 3", "not known"),
        ("gone", "none", "0"),
    ]
    assert (view.unowned, view.waiting) == ("2", "3")


def test_one_process_alone_is_not_listed() -> None:
    """The list of roles says all of it."""
    assert fleet_view(Fleet(False, [worker("here", True, 0, behind=0)], [partition(0, "here", 0)])) is None
