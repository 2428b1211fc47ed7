"""Sorting fixed-width entries in short steps, so that it can be done between other work on an event loop."""

from __future__ import annotations

from collections.abc import Iterator

from hookline.index.recent import ENTRIES_PER_STEP


def sorted_chunks(entries: bytearray, width: int, key_bytes: int, byte: int = 0) -> Iterator[bytes]:
    """Yield the entries in ascending order in chunks, an empty chunk being just a pause.

    Entries are split by one byte of their key after the other until a part is small enough to be sorted at once;
    entries of one and the same key keep the order in which they came, which must be the ascending one. The entries
    of a chunk have the same first byte.
    """
    if byte == key_bytes:
        for start in range(0, len(entries), ENTRIES_PER_STEP * width):
            yield bytes(entries[start : start + ENTRIES_PER_STEP * width])
        return
    parts = [bytearray() for _ in range(256)]
    for chunk_start in range(0, len(entries), ENTRIES_PER_STEP * width):
        chunk = bytes(entries[chunk_start : chunk_start + ENTRIES_PER_STEP * width])
        for start in range(0, len(chunk), width):
            parts[chunk[start + byte]] += chunk[start : start + width]
        yield b""
    for part in parts:
        if len(part) > ENTRIES_PER_STEP * width:
            yield from sorted_chunks(part, width, key_bytes, byte + 1)
        elif part:
            chunk = bytes(part)
            yield b"".join(sorted([chunk[start : start + width] for start in range(0, len(chunk), width)]))
