"""The audit log: who did what, when and from where, with what it was before and after."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from hookline.api.audit import log as module
from hookline.api.audit.log import (
    HOUR_MS,
    KEPT_MS,
    REFUSED_KEPT_MS,
    ROWS_PER_HOUR_MAX,
    AuditChange,
    AuditLog,
    audit_log,
)
from hookline.api.caller import Caller
from hookline.api.services import control_database
from hookline.database.location import location_of
from hookline.database.sqlite import OperationalError
from hookline.features.dead_letters import api as dead_letters
from hookline.replays.store import ReplayFeed
from tests.unit.control.running import TOKEN, WAIT_SECONDS, Running, destination, record, source, wait_until
from tests.unit.features.accounts.test_sign_in import cookie_of, login
from tests.unit.features.accounts.test_users import as_browser, join, owner
from tests.unit.features.dead_letters.test_dead_letters import fill

OLGA = Caller("account", "olga", "owner", 1)
SECRET = "a-long-shared-secret-9876"


@pytest.fixture
def control(control_on_both: Running) -> Running:
    """Each test once in files and once in PostgreSQL."""
    return control_on_both


def entries(control: Running, query: str = "") -> list[dict[str, object]]:
    """What is on record, newest first."""
    items: list[dict[str, object]] = control.api("GET", f"/audit-log{query}").json["items"]
    return items


def test_a_change_is_on_record_field_by_field(control: Running) -> None:
    """Creating, changing and deleting each leave an entry with object, version, and what became of each field."""
    control.api("POST", "/sources", source())
    control.api("PATCH", "/sources/site", {"name": "New"})
    control.api("DELETE", "/sources/site")
    deleted, changed, created = entries(control)
    assert [each["action"] for each in (created, changed, deleted)] == [
        "create_source",
        "patch_source",
        "delete_source",
    ]
    assert {each["target"] for each in (created, changed, deleted)} == {"sources/site"}
    assert changed["changes"] == [{"object": "sources/site", "path": "name", "before": "Site", "after": "New"}]
    assert (changed["actor"], changed["address"], changed["version"]) == ("admin token", "127.0.0.1", 2)


def test_secrets_are_masked(control: Running) -> None:
    """A secret that is set, rotated or made up is in no entry; that it changed is."""
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination(secret=SECRET))
    control.api("POST", "/destinations/crm/rotate-secret", {"secret": "quite-another-secret-1234"})
    text = control.api("POST", "/tokens", {"name": "ci"}).json["text"]
    link = control.api("POST", "/users", {"name": "vera"}).json["link"]
    dump = control.api("GET", "/audit-log").text
    for secret in (SECRET, "quite-another-secret", text, link.rpartition("/")[2]):
        assert secret not in dump
    assert "settings.sharedSecret" in dump


def test_pausing_and_resuming_are_on_record(control: Running) -> None:
    """What is done to a lane is a change like any other."""
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination())
    control.api("POST", "/destinations/crm/pause", {"reason": "they deploy"})
    newest = entries(control)[0]
    assert (newest["action"], newest["target"]) == ("pause_destination", "destinations/crm")
    assert newest["changes"] == [
        {"object": "destinations/crm", "path": "", "before": None, "after": "paused: they deploy"}
    ]


def test_a_replay_is_on_record(control: Running) -> None:
    """What was asked for when it was made, and each change of its state; an old tag changes nothing."""
    control.append(record("m1"))
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination())
    id = control.api("POST", "/replays", {"destination": "crm", "event": "Test"}).json["id"]
    tag = control.api("GET", f"/replays/{id}").headers["etag"]
    control.api("POST", f"/replays/{id}/pause")
    paused, created = entries(control)[:2]
    assert {"object": f"replays/{id}", "path": "event", "before": None, "after": "Test"} in created["changes"]  # type: ignore[operator]
    assert control.api("POST", f"/replays/{id}/pause").status == 200
    assert entries(control)[0] == paused, "to pause it again changes nothing"
    change = {"object": f"replays/{id}", "path": "state", "after": "paused"}
    assert paused["changes"] in ([change | {"before": "preparing"}], [change | {"before": "running"}])
    stale = control.call("PATCH", f"/api/v1/replays/{id}", {"rate": 5}, {"If-Match": tag})
    assert (stale.status, stale.json["code"]) == (412, "changed_meanwhile")


def test_a_log_that_cannot_be_written_undoes_no_answer(
    control: Running, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The change is made, so the answer says so, and the log of the server has who did it."""

    def full(*_: object, **__: object) -> None:
        raise OperationalError("database or disk is full")

    monkeypatch.setattr(audit_log(control.services), "record", full)
    assert control.api("POST", "/sources", source()).status == 201
    assert "audit_log_failed" in "".join(capfd.readouterr())


