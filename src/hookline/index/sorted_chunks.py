"""Sorting fingerprint entries in short steps, so that it can be done between other work on an event loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hookline.events.fingerprint import FINGERPRINT_BYTES
from hookline.index.recent import ENTRIES_PER_STEP

OFFSET_BYTES = 8
ENTRY_BYTES = FINGERPRINT_BYTES + OFFSET_BYTES


def sorted_chunks(entries: Iterable[list[tuple[bytes, int]]]) -> Iterator[bytes]:
    """Yield the entries, fingerprint and big-endian offset, ascending in chunks; an empty chunk is just a pause.

    The entries of a chunk have the same first byte.
    """
    parts = [bytearray() for _ in range(256)]
    for some in entries:
        for fingerprint, offset in some:
            parts[fingerprint[0]] += fingerprint + offset.to_bytes(OFFSET_BYTES, "big")
        yield b""
    for part in parts:
        if part:
            yield from _sorted(part, 1)


def _sorted(entries: bytearray, byte: int) -> Iterator[bytes]:
    """Split by one byte of the fingerprint after the other until a part is small enough to be sorted at once.

    Fingerprints are even hashes, so that only very many entries of a single one are ever split to the end; they stay
    as they came, offsets ascending.
    """
    step_bytes = ENTRIES_PER_STEP * ENTRY_BYTES
    if len(entries) <= step_bytes:
        whole = bytes(entries)
        yield b"".join(sorted([whole[start : start + ENTRY_BYTES] for start in range(0, len(whole), ENTRY_BYTES)]))
        return
    if byte == FINGERPRINT_BYTES:
        for start in range(0, len(entries), step_bytes):
            yield bytes(entries[start : start + step_bytes])
        return
    parts: dict[int, bytearray] = {}
    for chunk_start in range(0, len(entries), step_bytes):
        chunk = bytes(entries[chunk_start : chunk_start + step_bytes])
        for start in range(0, len(chunk), ENTRY_BYTES):
            parts.setdefault(chunk[start + byte], bytearray()).extend(chunk[start : start + ENTRY_BYTES])
        yield b""
    for _, part in sorted(parts.items()):
        yield from _sorted(part, byte + 1)
