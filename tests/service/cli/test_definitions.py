"""Audiences and computed traits from the command line, against a running server."""

from __future__ import annotations

import json
from collections.abc import Callable

import yaml

from tests.service.cli.conftest import Run
from tests.service.harness import Hookline

FILE = """\
destinations:
  - {id: crm, name: CRM, sources: [], settings: {webhooks: [{url: "https://crm.example.com/"}]}}
audiences:
  - id: big_spenders
    name: Big Spenders
    destinations: [crm]
    condition: {all: [{event: Order, count: {gte: 2}, within: 30d}, {if: computed.spend > 100}]}
computedTraits:
  - {id: spend, name: Spend, event: Order, aggregate: sum, property: properties.total}
"""


def test_definitions_are_applied_listed_changed_and_deleted(new_hookline: Callable[..., Hookline], run: Run) -> None:
    """The file and the single commands work on the same objects, and what is named stays until nobody names it."""
    with new_hookline(sources=[]) as hookline:
        file = hookline.folder / "people.yaml"
        file.write_text(FILE)
        applied = run(hookline, "apply", str(file)).stdout
        assert "+ audience big_spenders" in applied
        assert "+ computed trait spend" in applied
        assert run(hookline, "audiences", "list").stdout == "big_spenders  Big Spenders  crm\n"
        run(hookline, "audiences", "change", "big_spenders", "syncEvery=30s")
        shown = json.loads(run(hookline, "audiences", "show", "big_spenders", "--json").stdout)
        assert shown == {**yaml.safe_load(FILE)["audiences"][0], "syncEvery": "30s", "enabled": True}
        exported = run(hookline, "export").stdout
        assert yaml.safe_load(exported)["audiences"] == [shown]
        file.write_text(exported)
        assert run(hookline, "apply", str(file)).stdout == "nothing to change\n"
        refused = run(hookline, "computed-traits", "delete", "spend")
        assert refused.returncode == 1
        assert "audience 'big_spenders' asks for computed trait 'spend'" in refused.stderr
        for collection, id in (("audiences", "big_spenders"), ("computed-traits", "spend")):
            assert run(hookline, collection, "delete", id).stdout == f"deleted {id}\n"
        assert hookline.api("GET", "audiences").json["items"] == []
