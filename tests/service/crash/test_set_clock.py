"""The wall clock of the service is set, by hours, weeks and to 1970, while it runs and across a restart.

The clock of the service alone is set, by the library of ``faketime``; the time that passes is left in peace.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from bench.crash.clock_jumps import faked, library

from tests.service.harness import Hookline, Receiver, new_id, wait_until, webhook

HOUR, DAY = 3_600, 86_400
JUMPS = {"an hour ahead": HOUR, "an hour back": -HOUR, "40 days ahead": 40 * DAY, "40 days back": -40 * DAY}
SAMPLE = ("an hour back", "40 days ahead", "1970")
"""Within the retry window, beyond retention, and before all that is known: one of each in every run."""
TRIED = (*JUMPS, "1970") if os.environ.get("HOOKLINE_TEST_CLOCK_JUMPS") == "all" else SAMPLE
SETTINGS = {"deliver.retry_first": "100ms", "deliver.retry_max": "1s"}
SEGMENT_EVENTS = 24
"""Batches that fill the first segment of a journal, and begin the second."""


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    """The file that says by how much the service's wall clock is off."""
    path = tmp_path / "clock"
    path.write_text("+0")
    return path


@pytest.fixture
def service(new_hookline: Callable[..., Hookline], receiver: Receiver, clock: Path) -> Hookline:
    """A service with a faked wall clock and one destination."""
    preload = library()
    assert preload is not None, "scripts/test-needs.sh installs faketime"
    return new_hookline(webhook("crm", receiver.url()), settings=SETTINGS, environment=faked(clock, preload)).start()


def by(jump: str) -> int:
    """How far the clock is set."""
    return JUMPS[jump] if jump in JUMPS else -int(time.time()) + DAY


def set_clock(clock: Path, jump: str) -> None:
    """Set the service's clock; roles that run hear of it within a second."""
    written = clock.with_suffix(".new")
    written.write_text(f"{by(jump):+d}")
    written.replace(clock)  # never empty: roles read it whenever they like


def has_jumped(at: str, jump: str) -> bool:
    """Whether a time that the service tells is one after the jump."""
    return abs(datetime.fromisoformat(at).timestamp() - time.time() - by(jump)) < HOUR / 2


def last_try(hookline: Hookline, message_id: str) -> str:
    """When an event was tried last, by the service's clock."""
    return str(hookline.status_at(message_id, "crm")["attempts"][-1]["at"])


def fill(hookline: Hookline) -> list[str]:
    """Fill the first segment of the journal; return the ids of its first events, and that of the newest one."""
    padding = "x" * 20_000
    batches = [[_event(padding) for _ in range(20)] for _ in range(SEGMENT_EVENTS)]
    for batch in batches:
        assert hookline.post("/v1/batch", {"batch": batch}).status == 200
    wait_until(lambda: len(list((hookline.data / "journal" / "0").glob("*.seg"))) > 1, what="a second segment")
    return [str(event["messageId"]) for event in (*batches[0], batches[-1][-1])]


def _event(padding: str) -> dict[str, Any]:
    return {"type": "track", "event": "Test", "userId": "u1", "messageId": new_id(), "properties": {"x": padding}}


@pytest.mark.parametrize("jump", TRIED)
def test_what_waits_is_delivered(service: Hookline, receiver: Receiver, clock: Path, jump: str) -> None:
    """Events that were refused for a while are tried again as if nothing had been set, in their window and in time;
    events accepted meanwhile are delivered; a resent one is still a repeat."""
    receiver.reply_with(503)
    waiting = [service.track() for _ in range(5)]
    for message_id in waiting:
        receiver.wait_for(message_id)
    set_clock(clock, jump)
    meanwhile = [service.track() for _ in range(5)]
    wait_until(lambda: has_jumped(last_try(service, waiting[0]), jump), what="deliver's clock has jumped")
    assert service.track(message_id=waiting[0]) == waiting[0]
    receiver.reply_with(200)
    for message_id in (*waiting, *meanwhile):
        service.wait_status(message_id, "crm", "delivered")
    assert service.event(waiting[0])["duplicates"] == 1  # type: ignore[index]
    assert service.api("GET", "dead-letters").json["items"] == []


@pytest.mark.parametrize("jump", TRIED)
def test_across_a_restart_nothing_goes(service: Hookline, receiver: Receiver, clock: Path, jump: str) -> None:
    """Retention looks as collect starts: no segment goes, what waits is delivered, and new events too."""
    first = fill(service)
    receiver.wait_for(first[-1])
    receiver.reply_with(503)
    waiting = service.track()
    receiver.wait_for(waiting)
    service.stop()
    segments = sorted(path.name for path in (service.data / "journal" / "0").glob("*.seg"))
    set_clock(clock, jump)
    service.start()
    receiver.reply_with(200)
    service.wait_status(waiting, "crm", "delivered")
    service.wait_status(service.track(), "crm", "delivered")
    assert [name for name in segments if not (service.data / "journal" / "0" / name).exists()] == []
    assert service.status_at(first[0], "crm")["status"] == "delivered"
    assert service.api("GET", "dead-letters").json["items"] == []
