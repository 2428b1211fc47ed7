"""Every metric: its name, kind, unit and meaning, in one table. Roles publish values, control serves them all.

A role writes ``run/metrics-<role>.json`` once a second: a JSON object from metric name to a number, to
``{"<label>": {"<value>": number}}`` for a metric with a label, or, for a histogram, to
``{"buckets": {"<upper bound>": count}, "sum": s}`` (counts per bucket, not cumulative; the last bound is ``+Inf``).
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from hookline.whole_file import try_to_write_whole

Role = Literal["collect", "deliver", "profiles", "control"]


class Metric(NamedTuple):
    """One metric as operators see it."""

    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    help: str
    role: Role
    label: str | None = None


_TROUBLE = "1 while a database of the role cannot be used, by reason."

METRICS: dict[str, Metric] = {
    "hookline_collect_requests_total": Metric("counter", "requests", "Requests answered.", "collect", "status"),
    "hookline_collect_accepted_total": Metric("counter", "events", "Events acknowledged after commit.", "collect"),
    "hookline_collect_rejected_total": Metric("counter", "events", "Items rejected, by code.", "collect", "code"),
    "hookline_collect_warnings_total": Metric(
        "counter", "warnings", "Warnings returned with accepted events, by code.", "collect", "code"
    ),
    "hookline_collect_refused_pixels_total": Metric(
        "counter",
        "requests",
        "Pixel requests answered with an image although their event was rejected.",
        "collect",
        "code",
    ),
    "hookline_collect_suppressed_total": Metric(
        "counter", "events", "Events of suppressed people, answered but not stored.", "collect", "source"
    ),
    "hookline_collect_rate_limited_total": Metric(
        "counter", "requests", "Requests answered 429 because of their source's rate limit.", "collect", "source"
    ),
    "hookline_collect_rate_limited_addresses_total": Metric(
        "counter", "requests", "Requests answered 429 because of their address's rate limit.", "collect"
    ),
    "hookline_collect_body_bytes_total": Metric("counter", "bytes", "Body bytes read, before inflation.", "collect"),
    "hookline_collect_repaired_total": Metric(
        "counter", "bodies", "Bodies in which lone surrogate escapes were replaced.", "collect"
    ),
    "hookline_collect_connections": Metric("gauge", "connections", "Open client connections.", "collect"),
    "hookline_collect_refused_connections_total": Metric(
        "counter",
        "connections",
        "Connections refused because too many are open, in total or from one address.",
        "collect",
    ),
    "hookline_collect_shed_connections_total": Metric(
        "counter", "connections", "Idle connections closed early to make room for others.", "collect"
    ),
    "hookline_collect_buffered_bytes": Metric(
        "gauge", "bytes", "Unfinished and held requests, and unread answers.", "collect"
    ),
    "hookline_collect_source_last_event_seconds": Metric(
        "gauge", "seconds", "When a source last sent an event, since the epoch.", "collect", "source"
    ),
    "hookline_collect_spans_total": Metric(
        "counter", "spans", "Spans of calls that the collector accepted, and spans dropped.", "collect", "outcome"
    ),
    "hookline_collect_over_budget_total": Metric(
        "counter", "requests", "Requests answered 503 because the journal's disk space is spent.", "collect", "source"
    ),
    "hookline_collect_over_budget_since_seconds": Metric(
        "gauge",
        "seconds",
        "When the journal's disk space was spent for a source, since the epoch; * is all sources.",
        "collect",
        "source",
    ),
    "hookline_journal_bytes": Metric(
        "gauge", "bytes", "Disk space that the events of a local journal take.", "collect"
    ),
    "hookline_journal_waited_bytes": Metric(
        "gauge",
        "bytes",
        "Bytes of the local journal that working destinations wait for; 0 while there is room.",
        "collect",
    ),
    "hookline_journal_end_offset": Metric("gauge", "events", "Offset after the last durable event.", "collect"),
    "hookline_collect_connections_kept": Metric(
        "gauge", "", "1 while collect uses its copy of the connections on disk because it cannot read them.", "collect"
    ),
    "hookline_collect_database_trouble": Metric("gauge", "", _TROUBLE, "collect", "kind"),
    "hookline_journal_away": Metric("gauge", "", "1 while the journal's brokers accept no events.", "collect"),
    "hookline_deliver_read_total": Metric("counter", "events", "Events read by the shared readers.", "deliver"),
    "hookline_deliver_read_again_total": Metric("counter", "events", "Events read by catch-up readers.", "deliver"),
    "hookline_deliver_duplicates_total": Metric("counter", "events", "Repeated messageIds dropped.", "deliver"),
    "hookline_deliver_delivered_total": Metric("counter", "deliveries", "Deliveries a receiver accepted.", "deliver"),
    "hookline_deliver_failures_total": Metric("counter", "requests", "Requests that failed.", "deliver", "outcome"),
    "hookline_deliver_retries_total": Metric("counter", "deliveries", "Retries scheduled.", "deliver"),
    "hookline_deliver_dead_letters_total": Metric(
        "counter", "deliveries", "Deliveries that failed or expired.", "deliver"
    ),
    "hookline_deliver_breaker_opened_total": Metric("counter", "times", "Breakers opened.", "deliver"),
    "hookline_deliver_detached_total": Metric("counter", "times", "Lanes detached.", "deliver"),
    "hookline_deliver_attached_again_total": Metric("counter", "times", "Lanes that caught up again.", "deliver"),
    "hookline_deliver_checkpoints_total": Metric("counter", "checkpoints", "Checkpoints committed.", "deliver"),
    "hookline_deliver_replays": Metric("gauge", "replays", "Replays being sent or paused.", "deliver"),
    "hookline_deliver_replayed_total": Metric("counter", "deliveries", "Deliveries made by replays.", "deliver"),
    "hookline_deliver_partitions": Metric("gauge", "partitions", "Partitions that this process delivers.", "deliver"),
    "hookline_deliver_in_flight": Metric("gauge", "deliveries", "Deliveries in flight.", "deliver"),
    "hookline_deliver_connections": Metric("gauge", "connections", "Connections to receivers.", "deliver"),
    "hookline_deliver_lag_events": Metric("gauge", "events", "Events the shared readers have not read.", "deliver"),
    "hookline_deliver_request_seconds": Metric(
        "histogram", "seconds", "Time of a successful request, connect to the answer's head.", "deliver"
    ),
    "hookline_deliver_latency_seconds": Metric(
        "histogram", "seconds", "Time from acceptance of an event to the receiver's answer.", "deliver"
    ),
    "hookline_deliver_queued": Metric(
        "gauge", "deliveries", "Events held in memory for a destination.", "deliver", "destination"
    ),
    "hookline_deliver_retry_rows": Metric(
        "gauge", "deliveries", "Failed deliveries waiting for another attempt.", "deliver", "destination"
    ),
    "hookline_deliver_breaker_open": Metric("gauge", "", "1 while the breaker is open.", "deliver", "destination"),
    "hookline_deliver_next_probe_timestamp_seconds": Metric(
        "gauge", "seconds", "When a receiver with an open breaker is probed next, since 1970.", "deliver", "destination"
    ),
    "hookline_deliver_filtered_total": Metric(
        "counter", "events", "Events that filters dropped for a destination.", "deliver", "destination"
    ),
    "hookline_deliver_database_away": Metric(
        "gauge", "", "1 while a database cannot be used, for any reason.", "deliver"
    ),
    "hookline_deliver_database_trouble": Metric("gauge", "", _TROUBLE, "deliver", "kind"),
    "hookline_deliver_spans_total": Metric(
        "counter", "spans", "Spans of requests that the collector accepted, and spans dropped.", "deliver", "outcome"
    ),
    "hookline_usage_events_total": Metric("counter", "events", "Events that sources sent.", "deliver", "source"),
    "hookline_usage_filtered_total": Metric(
        "counter", "events", "Events that filters dropped for every destination.", "deliver", "source"
    ),
    "hookline_dedup_window_seconds": Metric("gauge", "seconds", "How far back duplicates are recognised.", "deliver"),
    "hookline_dedup_index_failing": Metric(
        "gauge", "partitions", "Partitions whose index of duplicates has disk errors.", "deliver"
    ),
    "hookline_dedup_ranges_given_up_total": Metric(
        "counter", "ranges", "Ranges of events that could not be indexed; their repeats are not recognised.", "deliver"
    ),
    "hookline_profiles_applied_total": Metric("counter", "events", "Events applied to people.", "profiles"),
    "hookline_profiles_missed_total": Metric(
        "counter", "events", "Events that retention removed, or the disk lost, before profiles read them.", "profiles"
    ),
    "hookline_profiles_lag_events": Metric("gauge", "events", "Events that profiles have not read.", "profiles"),
    "hookline_profiles_lag_seconds": Metric(
        "gauge", "seconds", "Age of the last event that profiles read; 0 without a lag.", "profiles"
    ),
    "hookline_profiles_persons": Metric("gauge", "persons", "Persons known, merged ones counted once.", "profiles"),
    "hookline_profiles_synced_total": Metric(
        "counter", "messages", "Identify calls that sent a membership or a computed value.", "profiles"
    ),
    "hookline_profiles_database_trouble": Metric("gauge", "", _TROUBLE, "profiles", "kind"),
    "hookline_profiles_backfill_events": Metric(
        "gauge", "events", "Events to read again for new conditions.", "profiles"
    ),
    "hookline_profiles_batch_seconds": Metric(
        "histogram", "seconds", "Time to read, apply and commit a batch of events.", "profiles"
    ),
    "hookline_control_requests_total": Metric("counter", "requests", "Admin requests answered.", "control", "status"),
    "hookline_control_sign_ins_total": Metric(
        "counter", "tries", "Sign-ins to the pages: succeeded, failed, or throttled.", "control", "outcome"
    ),
    "hookline_control_connections_ended_total": Metric(
        "counter",
        "connections",
        "Connections ended by limits: malformed, head_too_large, too_slow, shed to make room, or full.",
        "control",
        "reason",
    ),
    "hookline_control_database_trouble": Metric("gauge", "", _TROUBLE, "control", "kind"),
    "hookline_destination_queued": Metric(
        "gauge", "events", "Events queued for a destination, at most.", "control", "destination"
    ),
    "hookline_destination_queued_exact": Metric(
        "gauge", "", "1 if the queued events are counted exactly, 0 while counting goes on.", "control", "destination"
    ),
    "hookline_destination_retrying": Metric(
        "gauge", "events", "Events that failed and are tried again.", "control", "destination"
    ),
    "hookline_destination_failed": Metric(
        "gauge", "events", "Dead letters kept of events that failed.", "control", "destination"
    ),
    "hookline_destination_expired": Metric(
        "gauge", "events", "Dead letters kept of events that expired.", "control", "destination"
    ),
    "hookline_destination_delivered_total": Metric(
        "counter", "events", "Events delivered, without replays; the count survives restarts.", "control", "destination"
    ),
    "hookline_destination_as_of_seconds": Metric(
        "gauge", "seconds", "When the figures of the destinations were taken, since 1970.", "control"
    ),
    "hookline_control_issues_open": Metric("gauge", "issues", "Open issues.", "control", "destination"),
    "hookline_control_notices_open": Metric("gauge", "notices", "Notices that are open.", "control", "kind"),
    "hookline_control_notices_opened_total": Metric("counter", "notices", "Notices opened.", "control", "kind"),
    "hookline_control_notice_webhooks_total": Metric(
        "counter", "requests", "Requests that sent a notice, by outcome.", "control", "outcome"
    ),
    "hookline_control_notifications_total": Metric(
        "counter", "messages", "Messages of notification rules: sent, retried later, or failed.", "control", "outcome"
    ),
}


MEMORY_BYTES_MAX = 256
"""Of what the system says of a process's memory."""

