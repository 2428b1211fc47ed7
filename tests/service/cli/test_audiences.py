"""`hookline audiences members`, `explain`, `history`, `preview`, `sync` and `syncs` against a running service."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.service.cli.conftest import Run
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.profiles.test_audience import audience, traits_sent

BUYERS = {"all": [{"event": "Order"}, {"if": 'traits.plan = "pro"'}]}


def test_an_audience_is_looked_into_from_the_command_line(
    receiver: Receiver, new_hookline: Callable[..., Hookline], run: Run
) -> None:
    """Who is in, why somebody is out, and a sync at once; as lines and as JSON."""
    definitions = {"audiences": [audience("buyers", BUYERS, syncEvery="1h")]}
    with new_hookline(webhook("crm", receiver.url()), definitions=definitions) as hookline:
        wait_until(lambda: hookline.api("GET", "audiences/buyers/syncs").json["items"], what="the first sync")
        assert run(hookline, "audiences", "members", "buyers").stdout == "nobody\n"
        order = hookline.track("Order", userId="u1")
        hookline.post("/v1/identify", {"userId": "u2", "traits": {"plan": "pro"}})
        hookline.post("/v1/identify", {"userId": "u1", "traits": {"plan": "pro"}})

        def explain(*who: str) -> subprocess.CompletedProcess[str]:
            return run(hookline, "audiences", "explain", "buyers", *who)

        wait_until(lambda: explain("--user-id", "u1").stdout.startswith("u1 is in buyers"), what="u1 in")
        why = explain("--user-id", "u1").stdout
        assert "after the last sync: not in" in why
        assert '✓ did "Order" at least once: 1' in why
        assert order in why
        assert 'traits.plan is "pro"' in why
        out = json.loads(explain("--user-id", "u2", "--json").stdout)
        assert (out["member"], [each["held"] for each in out["reason"]["terms"]]) == (False, [False, True])
        assert run(hookline, "audiences", "sync", "buyers").stdout.startswith("requested at ")
        wait_until(lambda: {"buyers": True} in traits_sent(receiver).get("u1", []), what="sent at once")
        wait_until(lambda: "1 joined, 0 left" in run(hookline, "audiences", "syncs", "buyers").stdout, what="the sync")
        (member,) = json.loads(run(hookline, "audiences", "members", "buyers", "--json").stdout)
        assert (member["userId"], member["synced"]) == ("u1", True)
        came = run(hookline, "audiences", "history", "buyers", "--user-id", "u1").stdout
        assert came.startswith(member["since"])
        assert "  in, sync " in came
        assert run(hookline, "audiences", "history", "buyers", "--user-id", "u2").stdout.startswith("never a member")
        assert explain().returncode == 2
        assert explain("--user-id", "nobody").returncode == 1
        assert run(hookline, "computed-traits", "sync", "nope").returncode == 1


def test_a_preview_from_the_command_line(new_hookline: Callable[..., Hookline], run: Run, tmp_path: Path) -> None:
    """Of a file that would be put: how many, and who; what could not be put is said as it would be."""
    file = tmp_path / "wanted.yaml"
    with new_hookline() as hookline:
        for user, total in (("u1", 4), ("u1", 8), ("u2", 1)):
            hookline.track("Order", userId=user, properties={"total": total})
        file.write_text("{name: Buyers, condition: {event: Order, count: {gte: 2}}}")
        assert run(hookline, "audiences", "preview", str(file)).stdout == "1 of 2 people, such as\n  u1\n"
        file.write_text("{event: Order, aggregate: sum, property: properties.total}")
        found = json.loads(run(hookline, "computed-traits", "preview", str(file), "--json").stdout)
        assert {each["userId"]: each["value"] for each in found["sample"]} == {"u1": 12, "u2": 1}
        refused = run(hookline, "audiences", "preview", str(file))
        assert (refused.returncode, "with a condition" in refused.stderr) == (1, True)
        file.write_text("{condition: {event: Order, within: soon}}")
        assert "condition.within" in run(hookline, "audiences", "preview", str(file)).stderr
