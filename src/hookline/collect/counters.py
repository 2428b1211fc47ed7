"""Count what the collection edge does: plain integers, written on the hot path and read once a second."""

from __future__ import annotations

from collections import defaultdict


class Counters:
    """Counts since the start of the process; ``open_connections`` and ``buffered_bytes`` are as of now.

    ``heard`` holds the sources that had events stored since it was last emptied.
    """

    __slots__ = (
        "accepted",
        "body_bytes",
        "buffered_bytes",
        "connections",
        "dropped_telemetry",
        "heard",
        "open_connections",
        "over_budget",
        "rate_limited",
        "rate_limited_addresses",
        "refused_connections",
        "refused_pixels",
        "rejected",
        "repaired_surrogates",
        "requests",
        "shed_connections",
        "suppressed",
        "warnings",
    )

    def __init__(self) -> None:
        self.accepted = 0
        self.body_bytes = 0
        self.buffered_bytes = 0
        self.connections = 0
        self.dropped_telemetry = 0
        self.heard: set[str] = set()
        self.open_connections = 0
        self.rate_limited: defaultdict[str, int] = defaultdict(int)
        self.rate_limited_addresses = 0
        self.over_budget: defaultdict[str, int] = defaultdict(int)
        self.refused_connections = 0
        self.refused_pixels: defaultdict[str, int] = defaultdict(int)
        self.rejected: defaultdict[str, int] = defaultdict(int)
        self.repaired_surrogates = 0
        self.requests: defaultdict[bytes, int] = defaultdict(int)
        self.shed_connections = 0
        self.suppressed: defaultdict[str, int] = defaultdict(int)
        self.warnings: defaultdict[str, int] = defaultdict(int)

    def snapshot(self) -> dict[str, int]:
        """Return all counts by name; those with a label as ``requests.200`` and ``rejected.missing_event``."""
        counts = {name: value for name in self.__slots__ if isinstance(value := getattr(self, name), int)}
        counts.update({f"requests.{status.decode()}": count for status, count in self.requests.items()})
        counts.update({f"rejected.{code}": count for code, count in self.rejected.items()})
        counts.update({f"suppressed.{source}": count for source, count in self.suppressed.items()})
        counts.update({f"rate_limited.{source}": count for source, count in self.rate_limited.items()})
        counts.update({f"warnings.{code}": count for code, count in self.warnings.items()})
        counts.update({f"over_budget.{source}": count for source, count in self.over_budget.items()})
        counts.update({f"refused_pixels.{code}": count for code, count in self.refused_pixels.items()})
        return counts
