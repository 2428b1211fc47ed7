"""``hookline doctor`` beside a service, and without one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.service.cli.conftest import Run, environment
from tests.service.harness import Hookline, Receiver, wait_until, webhook

Visit = tuple[int, dict[str, str], dict[str, list[dict[str, Any]]]]


def visit(run: Run, hookline: Hookline) -> Visit:
    """Exit code, settings by key as ``value (source)``, and findings by check."""
    done: subprocess.CompletedProcess[str] = run(hookline, "doctor", "--json")
    answer = json.loads(done.stdout)
    settings = {each["key"]: f"{each['value']} ({each['source']})" for each in answer["settings"]}
    findings: dict[str, list[dict[str, Any]]] = {}
    for each in answer["findings"]:
        findings.setdefault(each["check"], []).append(each)
    assert answer["ok"] is (done.returncode == 0)
    return done.returncode, settings, findings


def wrong(findings: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """What is wrong, by check; each says what to do."""
    failed = {name: each for name, all_of_it in findings.items() for each in all_of_it if each["status"] == "fail"}
    assert all(each["nextStep"] for each in failed.values())
    return {name: each["message"] for name, each in failed.items()}


def test_a_healthy_service_passes(receiver: Receiver, new_hookline: Callable[..., Hookline], run: Run) -> None:
    """Everything is looked at; settings are the server's own with their origin; nothing secret is shown."""
    settings = {"control.admin_token": "a-token-of-the-settings-0815", "notices.disk_free": "0"}
    hookline = new_hookline(webhook("crm", receiver.url()), settings=settings)
    hookline.environment = {"HOOKLINE_RETENTION_BYTES": "100MB"}
    (hookline.folder).mkdir(exist_ok=True)
    hookline.launch()
    (hookline.folder / "hookline.yaml").chmod(0o600)
    hookline.wait_ready()
    wait_until(lambda: len(list((hookline.data / "run").glob("metrics-*.json"))) == 3)
    code, shown, findings = visit(run, hookline)
    assert (code, wrong(findings)) == (0, {})
    assert shown["retention.bytes"] == f"{100 * 1024**2} (env HOOKLINE_RETENTION_BYTES)"
    assert shown["control.admin_token"] == f"…0815 (file {hookline.folder / 'hookline.yaml'})"
    assert shown["deliver.timeout"] == "5.0 (default)"
    assert [each["status"] for each in findings["roles"] + findings["ports"]] == ["ok"] * 3
    assert "valid and applied" in findings["connections"][0]["message"]
    assert len(findings) == 19
    text = run(hookline, "doctor").stdout
    assert "Settings of the running server" in text
    assert re.search(r"  collect\.rate_limit_per_address  none +default$", text, re.MULTILINE), "the longest name"
    assert "a-token-of" not in text
    hookline.stop()


def test_a_service_that_does_not_run_is_looked_at_too(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """Its folder, its connections and its ports; that it does not run is not wrong by itself."""
    with new_hookline(settings={"notices.disk_free": "0"}) as hookline:
        pass
    code, _, findings = visit(run, hookline)
    assert (code, wrong(findings)) == (0, {})
    assert "does not run" in findings["roles"][0]["message"]
    assert all("is free" in each["message"] for each in findings["ports"])
    (hookline.data / "admin-token").chmod(0o644)
    (hookline.folder / "connections.yaml").write_text("sources: [{id: 1}]")
    code, _, findings = visit(run, hookline)
    assert (code, set(wrong(findings))) == (1, {"permissions", "connections"})


def test_a_data_folder_named_from_here_is_the_servers(new_hookline: Callable[..., Hookline]) -> None:
    """A settings file that says ``data_dir: data`` is in force: nothing is to be restarted for it."""
    with new_hookline() as hookline:
        hookline.settings["data_dir"] = hookline.data.name
        hookline.write_files()
        line = [sys.executable, "-m", "hookline.cli.main", "doctor", "--json"]
        done = subprocess.run(
            line, cwd=hookline.folder, env=environment(), capture_output=True, check=False, timeout=60
        )
    findings = [each["message"] for each in json.loads(done.stdout)["findings"] if each["check"] == "settings"]
    assert findings == ["all can be used"]


def test_a_receiver_that_is_gone_is_named(receiver: Receiver, new_hookline: Callable[..., Hookline], run: Run) -> None:
    """So is a file that is not applied; what is only different is no failure."""
    receiver.reply_with(410)
    with new_hookline(webhook("crm", receiver.url()), settings={"notices.disk_free": "0"}) as hookline:
        hookline.track()
        wait_until(lambda: hookline.api("GET", "destinations/crm/metrics").json["paused"])
        document = json.loads((hookline.folder / "connections.yaml").read_text())
        document["destinations"][0]["name"] = "Another name"
        (hookline.folder / "connections.yaml").write_text(json.dumps(document))
        code, _, findings = visit(run, hookline)
        assert (code, "crm" in wrong(findings)["destinations"]) == (1, True)
        assert "not applied: 1 object would change" in findings["connections"][0]["message"]
        assert findings["connections"][0]["status"] == "warn"


def test_a_database_that_is_away_is_a_finding(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """And no line of the log stands in the answer."""
    hookline = new_hookline(settings={"database.url": "postgresql://127.0.0.1:1/hookline"})
    hookline.write_files()
    code, _, findings = visit(run, hookline)
    assert (code, wrong(findings)["database"][:28]) == (1, "PostgreSQL cannot be reached")


def test_settings_that_cannot_be_read_are_the_finding(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """The key is named, and the exit code is 1: the visit itself went well."""
    hookline = new_hookline()
    hookline.write_files()
    (hookline.folder / "hookline.yaml").write_text("deliver: {timeuot: 5s}")
    code, _, findings = visit(run, hookline)
    assert (code, "deliver.timeout" in wrong(findings)["settings"]) == (1, True)
