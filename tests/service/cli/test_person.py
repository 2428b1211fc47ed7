"""`hookline people show` and `events` against a running service."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.service.cli.conftest import Run
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.profiles.test_audience import audience


def test_a_person_is_looked_into_from_the_command_line(
    receiver: Receiver, new_hookline: Callable[..., Hookline], run: Run
) -> None:
    """Ids, traits and audiences as lines and as JSON; events newest first; nobody, and nobody named, are failures."""
    definitions = {"audiences": [audience("buyers", {"event": "Order"})]}
    with new_hookline(webhook("crm", receiver.url()), definitions=definitions) as hookline:
        order = hookline.track("Order", userId="u1", anonymousId="device")
        hookline.post("/v1/identify", {"userId": "u1", "traits": {"plan": "pro"}, "messageId": "m-plan"})
        show = "people", "show", "--user-id", "u1"
        wait_until(lambda: "✓ buyers" in run(hookline, *show).stdout, what="u1 in")
        text = run(hookline, *show).stdout
        for wanted in ("user u1", "anonymous device", 'plan is "pro"', "site m-plan"):
            assert wanted in text, wanted
        found = json.loads(run(hookline, "people", "show", "--anonymous-id", "device", "--json").stdout)
        assert found["userId"] == "u1"
        lines = run(hookline, "people", "events", "--user-id", "u1").stdout.splitlines()
        assert [line.split()[-1] for line in lines if "sent by a sync" not in line] == ["m-plan", order]
        assert (
            len(json.loads(run(hookline, "people", "events", "--user-id", "u1", "--limit", "1", "--json").stdout)) == 1
        )
        assert run(hookline, "people", "show").returncode == 2
        assert run(hookline, "people", "show", "--user-id", "nobody").returncode == 1
        assert run(hookline, "people", "events", "--user-id", "nobody").stdout == "nothing is stored\n"
