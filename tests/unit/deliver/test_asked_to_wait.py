"""A burst of ``Retry-After``: the destination is said to wait, for what and until when, and is asked again in time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.cli.admin_api import AdminApi
from hookline.events.timestamps import iso
from hookline.features.destinations.pages.view import destination_views
from hookline.features.destinations.state import NextTry
from hookline.features.insights.cli import print_destination
from hookline.features.notices.conditions.finding import NEXT_PROBE
from tests.unit.control.running import TOKEN, Running
from tests.unit.deliver.rig import Rig, destination, source

BURST = (b"3600", b"30000", b"31536000", b"999999999999999999", b"Fri, 31 Dec 2066 23:59:59 GMT")
"""An hour, milliseconds that were meant, a year, and two that never come."""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A deliver role whose receiver has just taken a thousand events, with two hundred more under way or waiting."""
    (tmp_path / "run").mkdir()
    made = Rig(tmp_path)
    made.change(source(), destination("crm"))
    made.start()
    made.append(*(f"before{n}" for n in range(1_000)))
    made.turn()
    made.answer_all(200)
    made.append(*(f"m{n}" for n in range(200)))
    made.turn()
    yield made
    made.close()


def burst(rig: Rig, retry_after: bytes) -> None:
    """Everything under way is answered 429, until nothing more is sent."""
    while rig.network.waiting:
        rig.answer(rig.network.waiting[0], 429, retry_after=retry_after)
        rig.turn()
    rig.checkpoint()


@pytest.mark.parametrize("retry_after", BURST)
def test_a_burst_opens_the_breaker_until_the_receiver_is_asked(rig: Rig, retry_after: bytes) -> None:
    """However long it asks to wait: after ``retry_max`` one event goes, and at once what was never tried."""
    burst(rig, retry_after)
    lane = rig.lane("crm")
    tried = {request.offset for request in rig.network.sent}
    assert lane.breaker.state == "open"
    assert 590 < lane.probe_at_seconds - rig.clock.seconds <= 600
    rig.pass_time(599)
    assert not rig.network.waiting
    rig.pass_time(1.1)
    assert len(rig.network.waiting) == 1
    for _ in range(30):
        rig.answer_all(200)
        rig.checkpoint()
        rig.pass_time(0.1)
    assert {request.offset for request in rig.network.sent} - tried == set(range(1_000, 1_200)) - tried


def test_it_is_said_what_a_destination_waits_for(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """API, page, metrics and command line say that the receiver is asked next, and when, though until the burst it had
    taken nearly all."""
    burst(rig, b"3600")
    until = iso(rig.clock.now_ms() + round((rig.lane("crm").probe_at_seconds - rig.clock.seconds) * 1000))
    with Running(rig.folder) as control:
        rig.loop.run_until_complete(rig.role.reports.publish())  # here: an old report is none
        standing = control.api("GET", "/destinations/crm/metrics").json
        assert (standing["state"], standing["nextTry"]) == ("throttling", {"what": "probe", "at": until})
        (view,) = destination_views(control.services, control.services.store.destinations())
        assert (view.word, view.standing.next_try) == ("Throttling (429)", NextTry("probe", until))
        assert f'{NEXT_PROBE}{{destination="crm"}}' in control.call("GET", "/metrics").text
        print_destination(AdminApi(f"http://127.0.0.1:{control.port}", TOKEN), "crm", "1h", as_json=False)
    assert f"; the next probe is sent at {until}" in capsys.readouterr().out


def test_it_is_said_what_a_few_events_wait_for(rig: Rig) -> None:
    """Where all that waits was tried, it is said when the first of it is tried again."""
    rig.answer(rig.network.waiting[0], 503, retry_after=b"3600")
    rig.answer_all(200)
    rig.checkpoint()
    with Running(rig.folder) as control:
        waits = control.api("GET", "/destinations/crm/metrics").json["nextTry"]
    assert waits["what"] == "retry"
    assert waits["at"] is not None
