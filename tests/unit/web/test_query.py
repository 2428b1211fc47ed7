"""The query of an address, as pages read it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hookline.web.rendering import QUERY_CHARACTERS_MAX, query_of


def test_a_cursor_of_many_partitions_is_not_cut() -> None:
    """It has a position in each of them; whatever else is longer than what can be looked for is cut."""
    request: Any = SimpleNamespace(query_params={"after": "1" * 5_000, "search": "x" * 5_000})
    assert {name: len(value) for name, value in query_of(request).items()} == {
        "after": 5_000,
        "search": QUERY_CHARACTERS_MAX,
    }
