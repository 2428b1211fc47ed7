"""The house picture: the way of the events, accepted to delivered, with counts; and the numbers beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hookline.features.fleet.metrics import RoleReport
from hookline.web.rendering import milliseconds, number


class Station(NamedTuple):
    """One stop on the way, with its count."""

    name: str
    value: str
    note: str
    state: str


class Aside(NamedTuple):
    """A number beside the way: what waits, failed or was left out."""

    kind: str
    shape: str
    value: str
    word: str


def the_way(reports: Mapping[str, RoleReport]) -> tuple[list[Station], list[Aside]]:
    """Return the four stations and the numbers beside them; counts are since the roles started."""
    nothing = RoleReport("", False, {})
    collect, deliver = reports.get("collect", nothing), reports.get("deliver", nothing)
    accepted = collect.number("hookline_collect_accepted_total")
    read = deliver.number("hookline_deliver_read_total")
    routed = max(0, read - collect.number("hookline_collect_rejected_total"))  # which are kept, and read over
    lag = deliver.number("hookline_deliver_lag_events")
    delivered = deliver.number("hookline_deliver_delivered_total")
    failures = deliver.number("hookline_deliver_failures_total")
    behind = f"{number(lag)} behind" if lag else "nothing behind"
    stations = [
        Station("Accepted", number(accepted), "durable on disk", _reached(accepted)),
        Station("Routed", number(routed), behind, "wait" if lag else _reached(routed)),
        Station("Sent", number(delivered + failures), _share(failures, delivered + failures), _reached(delivered)),
        Station("Delivered", number(delivered), _latency(deliver), _reached(delivered)),
    ]
    return stations, _asides(collect, deliver)


def _reached(count: float) -> str:
    return "good" if count else "off"


def _asides(collect: RoleReport, deliver: RoleReport) -> list[Aside]:
    items = (
        ("wait", "◔", deliver.number("hookline_deliver_queued"), "in flight"),
        ("warn", "▲", deliver.number("hookline_deliver_retry_rows"), "retrying"),
        ("dead", "■", deliver.number("hookline_deliver_dead_letters_total"), "not delivered"),
        ("dead", "■", collect.number("hookline_collect_rejected_total"), "rejected"),
        ("off", "○", deliver.number("hookline_deliver_duplicates_total"), "duplicates dropped"),
    )
    return [Aside(kind, shape, number(value), word) for kind, shape, value, word in items if value]


def _share(failures: float, requests: float) -> str:
    return f"{failures / requests:.1%} failed" if failures and requests else "none failed"


def _latency(deliver: RoleReport) -> str:
    """Return the median from acceptance to the receiver's answer, as far as the buckets tell."""
    histogram = deliver.values.get("hookline_deliver_latency_seconds")
    if not isinstance(histogram, dict):
        return ""
    buckets = histogram.get("buckets", {})
    half, seen = sum(buckets.values()) / 2, 0
    for bound, count in buckets.items():
        seen += count
        if seen >= half > 0 and bound != "+Inf":
            return f"p50 ≤ {milliseconds(float(bound) * 1000)}"
    return "to receivers" if seen == 0 else "p50 over 5 s"
