"""Objects one by one from the command line, against a real service."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.service.cli.conftest import Run
from tests.service.harness import Hookline, wait_until, webhook


def test_sources_and_destinations_come_and_go(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """Put from a file, listed, shown, changed by dotted paths, deleted; what is wrong is one sentence."""
    with new_hookline(sources=[]) as hookline:
        file = hookline.folder / "one.yaml"
        file.write_text("{id: app, name: App, type: mobile, writeKeys: [wk_app]}")
        assert json.loads(run(hookline, "sources", "put", str(file), "--json").stdout)["name"] == "App"
        file.write_text(json.dumps(webhook("crm", "https://crm.example.com/", sources=["app"], secret="s3cret-s3cret")))
        run(hookline, "destinations", "put", str(file))
        assert run(hookline, "destinations", "list").stdout == "crm  crm  app  ● healthy\n"
        for command, option in ((["events"], "--source"), (["dead-letters", "list"], "--destination")):
            unknown = run(hookline, *command, option, "nope")
            what = option.removeprefix("--")
            assert (unknown.returncode, unknown.stderr) == (
                1,
                f"hookline: there is no {what} 'nope'; see hookline {what}s list\n",
            )
        assert run(hookline, "dead-letters", "list", "--destination", "crm").returncode == 0
        run(hookline, "destinations", "change", "crm", "name=Customers", "delivery.maxRate=5", "enabled=false")
        shown = json.loads(run(hookline, "destinations", "show", "crm").stdout)
        assert (shown["name"], shown["delivery"]["maxRate"], shown["enabled"]) == ("Customers", 5, False)
        assert "s3cret" not in json.dumps(shown)
        refused = run(hookline, "sources", "delete", "app")
        assert refused.returncode == 1
        assert "still feeds destination 'crm'" in refused.stderr
        assert run(hookline, "destinations", "delete", "crm").stdout == "deleted crm\n"
        assert run(hookline, "destinations", "show", "crm").returncode == 1
        assert run(hookline, "sources", "change", "app").returncode == 2
        for data in ("{", "nothing"):  # no JSON: wrong usage
            refused = run(hookline, "api", "POST", "/sources", "--data", data)
            assert (refused.returncode, "not JSON" in refused.stderr) == (2, True)


def test_what_is_there_is_listed(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """Events with their statuses, notices, kinds of destination, settings, and any other call."""
    with new_hookline(webhook("crm", "http://127.0.0.1:8/")) as hookline:
        message_id = hookline.track("Order \x1b[31mCompleted", userId="u1")
        hookline.track("Other")
        wait_until(lambda: message_id in run(hookline, "events", "--event", "Order \x1b[31mCompleted").stdout)
        lines = run(hookline, "events", "--text", "completed").stdout.splitlines()
        assert len(lines) == 1
        assert "\x1b" not in lines[0]
        assert "crm " in lines[0]
        hookline.api("POST", "destinations/crm/pause", {"reason": "moving"})
        wait_until(lambda: "moving" in run(hookline, "notices", "list", "--state", "open").stdout)
        notice = json.loads(run(hookline, "notices", "list", "--json").stdout)[0]
        seen = json.loads(run(hookline, "notices", "acknowledge", str(notice["id"])).stdout)
        assert seen["acknowledgedAt"]
        assert "webhook" in run(hookline, "catalog").stdout
        assert json.loads(run(hookline, "catalog", "webhook").stdout)["name"] == "Webhooks"
        assert "plan.level" in run(hookline, "settings").stdout
        assert json.loads(run(hookline, "api", "GET", "/destinations/crm").stdout)["id"] == "crm"
        body = json.dumps({"rate": None})
        assert json.loads(run(hookline, "api", "POST", "destinations/crm/resume", "--data", body).stdout)["id"] == "crm"
