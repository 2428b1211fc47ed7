"""The body of a batch request, written around events that are encoded already, and its limits."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hookline_client.timestamps import iso

BATCH_BYTES_MAX = 512_000
"""The whole body before compression."""
BATCH_EVENTS_MAX = 2_500
"""Events the service takes in one request."""
ENVELOPE_BYTES = len(b'{"batch":[],"sentAt":"2026-11-20T07:00:00.123Z"}')
EVENTS_BYTES_MAX = BATCH_BYTES_MAX - ENVELOPE_BYTES
"""Room for events, each with the comma after it."""


def batch_body(bodies: Sequence[bytes]) -> bytes:
    """Write the body of a request from encoded events."""
    return b'{"batch":[' + b",".join(bodies) + b'],"sentAt":"' + iso(time.time_ns()).encode() + b'"}'