DURATION_BUCKETS_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
"""Upper bounds of the histograms of times, in milliseconds; one more bucket is everything above."""

PROCESS_STARTED = "process_start_time_seconds"
PROCESS_MEMORY = "process_resident_memory_bytes"
"""What ``publish`` adds for every role, under the names that Prometheus uses everywhere."""
PROCESS_CLOCK_SHIFT = "process_clock_shift_seconds"
"""By how much the clock was set since the role started; for ``hookline doctor``, not served."""
PROCESS_ID = "process_id"
PROCESS_STANDING_BY = "process_standing_by"
"""1 while another machine's process has this one's turn."""
PROCESS_TROUBLES = "process_troubles"
"""Why the role cannot do its work just now, by code; what ``/readyz?all`` answers (``control.whole``), not served."""

# Unlike the monotonic clock this one goes on while the machine sleeps.
_STEADY_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_started_seconds = time.time()
_started_steady_seconds = time.clock_gettime(_STEADY_CLOCK)


REPEATED_SECONDS = 1.5
"""A report is written each second, but where it says the same again only each other one: whoever reads them takes one
for old after five."""

REWRITTEN_SECONDS = 10.0
"""After so long it is written as a whole again: how much memory the process has is in it."""


class Reporter:
    """Writes the reports of a role."""

    def __init__(self, run_folder: Path, role: Role) -> None:
        self._run_folder = run_folder
        self._path = report_path(run_folder, role)
        self._role: Role = role
        self._last: bytes | None = None
        self._last_seconds = self._written_seconds = 0.0

    def publish(self, values: dict[str, Any], troubles: Mapping[str, bool] | None = None) -> None:
        """Write it as ``publish`` does. Where the same stands there, only say now and then that it is so still."""
        now = time.monotonic()
        said = msgspec.json.encode((values, troubles, round(clock_shift_seconds(), 1)))
        is_same = said == self._last
        if is_same and now - self._last_seconds < REPEATED_SECONDS:
            return
        self._last, self._last_seconds = said, now
        if is_same and now - self._written_seconds < REWRITTEN_SECONDS:
            with suppress(OSError):  # it was taken away
                os.utime(self._path)
                return
        self._written_seconds = now
        publish(self._run_folder, self._role, values, troubles)


