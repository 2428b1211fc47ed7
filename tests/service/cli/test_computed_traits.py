"""`hookline computed-traits values` and `explain` against a running service."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.service.cli.conftest import Run
from tests.service.harness import Hookline, Receiver, wait_until, webhook

SPEND = {"id": "spend", "name": "Spend", "event": "Order", "aggregate": "sum", "property": "properties.total"}


def test_values_are_looked_into_from_the_command_line(
    receiver: Receiver, new_hookline: Callable[..., Hookline], run: Run
) -> None:
    """Who has which value, and what one is made of; as lines and as JSON."""
    definitions = {"computedTraits": [{**SPEND, "destinations": ["crm"], "syncEvery": 1}]}
    with new_hookline(webhook("crm", receiver.url()), definitions=definitions) as hookline:
        wait_until(lambda: hookline.api("GET", "computed-traits/spend/syncs").json["items"], what="the first sync")
        assert run(hookline, "computed-traits", "values", "spend").stdout == "nobody has a value\n"
        order = hookline.track("Order", userId="u1", properties={"total": 12})

        def values() -> list[dict[str, object]]:
            found: list[dict[str, object]] = json.loads(
                run(hookline, "computed-traits", "values", "spend", "--json").stdout
            )
            return found

        wait_until(
            lambda: [(each["value"], each["synced"]) for each in values()] == [(12, True)], what="the value told"
        )
        assert run(hookline, "computed-traits", "values", "spend").stdout.startswith("u1  12  since ")
        why = run(hookline, "computed-traits", "explain", "spend", "--user-id", "u1").stdout
        assert why.startswith("spend of u1 is 12\nthe sum of properties.total")
        assert "1 event counts, 1 of them with a value" in why
        assert order in why
        assert run(hookline, "computed-traits", "explain", "spend").returncode == 2
        assert run(hookline, "computed-traits", "explain", "spend", "--user-id", "nobody").returncode == 1
