"""Audiences and computed traits in the admin API: the calls that every kind of object has, and their own rules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hookline.connections import file
from hookline.connections.definitions.check import definition_problems
from hookline.connections.state import decode_object
from tests.unit.control.running import Running, destination, source

AUDIENCE = {
    "id": "big",
    "name": "Big Spenders",
    "destinations": ["crm"],
    "syncEvery": "2h",
    "condition": {"all": [{"event": "Order", "count": {"gte": 2}}, {"if": "computed.spend > 100"}]},
    "enabled": True,
}
TRAIT = {
    "id": "spend",
    "name": "Total Spend",
    "event": "Order",
    "page": None,
    "screen": None,
    "aggregate": "sum",
    "property": "properties.total",
    "within": "90d",
    "between": None,
    "where": None,
    "destinations": ["crm"],
    "syncEvery": 30,
    "enabled": True,
}


@pytest.fixture
def filled(control: Running) -> Running:
    """Control with a destination, a computed trait and an audience that asks for it."""
    for path, body in (
        ("/sources", source()),
        ("/destinations", destination()),
        ("/computed-traits", TRAIT),
        ("/audiences", AUDIENCE),
    ):
        assert control.api("POST", path, body).status == 201
    return control


@pytest.mark.parametrize(("path", "made"), [("/audiences", AUDIENCE), ("/computed-traits", TRAIT)])
def test_what_is_made_is_read_changed_and_listed(filled: Running, path: str, made: dict[str, Any]) -> None:
    """An object comes back as it was sent, is listed, and is changed in part or as a whole."""
    one = f"{path}/{made['id']}"
    assert filled.api("GET", one).json == made
    assert filled.api("GET", path).json == {"items": [made], "after": None}
    assert filled.api("PATCH", one, {"syncEvery": "5m"}).json == {**made, "syncEvery": "5m"}
    assert filled.api("PUT", one, made).json == made
    assert filled.api("POST", path, made).json["code"] == "already_exists"
    assert filled.api("GET", f"{path}/nope").status == 404


def test_a_part_of_a_condition_is_taken_out_with_null(filled: Running) -> None:
    """Another kind of clause in place of the old one, which null removes; without it there would be two."""
    wanted = {"event": "Order", "never": True}
    assert filled.api("PATCH", "/audiences/big", {"condition": wanted}).status == 422
    assert filled.api("PATCH", "/audiences/big", {"condition": {**wanted, "all": None}}).json["condition"] == wanted


REFUSED = [
    ("/audiences", {**AUDIENCE, "id": "b"}, "duplicate_trait", "/name"),
    (
        "/audiences",
        {**AUDIENCE, "id": "b", "name": "B", "destinations": ["x"]},
        "unknown_destination",
        "/destinations/0",
    ),
    (
        "/audiences",
        {**AUDIENCE, "id": "b", "name": "B", "condition": {"any": [{"page": "A"}, {"audience": "c"}]}},
        "unknown_definition",
        "/condition/any/1/audience",
    ),
    (
        "/audiences",
        {**AUDIENCE, "id": "b", "name": "B", "condition": {"not": {"event": "A", "within": "x"}}},
        "invalid_definition",
        "/condition/not/within",
    ),
    ("/computed-traits", {**TRAIT, "id": "b", "name": "B", "property": None}, "invalid_definition", "/property"),
    ("/computed-traits", {**TRAIT, "id": "b", "name": "B", "aggregate": "all"}, "invalid_object", "/aggregate"),
]


@pytest.mark.parametrize(("path", "body", "code", "pointer"), REFUSED)
def test_what_is_wrong_is_named(filled: Running, path: str, body: dict[str, Any], code: str, pointer: str) -> None:
    """Every rule has its code, and the pointer leads to what to change."""
    answer = filled.api("POST", path, body)
    assert (answer.status, answer.json["code"]) == (422, code)
    assert answer.json["errors"][0]["pointer"] == pointer


def test_what_is_asked_for_stays(filled: Running) -> None:
    """409 names who asks for it; once nobody does, it goes."""
    assert filled.api("DELETE", "/computed-traits/spend").json["code"] == "definition_in_use"
    assert filled.api("DELETE", "/destinations/crm").json["code"] == "destination_in_use"
    assert filled.api("DELETE", "/audiences/big").status == 204
    assert filled.api("DELETE", "/computed-traits/spend").status == 204
    assert filled.api("DELETE", "/destinations/crm").status == 204


@pytest.mark.parametrize("depth", [100, 900, 5_000])
def test_a_deep_condition_is_no_fault(filled: Running, depth: int) -> None:
    """However deep conditions are nested, the answer says that it is too deep."""
    deep: Any = b'{"condition": ' + b'{"not": ' * depth + b'{"event": "A"}' + b"}" * depth + b"}"
    assert filled.api("PATCH", "/audiences/big", deep).status in (400, 422)


EVERYBODY = [
    ({"event": ""}, "/condition/event", "name the event"),
    ({"all": [{"event": "Order"}, {"page": "", "never": True}]}, "/condition/all/1/page", "name the page"),
    ({}, "/condition", "found none"),
    ({"if": "true"}, "/condition/if", "holds for everybody"),
    ({"any": [{"event": "Order"}, {"event": "Order", "never": True}]}, "/condition", "holds for everybody"),
]


@pytest.mark.parametrize(("condition", "pointer", "message"), EVERYBODY)
def test_nobody_makes_an_audience_of_everybody_by_accident(
    filled: Running, condition: dict[str, Any], pointer: str, message: str
) -> None:
    """Through the API and in a file alike, with the place of the clause and what to write."""
    made = {**AUDIENCE, "condition": condition}
    another = {**made, "id": "another", "name": "Another"}
    for answer in (filled.api("PUT", "/audiences/big", made), filled.api("POST", "/audiences", another)):
        assert (answer.status, answer.json["code"]) == (422, "invalid_definition")
        (error,) = answer.json["errors"]
        assert error["pointer"] == pointer
        assert message in error["detail"]
    (problem,) = file.check_text(msgspec.json.encode({"audiences": [{**made, "destinations": []}]}).decode())
    assert problem.path.replace("[", ".").replace("]", "").split(".")[2:] == pointer.split("/")[1:]
    assert message in problem.message


def test_what_was_stored_with_an_empty_name_means_any_event() -> None:
    """It comes back as it is written today, and so can be saved again."""
    old = '{"id":"a","name":"A","condition":{"not":{"any":[{"event":"","within":"10m"},{"page":"Home"}]}}}'
    found = decode_object("audience", old)
    written = {"not": {"any": [{"event": "*", "within": "10m"}, {"page": "Home"}]}}
    assert msgspec.json.decode(msgspec.json.encode(found.condition)) == written
    assert definition_problems(found) == []
    trait = decode_object("computedTrait", '{"id":"t","name":"T","screen":"","aggregate":"count"}')
    assert (trait.screen, trait.event) == ("*", None)
