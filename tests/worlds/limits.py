"""The delivery code's limits made small, so that a short run reaches every one of them."""

from __future__ import annotations

from hookline.limits import Limits

SMALL = Limits(
    queue_low=4,
    queue_high=8,
    retry_rows_max=24,
    held_events_max=4,
    in_flight_max=24,
    unhealthy_in_flight_max=6,
    slow_in_flight_max=18,
    lingering_max=4,
    catch_up_cursors_max=2,
    open_failures=6,
    open_seconds=1.0,
    narrow_failures=3,
    narrow_allowance=2,
    first_allowance=2,
    full_allowance=8,
    allowance_max=12,
    ring_entries=1_024,
    ring_margin=256,
    late_ms_max=5_000,
    replays_running_max=2,
    replay_in_flight_max=4,
)