def publish(run_folder: Path, role: Role, values: dict[str, Any], troubles: Mapping[str, bool] | None = None) -> None:
    """Write a role's values, replacing the old ones at once; a folder that is full, or closed to us, only delays them.

    ``troubles`` says of each reason why the role might not do its work, by code, whether it is so.
    """
    values = {
        PROCESS_ID: os.getpid(),
        PROCESS_TROUBLES: [code for code, is_so in (troubles or {}).items() if is_so],
        PROCESS_STARTED: round(_started_seconds, 3),
        PROCESS_MEMORY: _resident_bytes(),
        PROCESS_CLOCK_SHIFT: round(clock_shift_seconds(), 3),
        **values,
    }
    try_to_write_whole(report_path(run_folder, role), msgspec.json.encode(values))


def report_path(run_folder: Path, role: Role) -> Path:
    """Return where the report of a role is."""
    return run_folder / f"metrics-{role}.json"


def clock_shift_seconds() -> float:
    """By how much the clock was set since this process started; forward is above zero."""
    steady = time.clock_gettime(_STEADY_CLOCK) - _started_steady_seconds
    return time.time() - _started_seconds - steady


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(MEMORY_BYTES_MAX).split()[1]) * resource.getpagesize()
    except OSError:  # not Linux: the highest so far is the best there is
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def histogram(bounds_ms: tuple[int, ...], counts: list[int], sum_ms: int) -> dict[str, Any]:
    """Return a histogram's value from counts per bucket in milliseconds."""
    bounds = [f"{bound / 1000:g}" for bound in bounds_ms] + ["+Inf"]
    return {"buckets": dict(zip(bounds, counts, strict=True)), "sum": sum_ms / 1000}
