"""Every page is measured."""

from __future__ import annotations

import pytest
from bench.pages import NAMES, addresses


def test_the_measured_pages_are_those_there_are() -> None:
    """They come from the route table, with something real in place of every parameter."""
    found = addresses(NAMES)
    assert {"/", "/events", "/sources", "/sources/bench", "/settings/versions/1"} <= set(found)
    assert not [path for path in found if "{" in path or not path.startswith("/")]


def test_a_page_that_is_not_known_here_is_told() -> None:
    """One that needs an id nobody gave is no page less, but an error."""
    names = {before: name for before, name in NAMES.items() if before != "/sources"}
    with pytest.raises(ValueError, match=r"say in bench\.pages"):
        addresses(names)
