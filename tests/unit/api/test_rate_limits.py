"""How many requests a caller may make."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.api import rate_limits as module
from hookline.api.rate_limits import WINDOW_SECONDS, RateLimits
from tests.unit.control.running import Running


class Clock:
    """Time that passes when told to."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("window", ["same", "next"])
def test_a_caller_has_so_many_requests_in_a_window(window: str) -> None:
    """What is left counts down to none; the next window begins with all of them."""
    clock = Clock()
    limits = RateLimits(lambda *_: None, clock=clock)  # type: ignore[arg-type, return-value]  # never called
    assert [limits._count("a")[0] for _ in range(3)] == [1, 2, 3]
    clock.now += WINDOW_SECONDS - 1 if window == "same" else WINDOW_SECONDS
    used, wait_seconds = limits._count("a")
    assert (used, wait_seconds) == ((4, 2) if window == "same" else (1, WINDOW_SECONDS + 1))
    assert limits._count("b")[0] == 1


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many addresses the one heard of longest ago is forgotten."""
    monkeypatch.setattr(module, "CALLERS_MAX", 2)
    limits = RateLimits(lambda *_: None)  # type: ignore[arg-type, return-value]  # never called
    for key in ("a", "b", "a", "c"):
        limits._count(key)
    assert list(limits._windows) == ["a", "c"]


def test_beyond_the_limit_one_is_told_how_long_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """429 with Retry-After for who sends no good token; who does, and the pages, are served all the while."""
    monkeypatch.setattr(RateLimits.__init__, "__defaults__", (10, 2, Clock()))
    with Running(tmp_path / "data") as control:
        statuses = [control.call("GET", "/api/v1/sources", token=False).status for _ in range(3)]
        assert statuses == [401, 401, 429]
        answer = control.call("GET", "/api/v1/sources", token=False)
        assert (answer.json["code"], answer.headers["retry-after"]) == ("too_many_requests", "61")
        served = control.api("GET", "/sources")
        assert served.status == 200
        assert served.headers["ratelimit-policy"] == '"minute";q=10;w=60'
        assert served.headers["ratelimit"] == '"minute";r=9;t=61'
        assert control.call("GET", "/login", token=False).status == 200