def test_refused_calls_and_dry_runs_leave_nothing(control: Running) -> None:
    """What changed nothing is no entry: a refusal, a look at what a file would change, a test of filters."""
    control.api("POST", "/sources", {"id": "site"})
    control.api("POST", "/connections/apply", {"document": "sources: []", "dryRun": True})
    control.api("GET", "/sources")
    assert entries(control) == []


def test_what_nobody_else_sees_is_not_on_record(control: Running) -> None:
    """Whoever may only read can save views of their own again and again, and pushes out nothing that others did."""
    vera, emma = (owner(control), join(control, "vera", "viewer"), join(control, "emma", "editor"))[1:]
    before = len(entries(control))
    merge = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/merge-patch+json"}

    def save(cookie: str, **view: object) -> str:
        made = as_browser(control, "POST", "/views", cookie, {"name": "Mine", "path": "/events", **view})
        return str(made.json["id"])

    def change(id: str, cookie: str, **fields: object) -> int:
        return control.call("PATCH", f"/api/v1/views/{id}", fields, {**merge, "Cookie": cookie}, token=False).status

    mine = save(vera)
    assert change(mine, vera, name="Still mine") == 200
    assert as_browser(control, "DELETE", f"/views/{mine}", vera).status == 204
    assert as_browser(control, "POST", "/users/me/sign-out-others", vera).json == {"sessions": 0}
    assert len(entries(control)) == before
    ours = save(emma, name="Ours", shared=True)
    changes: tuple[dict[str, object], ...] = ({"name": "Ours"}, {"shared": False}, {"shared": True})
    assert [change(ours, emma, **fields) for fields in changes] == [200] * 3
    assert as_browser(control, "DELETE", f"/views/{ours}", emma).status == 204
    newest = [each["action"] for each in entries(control)[: len(entries(control)) - before]]
    assert newest == ["delete_view", "change_view", "change_view", "save_view"]


NO_CHANGES: tuple[tuple[str, str, object], ...] = (
    ("PATCH", "/sources/site", {"name": "Site"}),
    ("PUT", "/sources/site", source()),
    ("PATCH", "/destinations/crm", {"enabled": True}),
    ("POST", "/destinations/crm/resume", {}),
    ("POST", "/destinations/crm/remove-old-secrets", {}),
    ("POST", "/connections/apply", {"document": "{}"}),
    ("POST", "/dead-letters/retry", {}),
    ("POST", "/dead-letters/discard", {}),
    ("POST", "/suppressions/lift", {"userId": "nobody"}),
    ("PATCH", "/users/u1", {"role": "owner"}),
    ("POST", "/users/u1/sign-out", {}),
)


@pytest.mark.parametrize(("method", "path", "body"), NO_CHANGES)
def test_what_changes_nothing_is_not_on_record(control: Running, method: str, path: str, body: object) -> None:
    """The same request again and again would push out what others did."""
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination())
    control.api("POST", "/users", {"name": "olga", "role": "owner"})
    before = entries(control)
    assert control.api(method, path, body).status == 200
    assert entries(control) == before


