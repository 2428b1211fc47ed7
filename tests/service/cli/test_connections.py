"""Connections as a file: check, diff, apply, export."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.service.cli.conftest import Run
from tests.service.harness import Hookline, Receiver, webhook

FILE = {
    "sources": [{"id": "app", "name": "App", "type": "mobile", "writeKeys": ["wk_app"]}],
    "destinations": [
        {
            "id": "crm",
            "name": "CRM",
            "sources": ["app"],
            "settings": {"webhooks": [{"url": "https://crm.example.com/"}], "sharedSecret": "s3cret-s3cret"},
        }
    ],
}


DROP = {"if": 'event = "Heartbeat"', "do": "drop"}


def test_a_file_is_compared_applied_and_exported_and_a_change_undone(
    new_hookline: Callable[..., Hookline], run: Run
) -> None:
    """diff changes nothing, apply does what it announced, a second apply nothing, and export can be applied; history
    lists a change, shows its fields, and rollback undoes it after a look; what is no longer in the file stays until its
    deletion is asked for."""
    with new_hookline(sources=[]) as hookline:
        file = hookline.folder / "more.yaml"
        file.write_text(json.dumps(FILE))
        assert "+ destination crm" in run(hookline, "diff", str(file)).stdout
        assert hookline.api("GET", "destinations/crm").status == 404
        assert "+ source app" in run(hookline, "apply", str(file)).stdout
        assert hookline.api("GET", "destinations/crm").status == 200
        assert run(hookline, "apply", str(file)).stdout == "nothing to change\n"
        exported = run(hookline, "export").stdout
        assert "s3cret" not in exported
        file.write_text(exported)
        assert run(hookline, "apply", str(file)).stdout == "nothing to change\n"
        before = len(run(hookline, "history").stdout.splitlines())
        hookline.api("PATCH", "destinations/crm", {"name": "Other"})
        lines = run(hookline, "history").stdout.splitlines()
        assert len(lines) == before + 1
        version = int(lines[0].split()[0])
        assert lines[0].endswith("~destination crm")
        assert '    name: "CRM" → "Other"' in run(hookline, "history", str(version)).stdout
        assert '    name: "Other" → "CRM"' in run(hookline, "rollback", str(version - 1), "--dry-run").stdout
        assert hookline.api("GET", "destinations/crm").json["name"] == "Other"
        assert f"undo with: hookline rollback {version}" in run(hookline, "rollback", str(version - 1)).stdout
        assert hookline.api("GET", "destinations/crm").json["name"] == "CRM"
        file.write_text(json.dumps({**FILE, "destinations": []}))
        assert run(hookline, "apply", str(file)).stdout == "nothing to change\n"
        assert "- destination crm" in run(hookline, "apply", str(file), "--prune").stdout
        assert hookline.api("GET", "destinations/crm").status == 404


def test_a_bad_file_is_refused_with_its_place(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """Nothing of a file with a mistake is applied; the sentence says where it is."""
    with new_hookline() as hookline:
        file = hookline.folder / "bad.yaml"
        file.write_text("sources:\n- {id: app, name: App, typ: web}\n")
        for command in ("diff", "apply"):
            done = run(hookline, command, str(file))
            assert done.returncode == 1
            assert "'typ'" in done.stderr
        assert hookline.api("GET", "sources/app").status == 404


def test_check_tries_the_filters_on_what_is_there(
    new_hookline: Callable[..., Hookline], receiver: Receiver, run: Run
) -> None:
    """The command and the API count alike, with the service running; without events check is as quiet as before."""
    with new_hookline(webhook("crm", receiver.url())) as hookline:
        file = hookline.folder / "more.yaml"
        destination = {**webhook("crm", receiver.url()), "filters": [DROP]}
        file.write_text(json.dumps({"sources": hookline.sources, "destinations": [destination]}))
        assert run(hookline, "check", str(file)).stdout.splitlines()[1:] == [
            "crm: no events of its sources are kept to try the filters on"
        ]
        for name in ("Heartbeat", "Order", "Order"):
            receiver.wait_for(hookline.track(name))
        lines = run(hookline, "check", str(file)).stdout.splitlines()
        assert lines[1] == "crm: matched 1 of 3 recent events; 1 would not be sent, 0 would be changed"
        assert lines[2] == f"  Filter 1 drops events where {DROP['if']}: matched 1 of 3"
        answer = hookline.api("POST", "destinations/crm/filters/test", {"filters": [DROP]}).json
        assert (answer["total"], answer["matched"], answer["samples"][0]["after"]) == (3, 1, None)
        assert run(hookline, "check", str(file), "--json").stdout == "[]\n"
