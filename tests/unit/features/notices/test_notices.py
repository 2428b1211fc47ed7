"""``/api/v1/notices``."""

from __future__ import annotations

import pytest

from hookline.features.notices.conditions.finding import Finding
from hookline.features.notices.service import notice_log
from hookline.features.overview.api import NOTICES_MAX
from tests.unit.control.running import Running
from tests.unit.features.accounts.test_access import sign_in

NOW_MS = 1_760_000_000_123


@pytest.fixture
def control(control_on_both: Running) -> Running:
    """Each test once in files and once in PostgreSQL."""
    return control_on_both


def fill(control: Running) -> None:
    """Three notices; the first is resolved, and the second is of another kind."""
    findings = [Finding("source_silent", "a", "x"), Finding("role_down", "b", "x"), Finding("source_silent", "c", "x")]
    notice_log(control.services).settle([(each, 0) for each in findings], [], [1], NOW_MS, [])


def subjects(control: Running, query: str = "") -> list[str]:
    """The subjects listed."""
    return [each["subject"] for each in control.api("GET", f"/notices{query}").json["items"]]


def test_lists_are_filtered_and_paged(control: Running) -> None:
    """Newest first; open, resolved, of one kind, about one thing; following `after` visits each once."""
    fill(control)
    assert subjects(control) == ["c", "b", "a"]
    assert subjects(control, "?state=open") == ["c", "b"]
    assert subjects(control, "?state=resolved") == ["a"]
    assert subjects(control, "?kind=source_silent&state=open") == ["c"]
    assert subjects(control, "?subject=b") == ["b"]
    first = control.api("GET", "/notices?limit=2").json
    rest = control.api("GET", f"/notices?limit=2&after={first['after']}").json
    assert [each["id"] for each in first["items"] + rest["items"]] == [3, 2, 1]
    assert rest["after"] is None


def test_one_notice_says_everything(control: Running) -> None:
    """What, how bad, since when, and what to do."""
    fill(control)
    assert control.api("GET", "/notices/2").json == {
        "id": 2,
        "kind": "role_down",
        "severity": "critical",
        "subject": "b",
        "message": "Role b is not running: x.",
        "nextStep": "Check its last log lines and start it again. hookline up restarts it automatically.",
        "count": 1,
        "since": "2025-10-09T08:53:20.123Z",
        "openedAt": "2025-10-09T08:53:20.123Z",
        "lastSeenAt": "2025-10-09T08:53:20.123Z",
        "resolvedAt": None,
        "acknowledgedAt": None,
        "webhooksWaiting": 0,
        "webhookError": None,
        "page": "",
    }


def test_no_number_of_lesser_notices_hides_a_severe_one(control: Running) -> None:
    """The status and the overview show the most severe first: the status is not good while it only leaves one out."""
    severe = Finding("disk_nearly_full", "data_dir", "1 MB free")
    paused = [Finding("destination_paused", f"d{number}", "since then") for number in range(NOTICES_MAX)]
    notice_log(control.services).settle([(each, 0) for each in (severe, *paused)], [], [], NOW_MS, [])
    status = control.api("GET", "/status").json
    assert (status["ok"], status["notices"][0]["kind"]) == (False, severe.kind)
    control.api("POST", "/notices/1/acknowledge")
    assert control.api("GET", "/status").json["ok"]
    shown = notice_log(control.services).worst(NOTICES_MAX + 1, with_acknowledged=True)
    assert [each.id for each in shown] == [*range(NOTICES_MAX + 1, 1, -1), 1], "what somebody has seen comes last"


def test_acknowledging_is_noted_once(control: Running) -> None:
    """The first time stays, and the notice stays open."""
    fill(control)
    first = control.api("POST", "/notices/2/acknowledge").json
    assert first["acknowledgedAt"] is not None
    assert control.api("POST", "/notices/2/acknowledge").json == first
    assert subjects(control, "?state=open") == ["c", "b"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/notices/99", 404, "not_found"),
        ("GET", "/notices/x", 404, "not_found"),
        ("POST", "/notices/99/acknowledge", 404, "not_found"),
        ("GET", "/notices?state=new", 400, "invalid_parameter"),
        ("GET", "/notices?after=x", 400, "invalid_parameter"),
    ],
)
def test_what_is_not_there_or_cannot_be_asked(asked: Running, method: str, path: str, status: int, code: str) -> None:
    """Each is a problem with its code."""
    answer = asked.api(method, path)
    assert (answer.status, answer.json["code"]) == (status, code)


def test_what_was_acknowledged_takes_nobodys_place_on_the_overview(control: Running) -> None:
    """An older notice that nobody has seen is shown before newer ones that somebody has."""
    seen = [Finding("source_silent", f"s{number:02}", "x") for number in range(12)]
    notice_log(control.services).settle([(Finding("role_down", "b", "x"), 0)], [], [], NOW_MS, [])
    notice_log(control.services).settle([(each, 0) for each in seen], [], [], NOW_MS, [])
    for id in range(2, 14):
        control.api("POST", f"/notices/{id}/acknowledge")
    page = control.call("GET", "/", headers=sign_in(control), token=False).text
    assert "Role b is not running" in page
    assert [f"Source {each.subject} is silent" in page for each in seen] == [False] * 3 + [True] * 9
