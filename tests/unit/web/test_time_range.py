"""The time that a list is about, as its address says it."""

from __future__ import annotations

from hookline.web.lists import time_range

NOW = 1_700_000_000_000


def test_back_from_now() -> None:
    """A name stands for so many seconds; the links keep the filters, and one is marked."""
    found = time_range("/x", {"range": "24h"}, {"status": "failed"}, NOW)
    assert (found.since_ms, found.until_ms) == (NOW - 86_400_000, None)
    assert found.asked == {"range": "24h"}
    assert found.bounds == {"from": "2023-11-13T22:13:20.000Z"}
    assert found.links[0] == ("Any time", "/x?status=failed", False)
    assert found.links[2] == ("24h", "/x?status=failed&range=24h", True)


def test_between_two_moments() -> None:
    """Both, or one; a range counts more than moments, and what is no time bounds nothing."""
    query = {"from": "2023-11-14T00:00:00Z", "to": "2023-11-14T01:00:00.500Z"}
    found = time_range("/x", query, {}, NOW)
    assert found.bounds == {"from": "2023-11-14T00:00:00.000Z", "to": "2023-11-14T01:00:00.500Z"}
    assert found.asked == found.bounds
    assert time_range("/x", {"to": query["to"]}, {}, NOW).since_ms is None
    assert time_range("/x", {**query, "range": "1h"}, {}, NOW).asked == {"range": "1h"}
    nothing = time_range("/x", {"from": "soon", "to": "", "range": "all"}, {}, NOW)
    assert (nothing.since_ms, nothing.until_ms, nothing.asked) == (None, None, {})
    assert nothing.links[0] == ("Any time", "/x", True)
