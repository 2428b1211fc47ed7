"""Blanks a MessagePack value: the same length and structure, every string and binary made of zero bytes."""

from __future__ import annotations

_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Strings and binaries whose length follows in so many bytes."""

_FIXED = {
    **dict.fromkeys((0xC0, 0xC2, 0xC3), 0),  # nil, false, true
    **dict.fromkeys((0xCC, 0xD0), 1),  # 8-bit integers
    **dict.fromkeys((0xCD, 0xD1, 0xDC, 0xDE), 2),  # 16-bit integers; array and map with a 16-bit length
    **dict.fromkeys((0xCE, 0xD2, 0xCA, 0xDD, 0xDF), 4),  # 32-bit integers, float; array and map
    **dict.fromkeys((0xCF, 0xD3, 0xCB), 8),  # 64-bit integers, double
}
"""Values, and heads of arrays and maps, that take so many bytes after the first; their items simply follow."""


def blank(encoded: bytes) -> bytes:
    """Return the value with its strings and binaries overwritten by zero bytes."""
    data = bytearray(encoded)
    at = 0
    while at < len(data):
        head, content = _head(data, at)
        at += head
        data[at : at + content] = bytes(content)
        at += content
    return bytes(data)


def _head(data: bytearray, at: int) -> tuple[int, int]:
    """Return how many bytes from here are structure, and how many content after them."""
    tag = data[at]
    if tag < 0xA0 or tag >= 0xE0:  # small integers, heads of small maps and arrays
        return 1, 0
    if tag < 0xC0:  # short string
        return 1, tag & 0x1F
    if tag in _SIZED:
        width = _SIZED[tag]
        return 1 + width, int.from_bytes(data[at + 1 : at + 1 + width], "big")
    return 1 + _FIXED[tag], 0
