"""The journal's record envelope: what is stored for one accepted (or rejected) item.

Records are MessagePack arrays, so a field is only ever added at the end, with a default; ``format_version`` counts
such additions. A reader accepts every version up to its own and refuses newer ones with a clear error.

The 128-bit key under which an event is recognised again: its source and messageId, hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

import msgspec

FORMAT_VERSION = 2

SLACK_MS = 60_000
"""What records wait before they are stored, and what clocks are corrected by all the time, is less than this."""

MessageType = Literal["identify", "track", "page", "screen", "group", "alias", "delete"]
Origin = Literal["sdk", "audience", "trait", "deletion"]


class Rejection(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Why an item was refused: the stable ``code`` of the collection API and its sentence."""

    code: str
    message: str


class Record(msgspec.Struct, array_like=True, gc=False):
    """One item as the collection edge stored it.

    ``received_at`` is milliseconds since the epoch. ``fingerprint`` is 16 bytes over (source, messageId), the key of
    duplicates and look-ups. ``user_key`` is the user id, else the anonymous id: one user's events share a partition
    and keep their order. ``timestamp`` is the final one (parsed, skew-corrected; ISO, milliseconds, Z). ``body`` is
    the caller's JSON object byte for byte; ``envelope`` the JSON object of the batch's ``context`` and
    ``integrations`` to be merged under the body's own, when the batch had any. ``selection`` is the effective
    destination selection map, None when it disables nothing. ``to`` lists destination ids and is set for internal
    origins only. ``rejection`` is set for an item that is kept for inspection and never delivered.
    ``erased`` marks a record whose content was overwritten in place. ``ahead_ms`` is by how much the wall clock, and so
    ``received_at``, was ahead of the service's own clock, None for about as it. Ages are reckoned by ``journal_ms``.
    """

    format_version: int
    erased: bool
    received_at: int
    source: str
    type: str
    message_id: str
    fingerprint: bytes
    user_key: str
    timestamp: str
    origin: Origin
    body: bytes
    envelope: bytes | None = None
    selection: dict[str, bool] | None = None
    to: tuple[str, ...] | None = None
    traceparent: str | None = None
    rejection: Rejection | None = None
    ahead_ms: int | None = None


def journal_ms(record: Record) -> int:
    """Return when the record was stored by the service's own clock, which never jumps."""
    return record.received_at if record.ahead_ms is None else record.received_at - record.ahead_ms


def note_clock(records: Sequence[Record], steady_ms: Callable[[], int]) -> None:
    """Note in records that are to be stored now by how much their clock is off; free while it is not."""
    now_ms = steady_ms()
    # Those of one turn come in the order of their receipt, so that a clock that was set shows at one of the ends.
    if all(-SLACK_MS < record.received_at - now_ms < SLACK_MS for record in (records[0], records[-1])):
        return
    for record in records:
        ahead_ms = record.received_at - now_ms
        record.ahead_ms = None if -SLACK_MS < ahead_ms < SLACK_MS else ahead_ms


FINGERPRINT_BYTES = 16

_SOURCES_KEPT = 1_024


SYNC_SOURCE = "profiles"
"""What stands as the source of the calls that syncs of audiences and traits append: nobody sent them."""


def fingerprint(source: str, message_id: str) -> bytes:
    """Return the 16 bytes that stand for (source, messageId); source ids hold no NUL, so pairs cannot run together."""
    state = _begun(source).copy()
    state.update(message_id.encode("utf-8", "surrogatepass"))
    return state.digest()


def fingerprints(source: str, message_ids: Sequence[str]) -> list[bytes]:
    """Return the fingerprint of each messageId; in bulk they cost three quarters."""
    begin = _begun(source).copy
    found: list[bytes] = []
    for message_id in message_ids:
        state = begin()
        state.update(message_id.encode("utf-8", "surrogatepass"))
        found.append(state.digest())
    return found


@lru_cache(maxsize=_SOURCES_KEPT)
def _begun(source: str) -> blake2b:
    # Copying a state that has taken in the source costs less than making one; nobody may update what is kept here.
    return blake2b(f"{source}\0".encode("utf-8", "surrogatepass"), digest_size=FINGERPRINT_BYTES)
