"""Blanking a MessagePack value keeps its shape and takes its content."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hookline.journal.local.erase import blank

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False)
    | st.text(max_size=70_000) | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(), inner, max_size=20),
    max_leaves=30,
)  # fmt: skip


def blanked(value: Any) -> Any:
    """The same value with its strings and bytes zeroed, as a reader would see it."""
    if isinstance(value, str):
        return "\0" * len(value.encode())
    if isinstance(value, bytes):
        return bytes(len(value))
    if isinstance(value, list):
        return [blanked(item) for item in value]
    if isinstance(value, dict):
        return {blanked(key): blanked(item) for key, item in value.items()}
    return value


@given(VALUES)
def test_blanking_zeroes_every_string_and_nothing_else(value: Any) -> None:
    """Length and structure stay; every string and binary, keys of maps included, becomes zeros."""
    encoded = msgspec.msgpack.encode(value)
    result = blank(encoded)
    assert len(result) == len(encoded)
    assert msgspec.msgpack.decode(result) == blanked(value)


def test_long_containers_and_strings() -> None:
    """The wide heads of MessagePack, which small examples do not reach, are read as well."""
    value = [["x" * 70_000, b"y" * 70_000, b"z" * 300], list(range(70_000)), {str(n): n for n in range(70_000)}]
    result = msgspec.msgpack.decode(blank(msgspec.msgpack.encode(value)))
    assert result[0] == blanked(value[0])
    assert result[1] == value[1]
    assert set(result[2]) == {"\0" * n for n in range(1, 6)}
