"""From a call to the message: names, rules, context, integrations."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from hookline_client.errors import InvalidCall
from hookline_client.messages import LIBRARY, build, from_mapping, view

CONTEXT = {"library": LIBRARY}


def message(kind: str, /, **fields: Any) -> dict[str, Any]:
    """Build a message with the defaults of a client without options."""
    return build(kind, dict(fields), CONTEXT, None)


@pytest.mark.parametrize(
    ("kind", "fields", "code"),
    [
        ("identify", {}, "missing_user_id"),
        ("identify", {"userId": "", "anonymousId": None}, "missing_user_id"),
        ("track", {"userId": "u"}, "missing_event"),
        ("track", {"userId": "u", "event": ""}, "missing_event"),
        ("group", {"userId": "u"}, "missing_group_id"),
        ("group", {"groupId": "g"}, "missing_user_id"),
        ("alias", {"userId": "u"}, "missing_previous_id"),
        ("alias", {"anonymousId": "a", "previousId": "p"}, "missing_user_id"),
        ("page", {"userId": "u", "category": "Docs"}, "missing_name"),
        ("screen", {"userId": "u", "category": "Docs", "name": ""}, "missing_name"),
        ("track", {"userId": True, "event": "E"}, "invalid_field"),
        ("track", {"userId": "u", "event": ["E"]}, "invalid_field"),
        ("track", {"userId": "u", "event": "E", "properties": "p"}, "invalid_field"),
        ("track", {"userId": "u", "event": "E", "context": 1}, "invalid_field"),
        ("track", {"userId": "u", "event": "E", "integrations": "All"}, "invalid_field"),
        ("track", {"userId": "u", "event": "E", "timestamp": "soon"}, "invalid_timestamp"),
        ("track", {"userId": "u", "event": "E", "messageId": "m" * 513}, "invalid_message_id"),
    ],
)
def test_rules_of_the_api_are_told_where_they_are_broken(kind: str, fields: dict[str, Any], code: str) -> None:
    """Each rule about a call has its code, the service's own."""
    with pytest.raises(InvalidCall) as raised:
        message(kind, **fields)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("identify", {"anonymousId": "a", "traits": {"plan": "pro"}}),
        ("track", {"userId": "u", "event": "E", "properties": {"n": 1}}),
        ("page", {"userId": "u", "category": "Docs", "name": "Start", "properties": {"url": "/"}}),
        ("screen", {"userId": "u", "name": "Start"}),
        ("group", {"anonymousId": "a", "groupId": "g", "traits": {"size": 3}}),
        ("alias", {"userId": "u", "previousId": "p"}),
    ],
)
def test_fields_are_sent_under_the_names_of_the_api(kind: str, fields: dict[str, Any]) -> None:
    """A message is the call's fields, its type, an id, a time and the context."""
    built = message(kind, **fields)
    assert built.pop("messageId")
    assert built.pop("timestamp").endswith("Z")
    assert built == {"type": kind, "context": CONTEXT, **fields}


def test_ids_may_be_numbers() -> None:
    """0 is an id, and so is a UUID; ids are sent as strings."""
    uuid = UUID("6f3c0bd4-64a5-4d5c-9a3e-0c4f1c2c2b9a")
    assert message("identify", userId=0)["userId"] == "0"
    assert message("identify", userId=uuid)["userId"] == str(uuid)
    assert message("group", userId=7, groupId=8)["groupId"] == "8"


def test_message_ids_are_made_once_per_call() -> None:
    """No two calls share one; a caller's own is kept."""
    made = {message("identify", userId="u")["messageId"] for _ in range(1000)}
    assert len(made) == 1000
    assert message("identify", userId="u", messageId="mine")["messageId"] == "mine"


def test_page_traits_count_as_properties() -> None:
    """As the original has it: properties or traits; properties win."""
    assert message("page", userId="u", traits={"a": 1})["properties"] == {"a": 1}
    both = message("page", userId="u", traits={"a": 1}, properties={"b": 2})
    assert both["properties"] == {"b": 2}


@pytest.mark.parametrize(
    ("given", "named", "expected"),
    [
        (("u", "Home"), {}, {"userId": "u", "name": "Home"}),
        (("u", "Docs", "Home"), {}, {"userId": "u", "category": "Docs", "name": "Home"}),
        (("u", "D", "H", {"a": 1}), {}, {"userId": "u", "category": "D", "name": "H", "properties": {"a": 1}}),
        (("u", {"a": 1}), {}, {"userId": "u", "properties": {"a": 1}}),
        (("Home",), {"userId": "u"}, {"name": "Home"}),
        (("Home",), {"anonymousId": "a"}, {"name": "Home"}),
        (("Docs", "Home"), {"userId": "u"}, {"category": "Docs", "name": "Home"}),
        (("u", "Home"), {"category": "Docs"}, {"userId": "u", "name": "Home"}),
        (("u",), {}, {"userId": "u"}),
    ],
)
def test_a_single_string_of_a_page_is_its_name(
    given: tuple[Any, ...], named: dict[str, Any], expected: dict[str, Any]
) -> None:
    """One string is the name, not the category; the category comes before it."""
    assert view(given, named) == expected


def test_too_many_strings_of_a_page_are_told() -> None:
    """What has no place is no silent loss."""
    with pytest.raises(InvalidCall):
        view(("u", "a", "b", "c"), {})
    with pytest.raises(InvalidCall):
        view(("u", "Home"), {"name": "Other", "category": "Docs"})


def test_camel_case_and_snake_case_mappings_are_the_same() -> None:
    """Code from PHP and Go ports line by line; fields we do not know are carried, transport fields are not."""
    camel = from_mapping({"userId": "u", "anonymousId": "a", "groupId": "g", "previousId": "p", "messageId": "m"})
    snake = {"user_id": "u", "anonymous_id": "a", "group_id": "g", "previous_id": "p", "message_id": "m"}
    assert from_mapping(snake) == camel
    assert from_mapping({"type": "x", "writeKey": "k", "sentAt": "t", "channel": "server"}) == {"channel": "server"}
    assert build("identify", {"userId": "u", "channel": "server"}, CONTEXT, None)["channel"] == "server"


def test_context_is_laid_over_the_default() -> None:
    """The call's own wins key by key; a library of its own replaces ours whole."""
    default = {"library": LIBRARY, "ip": "10.0.0.1", "app": "a"}
    built = build("identify", {"userId": "u", "context": {"ip": "10.0.0.2"}}, default, None)
    assert built["context"] == {"library": LIBRARY, "ip": "10.0.0.2", "app": "a"}
    own = build("identify", {"userId": "u", "context": {"library": {"name": "mine"}}}, default, None)
    assert own["context"]["library"] == {"name": "mine"}
    assert default["ip"] == "10.0.0.1"


def test_integrations_may_be_in_the_context() -> None:
    """Weakest first: the client's, the context's, the call's."""
    given = {"userId": "u", "context": {"integrations": {"A": False, "B": False}}, "integrations": {"B": True}}
    built = build("identify", given, CONTEXT, {"All": False, "A": True})
    assert built["integrations"] == {"All": False, "A": False, "B": True}
    assert "integrations" not in built["context"]
    assert build("identify", {"userId": "u"}, CONTEXT, {"All": False})["integrations"] == {"All": False}
    assert "integrations" not in message("identify", userId="u")


def test_an_empty_list_is_an_empty_mapping() -> None:
    """PHP writes an empty array so; ported code may too."""
    assert message("track", userId="u", event="E", properties=[])["properties"] == {}
