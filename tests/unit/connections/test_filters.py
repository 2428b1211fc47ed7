"""Filters in connections: what is refused and where, the plan level, and that they go in and come out as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.connections import file
from hookline.connections.model import FILTERS_MAX, Destination, Filter
from hookline.connections.secrets import redact
from hookline.connections.store import ChangeRefused, Store
from tests.unit.connections.examples import change, destination, source

DROP = Filter(condition='type = "track" and event = "Heartbeat"', do="drop")
SAMPLE = Filter(condition='type = "page"', do="sample", percent=10)
NO_CARD = Filter(condition="true", do="dropProperties", properties=("properties.card",))

HEAD = """sources: [{id: website, name: Website}]
destinations:
  - id: crm
    name: CRM
    sources: [website]
    settings: {webhooks: [{url: "https://crm.example.com/hook"}]}
    filters:
"""


def text(*lines: str) -> str:
    """A connections file with these filters, the first one on line 8."""
    return HEAD + "".join(f"      - {{{line}}}\n" for line in lines)


GOOD = text(
    """if: 'type = "track" and event = "Heartbeat"', do: drop""",
    """if: 'type = "page"', do: sample, percent: 10""",
    """if: 'true', do: dropProperties, properties: [properties.card]""",
)


@pytest.mark.parametrize(
    ("line", "code", "key", "said"),
    [
        ("if: 'type = ', do: drop", "invalid_filter", "if", "expected a value after '=' at column 6"),
        ("if: 'evnt = 1', do: drop", "invalid_filter", "if", "did you mean 'event'?"),
        ("if: 'true', do: sample", "invalid_filter", "percent", "such as percent: 10"),
        ("if: 'true', do: drop, percent: 5", "invalid_filter", "percent", "belongs to do: sample"),
        ("if: 'true', do: sample, percent: 101", "invalid_value", "percent", "<= 100"),
        ("if: 'true', do: dropProperties", "invalid_filter", "properties", "say which fields"),
        ("if: 'true', do: allowProperties, properties: []", "invalid_filter", "properties", "say which fields"),
        ("if: 'true', do: drop, properties: [a]", "invalid_filter", "properties", "take them out"),
        ("if: 'true', do: dropProperties, properties: [a b]", "invalid_filter", "properties[0]", "backslash"),
        ("if: 'true', do: dropProperties, properties: [userId]", "invalid_filter", "properties[0]", "always sent"),
        ("if: 'true', do: delete", "invalid_value", "do", "write drop or sample or"),
        ("if: 'true'", "invalid_value", "", "`do`; add it"),
        ("if: true, do: drop", "invalid_value", "if", "in quotes"),
        ("if: 'true', do: drop, unless: x", "unknown_key", "unless", "known keys are"),
    ],
)
def test_a_mistake_is_named_with_its_place(line: str, code: str, key: str, said: str) -> None:
    """Each kind of mistake gives one problem: code, path, line, and what to write."""
    (only,) = file.check_text(text("if: 'false', do: drop", line))
    assert (only.code, only.path, only.line) == (code, f"destinations[0].filters[1].{key}".rstrip("."), 9)
    assert said in only.message


def test_too_many() -> None:
    """A destination has room for so many filters."""
    (only,) = file.check_text(text(*["if: 'true', do: drop"] * (FILTERS_MAX + 1)))
    assert (only.code, only.path) == ("invalid_value", "destinations[0].filters")


def test_they_come_out_as_they_went_in(store: Store) -> None:
    """Applied, exported and applied again nothing changes; what was not written is not shown."""
    assert file.apply(store, GOOD, "a", dict).problems == ()
    stored = store.destination("crm")
    assert stored is not None
    assert stored.object.filters == (DROP, SAMPLE, NO_CARD)
    exported = file.export(store.snapshot())
    assert "percent: 10\n" in exported
    assert "percent: null" not in exported
    assert [each.action for each in file.apply(store, exported, "a", dict).changes] == ["keep", "keep"]
    shown: Any = msgspec.to_builtins(redact(stored.object))
    assert shown["filters"][0] == {"if": DROP.condition, "do": "drop"}


def test_a_change_is_shown_field_by_field(store: Store) -> None:
    """diff names the filter and the field."""
    file.apply(store, GOOD, "a", dict)
    planned = file.diff(store, GOOD.replace("percent: 10", "percent: 20"))
    (changed,) = [each for each in planned.changes if each.action == "change"]
    assert [(each.path, each.before, each.after) for each in changed.fields] == [("filters[1].percent", 10, 20)]


def test_no_filters_are_not_exported(store: Store) -> None:
    """A destination without filters has no such key in the file."""
    change(store, source(), destination())
    assert "filters" not in file.export(store.snapshot())


@pytest.mark.parametrize("level", ["free", "team"])
def test_filters_need_the_plan_level_business(tmp_path: Path, level: str) -> None:
    """Below it the file is refused, by itself and when applied, with a sentence that says what to do."""
    store = Store(tmp_path / "control.db", plan_level=level)
    applied = file.apply(store, GOOD, "a", dict)
    for problems in (file.check_text(GOOD, level), list(applied.problems)):
        (only,) = problems
        assert (only.code, only.path, only.line) == ("plan_level", "destinations[0].filters", 7)
        assert f"this installation has {level}" in only.message
        assert "set plan.level to business" in only.message
    assert store.version == 0
    store.close()


def test_a_lowered_level_leaves_what_is_there(tmp_path: Path) -> None:
    """Saved filters go on and the destination can be changed; only other filters are refused, and none are allowed."""
    path = tmp_path / "control.db"
    before = Store(path)
    change(before, source(), destination(filters=(DROP,)))
    before.close()
    store = Store(path, plan_level="team")
    change(store, destination(filters=(DROP,), enabled=False))
    with pytest.raises(ChangeRefused, match="plan level business"):
        change(store, destination(filters=(DROP, SAMPLE)))
    change(store, destination())
    with pytest.raises(ChangeRefused, match="plan level business"):
        change(store, destination(filters=(DROP,)))
    store.close()


def test_a_document_of_before_filters_decodes() -> None:
    """What an earlier version stored has none."""
    old = b'{"id":"crm","name":"CRM","settings":{"webhooks":[{"url":"https://crm.example.com/"}]}}'
    assert msgspec.json.decode(old, type=Destination).filters == ()
