"""How much one call may append, the same whatever stores the records."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.journal.record import Record

RECORD_BYTES_MAX = 1024 * 1024
RECORDS_PER_CALL_MAX = 10_000
PENDING_BYTES_MAX = 64 * 1024 * 1024
"""What may wait to be stored; more is refused until some of it is."""

_RECORD_OVERHEAD_BYTES = 160


def size_bytes(records: Sequence[Record], record_bytes_max: int = RECORD_BYTES_MAX) -> int:
    """About what the records take once encoded; raise ValueError for what no journal takes."""
    if len(records) > RECORDS_PER_CALL_MAX:
        raise ValueError(f"append at most {RECORDS_PER_CALL_MAX} records at a time")
    total = 0
    for record in records:
        size = len(record.body) + len(record.message_id) + len(record.user_key) + _RECORD_OVERHEAD_BYTES
        if record.envelope is not None:
            size += len(record.envelope)
        if size > record_bytes_max:
            raise ValueError(f"a record of {size} bytes is larger than the journal takes")
        total += size
    return total