def test_sign_ins_are_on_record(control: Running) -> None:
    """Those that succeed, those that fail, and the way out; what was typed as a name is not kept."""
    login(control, "wrong", account="maybe-a-password")
    login(control, TOKEN)
    assert [(each["action"], each["actor"], each["target"]) for each in entries(control)] == [
        ("sign_in", "admin token", "sessions"),
        ("sign_in_failed", "nobody", "unknown account"),
    ]
    assert "maybe-a-password" not in control.api("GET", "/audit-log").text


def test_it_is_filtered_and_comes_in_pages(control: Running) -> None:
    """By actor, action, object and time; following `after` visits everything once."""
    for name in ("a", "b", "c"):
        control.api("POST", "/sources", source(name))
    assert [each["target"] for each in entries(control, "?target=sources/b")] == ["sources/b"]
    assert entries(control, "?actor=somebody") == []
    assert entries(control, "?action=delete_source") == []
    assert len(entries(control, "?from=2026-01-01T00:00:00Z")) == 3
    assert entries(control, "?to=2026-01-01T00:00:00Z") == []
    first = control.api("GET", "/audit-log?limit=2").json
    assert [each["target"] for each in first["items"]] == ["sources/c", "sources/b"]
    assert [each["target"] for each in entries(control, f"?limit=2&after={first['after']}")] == ["sources/a"]
    assert control.api("GET", "/audit-log?after=x").status == 400
    assert control.api("GET", "/audit-log?from=yesterday").status == 400


def test_an_entry_names_its_request(control: Running) -> None:
    """The caller's own request id is in the answer and in the entry; one that could do harm is replaced."""
    headers = {"X-Request-Id": "deploy-4711"}
    answer = control.call("POST", "/api/v1/sources", source(), headers)
    assert answer.headers["x-request-id"] == "deploy-4711"
    (entry,) = entries(control)
    assert entry["requestId"] == "deploy-4711"
    assert control.api("GET", f"/audit-log/{entry['id']}").json == entry
    assert control.call("GET", "/healthz", headers={"X-Request-Id": "a b"}).headers["x-request-id"] != "a b"


