"""Trying filters through the API: counts, samples before and after, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hookline.settings import Plan
from tests.unit.control.running import Running, destination, record, source

DROP = {"if": 'event = "Heartbeat"', "do": "drop"}
NO_CARD = {"if": "properties.total > 5", "do": "dropProperties", "properties": ["properties.card"]}


def ask(control: Running, body: object = None, id: str = "crm") -> Any:
    """The answer of one test."""
    return control.api("POST", f"/destinations/{id}/filters/test", body)


@pytest.fixture
def filled(control: Running) -> Running:
    """A destination with a filter, and ten events of which some are not for it."""
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination(filters=[DROP]))
    control.append(
        *(record(f"beat{n}", "Heartbeat") for n in range(3)),
        *(record(f"order{n}", "Order", properties={"total": n * 5, "card": "4242"}) for n in range(4)),
        record("elsewhere", "Heartbeat", source="app"),
        record("bad", "Heartbeat", rejected="no"),
        replace(record("unwanted", "Heartbeat"), selection={"All": False}),
    )
    return control


def test_the_saved_filters(filled: Running) -> None:
    """Only events for the destination count, newest first, and what is not sent has no after."""
    answer = ask(filled).json
    assert {key: answer[key] for key in ("total", "matched", "filtered", "changed")} == {
        "total": 7,
        "matched": 3,
        "filtered": 3,
        "changed": 0,
    }
    assert answer["filters"] == [{"rule": 'Filter 1 drops events where event = "Heartbeat"', "matched": 3}]
    assert [sample["messageId"] for sample in answer["samples"]] == ["beat2", "beat1", "beat0"]
    assert answer["samples"][0]["before"]["event"] == "Heartbeat"
    assert answer["samples"][0]["after"] is None


def test_filters_that_are_not_saved(filled: Running) -> None:
    """They are tried in place of the saved ones, which stay; samples show both bodies."""
    answer = ask(filled, {"filters": [NO_CARD], "samples": 1}).json
    assert (answer["total"], answer["matched"], answer["filtered"], answer["changed"]) == (7, 2, 0, 2)
    (sample,) = answer["samples"]
    assert (sample["before"]["properties"], sample["after"]["properties"]) == (
        {"total": 15, "card": "4242"},
        {"total": 15},
    )
    assert filled.api("GET", "/destinations/crm").json["filters"] == [DROP]


def test_the_number_of_events_is_bounded(filled: Running) -> None:
    """So many of the newest are looked at, and no more."""
    assert ask(filled, {"events": 2}).json["total"] == 2
    assert ask(filled, {"events": 1001}).status == 422


def test_without_events(control: Running) -> None:
    """Nothing to try them on is no error."""
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination())
    answer = ask(control, {"filters": [DROP]})
    assert (answer.status, answer.json["total"], answer.json["samples"]) == (200, 0, [])


@pytest.mark.parametrize(
    ("body", "status", "code", "pointer"),
    [
        ({"filters": [{"if": "evnt = 1", "do": "drop"}]}, 422, "invalid_filter", "/filters/0/if"),
        ({"filters": [{"if": "true"}]}, 422, "invalid_object", "/filters/0/do"),
        ({"filter": []}, 422, "invalid_object", ""),
        (b"{", 400, "malformed_json", None),
    ],
)
def test_what_is_refused(filled: Running, body: object, status: int, code: str, pointer: str | None) -> None:
    """Each with a code, and a pointer to the field."""
    answer = filled.call("POST", "/api/v1/destinations/crm/filters/test", body)
    assert (answer.status, answer.json["code"]) == (status, code)
    assert [error["pointer"] for error in answer.json["errors"]] == ([] if pointer is None else [pointer])


def test_a_destination_that_is_not_there(control: Running) -> None:
    """404, as everywhere."""
    assert ask(control, {}, id="nobody").status == 404


def test_a_destination_with_a_wrong_filter_is_refused(filled: Running) -> None:
    """The API says what is wrong, and where."""
    answer = filled.api("PATCH", "/destinations/crm", {"filters": [{"if": "event = ", "do": "drop"}]})
    assert (answer.status, answer.json["code"]) == (422, "invalid_filter")
    assert answer.json["errors"] == [
        {"pointer": "/filters/0/if", "detail": "expected a value after '=' at column 7"},
    ]


def test_below_the_plan_level(tmp_path: Path) -> None:
    """Neither saved nor tried, with the same sentence; a destination without filters is welcome."""
    with Running(tmp_path / "data", plan=Plan(level="team")) as control:
        control.api("POST", "/sources", source())
        refused = control.api("POST", "/destinations", destination(filters=[DROP]))
        assert (refused.status, refused.json["code"]) == (422, "plan_level")
        assert refused.json["errors"][0]["pointer"] == "/filters"
        assert control.api("POST", "/destinations", destination()).status == 201
        assert ask(control, {"filters": [DROP]}).json["code"] == "plan_level"
