"""Bounds of the delivery code that nobody sets: one frozen value, handed down where a role is put together.

Tests and simulations hand down another one, with bounds that a short run reaches; nothing is patched. Constants that
nobody replaces stand beside the code that keeps to them, and what people may change is in ``settings.py``.
"""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Every bound with its usual value."""

    # what a lane holds
    queue_low: int = 128
    """Below this a lane is hungry: its reader goes on. Few, so that events are sent while they are in the cache."""
    queue_high: int = 2_048
    """At this a lane that holds others up is detached. A group may be added above ``queue_low``, so a lane holds at
    most this plus one group of the journal."""
    retry_rows_max: int = 100_000
    """Retry rows of one destination; at this many it begins nothing new."""
    held_events_max: int = 1_024
    """Events of a lane that wait for their user's turn in memory; the rest wait as rows."""

    # what is in flight
    in_flight_max: int = 5_632
    """Of all lanes: room for one receiver far away that was given 4,096, and for others."""
    unhealthy_in_flight_max: int = 1_408
    """Lanes that are not fully healthy share at most a quarter of the places."""
    slow_in_flight_max: int = 4_224
    """Lanes whose receivers take long, or are not well, share at most three quarters: the others, which need a place
    for moments only, always find one."""
    failures_held_max: int = 16_384
    """Failed attempts that no checkpoint has saved yet: with so many, sending waits for one, as for a full ring."""
    lingering_max: int = 64
    """Requests per URL that may still run although another URL has taken the event; beyond, the URL is left out."""
    replay_in_flight_max: int = 16
    """Attempts of one replay in flight at once while something else wants the places: a quarter of a live lane's."""
    replays_running_max: int = 16
    """Replays being sent at once; the others wait in the order in which they were asked for."""

    # the breaker
    open_failures: int = 20
    open_seconds: float = 10.0
    narrow_failures: int = 5
    narrow_allowance: int = 4
    first_allowance: int = 8
    """What a lane may begin with before its first success, and what it must be back at to count as healthy."""
    full_allowance: int = 64
    """Requests in flight at once of a healthy lane."""
    allowance_max: int = 512
    """What the allowance may grow to for a receiver that takes its time but takes all; its user may say up to 4,096."""

    # reading
    catch_up_cursors_max: int = 8
    """Open reads kept from one turn to the next."""
    probe_records_max: int = 4_096
    """Records looked at in one go for the event of a probe, rounded up to a group."""
    late_looks_max: int = 1_024
    """Questions that one checkpoint answers where retry rows come late; the others keep their turn."""

    # results, and time
    ring_entries: int = 65_536
    ring_margin: int = 28_672
    """Sending stops so many entries before the ring is full, for what is in flight, at five URLs each."""
    late_ms_max: int = 60_000
    """A last attempt is made at the window's end; later than this past it (the service was down), the event expires."""

    # looking names up
    lookups_waiting_max: int = 10_000
    """A restart asks for the names of all destinations at once."""
    lookup_seconds_max: float = 5.0


LIMITS = Limits()
"""What holds unless somebody hands down another."""