def test_it_is_bounded(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest entries go when there are too many, and when they are more than a year old."""
    now = 1_000_000
    log = AuditLog(control_database(control.services), now_ms=lambda: now)
    monkeypatch.setattr(module, "KEPT_ROWS_MAX", 3)
    monkeypatch.setattr(module, "IDS_OF_STRANGERS_MAX", 0)
    for number in range(5):
        log.record(OLGA, f"do_{number}", "", "", "")
    assert [entry.action for entry in log.newest(10)] == ["do_4", "do_3", "do_2"]
    now += KEPT_MS + 1
    log.record(OLGA, "later", "", "", "")
    assert [entry.action for entry in log.newest(10)] == ["later"]


def test_a_clock_set_forward_takes_nothing(control: Running) -> None:
    """Rows go when the service's own clock says that a year is over, whatever the wall clock became."""
    now = steady = 10 * KEPT_MS
    log = AuditLog(control_database(control.services), now_ms=lambda: now, steady_ms=lambda: steady)
    log.record(OLGA, "a", "x/1", "", "")
    now += 2 * KEPT_MS
    log.record(OLGA, "b", "x/1", "", "")
    assert [entry.action for entry in log.newest(2)] == ["b", "a"]


def test_a_large_change_is_cut_and_says_so(control: Running) -> None:
    """An entry has a bound; how much is left out is in it."""
    log = audit_log(control.services)
    log.record(OLGA, "b", "c", "", "", [AuditChange("x", str(number), None, "y" * 1000) for number in range(50)])
    (entry,) = log.newest(1)
    assert entry.changes[-1].after == f"and {50 - len(entry.changes) + 1} more"


def test_what_strangers_try_is_counted(control: Running, capfd: pytest.CaptureFixture[str]) -> None:
    """Hundreds of wrong links and tokens from an address are an entry each, with how often and since when."""
    for _ in range(100):
        control.call("GET", "/open/wrong", token=False)
        login(control, "wrong")
    token, link = entries(control)
    assert [(each["target"], each["count"], each["actorKind"]) for each in (link, token)] == [
        ("one-time link", 100, "nobody"),
        ("admin token", 100, "nobody"),
    ]
    assert str(link["at"]) <= str(link["lastAt"])
    assert "".join(capfd.readouterr()).count("sign_in_failed") <= 2


def test_strangers_push_nothing_out(control: Running) -> None:
    """In a day of tries from ever new addresses there are a hundred rows an hour at most, and what people did stays."""
    now = 1_000 * HOUR_MS
    log = AuditLog(control_database(control.services), now_ms=lambda: now)
    log.record(OLGA, "create_source", "sources/site", "", "")
    for hour in range(24):
        now += HOUR_MS
        for number in range(3 * ROWS_PER_HOUR_MAX):
            log.count_refused("sign_in_failed", "admin token", f"10.0.{hour}.{number % 256}", "")
    found = log.newest(10_000)
    assert len(found) <= 24 * ROWS_PER_HOUR_MAX + 1
    assert sum(entry.count or 0 for entry in found) == 24 * 3 * ROWS_PER_HOUR_MAX
    assert found[-1].action == "create_source"
    for _ in range(20):
        now += REFUSED_KEPT_MS + 1
        log.count_refused("sign_in_failed", "admin token", "10.0.0.1", "")
    assert [entry.actor_kind for entry in log.newest(10_000)] == ["nobody", "account"]


def test_counts_survive_a_restart(control: Running) -> None:
    """What was counted is written down at the end; a disk that refuses loses nothing of it."""
    log = AuditLog(control_database(control.services))
    for _ in range(7):
        log.count_refused("sign_in_failed", "admin token", "10.0.0.1", "")
    log.flush()
    assert [entry.count for entry in AuditLog(control_database(control.services)).newest(10)] == [7]


def test_an_entry_says_what_kind_of_actor_it_is_of(control: Running) -> None:
    """An account that was called like the admin token before that was refused is told from it, also by its name."""
    log = AuditLog(control_database(control.services))
    for caller in (
        Caller("admin_token", "admin token", "owner"),
        Caller("account", "admin token", "owner", 1),
        Caller("token", "ci", "owner", 1),
        Caller("account", "Token ci", "owner", 2),
    ):
        log.record(caller, "a", "", "", "")
    assert [(entry.actor, entry.actor_kind) for entry in reversed(log.newest(10))] == [
        ("admin token", "admin_token"),
        ("account admin token", "account"),
        ("token ci", "token"),
        ("account Token ci", "account"),
    ]


def test_the_page_shows_counts_and_kinds(control: Running) -> None:
    """Who looks at the log sees how often strangers were refused, and which of the actors are accounts."""
    for _ in range(12):
        control.call("GET", "/open/wrong", token=False)
    audit_log(control.services).record(OLGA, "create_source", "sources/site", "", "")
    cookie = cookie_of(login(control, TOKEN))
    shown = control.call("GET", "/settings/audit-log", headers={"Cookie": cookie}, token=False).text
    assert "12 ×" in shown
    assert '<bdi>olga</bdi> <span class="muted">account</span>' in shown
    (entry,) = [each for each in entries(control) if each["count"]]
    assert (
        "12 ×"
        in control.call("GET", f"/settings/audit-log/{entry['id']}", headers={"Cookie": cookie}, token=False).text
    )


def test_what_a_stop_cuts_short_is_on_record(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A discard that waits for deliver is asked for when control stops, and will be carried out: the log has it."""
    monkeypatch.setattr(dead_letters, "DISCARD_SECONDS", WAIT_SECONDS)
    fill(control, 1)
    asked = ReplayFeed(location_of(control.settings, "control"))
    with ThreadPoolExecutor(1) as caller:
        answer = caller.submit(control.api, "POST", "/dead-letters/discard", {"destination": "erp"})
        wait_until(lambda: asked.actions(0))
        control.stop()
        assert answer.result().json["code"] == "stopping"
    (entry,) = audit_log(control.services).newest(10)
    assert (entry.action, entry.actor) == ("discard_dead_letters", "admin token")
    assert [each.path for each in entry.changes] == ["discarded"]
