"""Trying a destination at once over the API: with an open breaker, with retries that wait, and with nothing to try."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.cli.admin_api import AdminApi
from hookline.features.destinations.cli import try_waiting
from hookline.features.events import attempt_search
from tests.unit.control.running import TOKEN, Running
from tests.unit.deliver.rig import Rig, destination, source


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A deliver role with sixty events for crm."""
    (tmp_path / "run").mkdir()
    made = Rig(tmp_path)
    made.change(source(), destination("crm"))
    made.start()
    made.append(*(f"m{n}" for n in range(60)))
    made.turn()
    yield made
    made.close()


def hear(rig: Rig) -> None:
    """Deliver learns of what was asked for: it looks every quarter of a second, and saves every tenth."""
    rig.follow()
    rig.checkpoint()
    rig.pass_time(0.05)


def test_an_open_breaker_is_probed_at_once(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """Minutes into an outage one event is sent within a moment, on the record; what waits follows its success at once,
    although its own next attempts were far away."""
    for _ in range(600):
        rig.answer_all(503)
        rig.checkpoint()
        rig.pass_time(1.0)
    rig.answer_all(503)
    rig.checkpoint()
    assert rig.lane("crm").probe_at_seconds > rig.clock.seconds + 10
    with Running(rig.folder) as control:
        answer = control.api("POST", "/destinations/crm/try")
        assert (answer.status, answer.json["state"], answer.json["tries"]) == (202, "erroring", "oldest")
        figures = answer.json["figures"]
        assert figures["retrying"] == rig.lane("crm").retry_count
        assert figures["retrying"] + figures["queued"] == 60
        hear(rig)
        assert len(rig.network.waiting) == 1
        entry = control.api("GET", "/audit-log").json["items"][0]
        assert (entry["action"], entry["target"]) == ("try_destination", "destinations/crm")
        rig.answer_all(503)  # not well yet: asked again after a second, not after a minute
        rig.pass_time(1.1)
        assert len(rig.network.waiting) == 1
        assert try_waiting(AdminApi(f"http://127.0.0.1:{control.port}", TOKEN), "crm", as_json=False) == 0
        assert "the oldest queued event is sent now" in capsys.readouterr().out
    hear(rig)
    for _ in range(20):
        rig.answer_all(200)
        rig.checkpoint()
        rig.pass_time(0.05)
    assert rig.at_rest()


def test_what_waits_for_another_attempt_is_sent_at_once(rig: Rig) -> None:
    """With a closed breaker too, and also what the receiver asked to send in an hour."""
    first, *others = list(rig.network.waiting)
    rig.answer(first, 503, retry_after=b"3600")
    for request in others:
        rig.answer(request, 200)
    rig.answer_all(200)
    rig.checkpoint()
    with Running(rig.folder) as control:
        assert control.api("POST", "/destinations/crm/try").json["tries"] == "retries"
        hear(rig)
    assert [request.delivery.attempt for request in rig.network.waiting] == [2]


def test_what_cannot_be_tried_is_said(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits, it is paused, it does not exist."""
    monkeypatch.setattr(attempt_search, "SEARCH_SECONDS_MAX", 60.0)  # a busy machine needs more than one to look once
    rig.answer_all(200)
    rig.checkpoint()
    with Running(rig.folder) as control:
        answer = control.api("POST", "/destinations/crm/try")
        assert (answer.status, answer.json["code"]) == (409, "nothing_waits")
        assert answer.json["detail"].startswith("No event waits for crm now. The last one was delivered at 20")
        control.api("POST", "/destinations/crm/pause", {})
        answer = control.api("POST", "/destinations/crm/try")
        assert (answer.status, answer.json["code"]) == (409, "not_delivering")
        assert control.api("POST", "/destinations/none/try").status == 404
