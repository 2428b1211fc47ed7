"""What a simulated outage did, as the command line and programs show it."""

from __future__ import annotations

import msgspec


class Attempt(msgspec.Struct, frozen=True, rename="camel"):
    """One attempt for the first event that met the outage; ``at_seconds`` counts from the outage's start."""

    number: int
    at_seconds: float
    result: str
    probe: bool


class Sample(msgspec.Struct, frozen=True, rename="camel"):
    """How things stand at a moment, counted from the outage's start."""

    at_seconds: float
    backlog: int
    retry_rows: int


class Report(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What the outage did. Times are seconds; None where it did not come to that."""

    scale: int
    rate_per_second: float
    outage_seconds: float
    attempts: tuple[Attempt, ...]
    attempts_of_all: int
    """Requests that met the outage."""
    breaker_opened_seconds: float | None
    peak_backlog: int
    peak_backlog_at_seconds: float
    peak_retry_rows: int
    noticed_after_seconds: float | None
    """From the receiver's return to the first success."""
    recovered_after_seconds: float | None
    """From the receiver's return to an empty backlog."""
    recovery_rate_per_second: float | None
    delivered: int
    expired: int
    expired_by_retention: int
    failed: int
    samples: tuple[Sample, ...]
