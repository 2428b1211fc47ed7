"""The decisions of a destination's filters: order, samples, what is taken out, and how a filter is named."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.connections.model import Destination, Filter
from hookline.events.body import render_canonical, render_plain
from hookline.events.view import EVENT_FIELDS
from hookline.expressions.lexer import ExpressionError
from hookline.journal.record import Record
from hookline.route.filters import Decision, Filters, rules_of


def record(message_id: str = "m", type_: str = "track", **caller: Any) -> Record:
    """An event with what filters look at."""
    body = json.dumps({"type": type_, "event": "Order", "userId": "u1", **caller}).encode()
    return Record(1, False, 0, "website", type_, message_id, b"", "u1", "2026-11-20T07:00:00.000Z", "sdk", body)


def drop(condition: str) -> Filter:
    """A filter that does not send."""
    return Filter(condition=condition, do="drop")


def without(*paths: str, condition: str = "true") -> Filter:
    """A filter that takes fields out."""
    return Filter(condition=condition, do="dropProperties", properties=paths)


def sample(percent: float, condition: str = "true") -> Filter:
    """A filter that sends so many percent."""
    return Filter(condition=condition, do="sample", percent=percent)


def test_the_first_that_stops_an_event_ends_it() -> None:
    """Later filters are not asked, and what earlier ones took out does not matter any more."""
    filters = Filters([drop("event = 'Heartbeat'"), without("properties.a"), drop("userId = 'u1'"), drop("true")])
    assert filters.decide(record()) == Decision(2, ())
    assert filters.decide(record(event="Heartbeat")) == Decision(0, ())
    assert filters.matching(record()) == (1, 2)


def test_each_filter_sees_what_the_ones_before_left() -> None:
    """A field that was taken out is missing to the next condition; what the event holds stays as it was."""
    taken_out = without("properties.card", "properties.address.city")
    filters = Filters([taken_out, drop("properties.card != null or properties.address.city != null")])
    kept = Filters([drop("properties.card != null"), taken_out])
    event = record(properties={"card": 1, "address": {"city": "Bonn", "zip": 1}})
    assert filters.decide(event) == Decision(None, (0,))
    assert kept.decide(event).stopped_by == 0


def test_what_kind_of_filters_there_are() -> None:
    """A lane asks only filters that stop, a request only those that take something out."""
    assert (Filters([drop("true")]).stops, Filters([drop("true")]).edits) == (True, False)
    assert (Filters([without("context")]).stops, Filters([without("context")]).edits) == (False, True)


@pytest.mark.parametrize("render", [render_plain, render_canonical])
def test_the_body(render: Any) -> None:
    """Several filters take out of one body what each means, in both forms; an event none concerns stays as it is."""
    filters = Filters(
        [
            without("properties.a"),
            Filter(condition="properties.b = 1", do="allowProperties", properties=("properties.b", "context.ip")),
            without("context.ip", condition="event = 'Other'"),
        ]
    )
    event = record(properties={"a": 1, "b": 1, "c": 1}, context={"ip": "1", "locale": "de"})
    body = json.loads(filters.body(event, render(event), canonical=render is render_canonical))
    assert (body["properties"], body["context"], body["event"]) == ({"b": 1}, {"ip": "1"}, "Order")
    assert filters.edited_by(event) == (0, 1)
    other = Filters([without("properties.a", condition="event = 'Other'")])
    assert other.body(event, render(event), canonical=False) == render(event)


def test_a_body_is_not_taken_for_another() -> None:
    """The last answer is kept for the next URL, per event and per form."""
    filters = Filters([without("properties.a")])
    first, second = record(properties={"a": 1, "b": 1.0}), record(properties={"a": 1, "b": 2.0})
    for event, canonical, expected in ((first, False, "1.0"), (first, True, "1"), (second, True, "2")):
        rendered = (render_canonical if canonical else render_plain)(event)
        for _ in range(2):
            assert f'"properties":{{"b":{expected}}}' in filters.body(event, rendered, canonical).decode()


def test_a_stop_does_not_count_for_what_is_being_sent() -> None:
    """A retry goes out although new filters would stop it, without what they take out."""
    filters = Filters([drop("true"), without("properties.a")])
    event = record(properties={"a": 1})
    assert json.loads(filters.body(event, render_plain(event), canonical=False))["properties"] == {}


def test_samples_grow_with_the_percentage() -> None:
    """About so many are sent, and who is in a small sample is in every larger one, whoever asks."""
    chosen = {
        percent: {n for n in range(2_000) if Filters([sample(percent)]).passes(record(f"m{n}"))}
        for percent in (0, 0.5, 10, 50, 100)
    }
    assert chosen[0] <= chosen[0.5] <= chosen[10] <= chosen[50] <= chosen[100]
    assert [len(chosen[percent]) for percent in (0, 100)] == [0, 2_000]
    assert 140 < len(chosen[10]) < 260
    assert 0 < len(chosen[0.5]) < 30


def test_delete_messages_pass() -> None:
    """A receiver learns of a deletion whatever its filters say."""
    filters = Filters([drop("true"), without("context")])
    assert filters.passes(record(type_="delete"))
    assert filters.edited_by(record(type_="delete")) == ()


@pytest.mark.parametrize(
    ("filter", "named"),
    [
        (drop("true"), "Filter 1 drops all events"),
        (sample(12.5), "Filter 1 sends only 12.5 % of all events"),
        (without("properties.a", "context"), "Filter 1 removes properties.a, context from all events"),
    ],
)
def test_names(filter: Filter, named: str) -> None:
    """A filter is named by its number, what it does, and its condition, as people read it."""
    assert Filters([filter]).rule(0) == named


def test_what_was_never_checked_is_refused() -> None:
    """A condition that cannot be read raises when it is compiled, not when an event comes."""
    with pytest.raises(ExpressionError):
        Filters([drop("evnt = 1")])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
FILTERS = Filters(
    [
        without("properties.a", "context.b.c", "traits"),
        Filter(condition="properties.b = 1", do="allowProperties", properties=("properties.b.c", "context")),
        *(drop(f"contains({name}, 'zz') or {name}.a.b > 5") for name in EVENT_FIELDS),
    ]
)
TYPES = st.sampled_from(["track", "page", "identify", "group", "alias", "screen"])


@given(TYPES, st.dictionaries(st.sampled_from(EVENT_FIELDS), JSON))
def test_no_event_makes_them_raise(type_: str, caller: dict[str, Any]) -> None:
    """Whatever callers put where, there is a decision, and a body that is JSON without what was taken out."""
    event = record(type_=type_)
    event.body = json.dumps(caller).replace("NaN", "0").replace("Infinity", "1e999").encode()
    FILTERS.decide(event)
    body = json.loads(FILTERS.body(event, render_plain(event), canonical=False))
    assert "a" not in body.get("properties", {})


def test_the_conditions_of_requests_see_settings_and_receipt() -> None:
    """An event becomes a request by what the settings say, and by when it was received."""
    conditions = ["contains(settings.events, event)", 'type = "page" and receivedAt = "1970-01-01T00:00:00.000Z"']
    filters = Filters([], conditions, {"events": ["Order"]})
    assert filters.passes(record())
    assert not filters.passes(record(event="Other"))
    assert filters.passes(record(type_="page"))
    assert not Filters([], conditions, {"events": []}).passes(record())


def test_only_settings_that_conditions_name_are_rules() -> None:
    """A new credential changes nothing of what a destination gets; a setting that a condition asks for does."""
    fields = {"id": "d", "name": "d", "kind": "http", "settings": {"variables": {"only": "x"}, "secrets": {"a": "b"}}}
    mapping = [{"name": "r", "if": "event = settings.variables.only", "url": "https://example.com/"}]
    destination = msgspec.convert({**fields, "mapping": mapping}, Destination)
    assert rules_of(destination)[1:] == (("event = settings.variables.only",), {"variables": {"only": "x"}})
