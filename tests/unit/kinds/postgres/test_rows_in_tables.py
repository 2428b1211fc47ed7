"""Which rows events become, and in which tables."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hookline.kinds.answers import ACCEPTED
from hookline.kinds.postgres.rows import Batch, RowMaker, TableName
from tests.unit.kinds.postgres.warehouse import FIRST_MS, Warehouse, event


def test_a_track_call_is_in_tracks_and_in_the_table_of_its_event(warehouse: Warehouse) -> None:
    """With the properties in the latter, flattened, and the context in both."""
    one = event(
        userId="u1",
        anonymousId="a1",
        timestamp="2026-11-20T07:00:00.123Z",
        properties={"orderId": "o-1", "total": 129.95, "gift": False, "items": 2, "at": "2026-11-20T08:00:00+01:00",
                    "address": {"cityName": "Kiel"}, "products": [{"sku": "A"}], "none": None, "empty": {}},
        context={"ip": "203.0.113.7", "app": {"version": "1.0"}},
    )  # fmt: skip
    assert warehouse.write(one) == [ACCEPTED]
    assert warehouse.tables() == {"tracks", "order_completed"}
    assert warehouse.types("site.tracks") == {
        **dict.fromkeys(("id", "user_id", "anonymous_id", "event", "event_text"), "text"),
        **dict.fromkeys(("received_at", "uuid_ts", "timestamp"), "timestamp with time zone"),
        **dict.fromkeys(("context_ip", "context_app_version"), "text"),
    }
    (track,) = warehouse.rows("site.tracks")
    (order,) = warehouse.rows("site.order_completed")
    assert track["timestamp"] == datetime(2026, 11, 20, 7, 0, 0, 123_000, UTC)
    assert {**order, **track} == order
    assert track["id"] == one.fields["messageId"]
    assert (track["event"], track["event_text"]) == ("order_completed", "Order Completed")
    own = {name: value for name, value in order.items() if name not in track}
    assert {name: str(value) for name, value in own.items()} == {
        "order_id": "o-1",
        "total": "129.95",
        "gift": "False",
        "items": "2",
        "at": "2026-11-20 07:00:00+00:00",
        "address_city_name": "Kiel",
        "products": '[{"sku":"A"}]',
    }
    types = warehouse.types("site.order_completed")
    assert [types[name] for name in ("total", "gift", "items")] == ["numeric", "boolean", "bigint"]


def test_every_call_has_its_table(warehouse: Warehouse) -> None:
    """With the fields and properties of its own."""
    warehouse.write(
        event("identify", userId="u1", traits={"email": "a@example.com", "name": "Ann", "address": {"city": "Bonn"}}),
        event("page", userId="u1", name="Home", category="Main", properties={"title": "T", "name": "left out"}),
        event("screen", anonymousId="a1", name="Start", properties={"width": 320}),
        event("group", userId="u1", groupId="g1", traits={"employees": 12}),
        event("alias", userId="u1", previousId="a0"),
    )
    assert warehouse.tables() == {"identifies", "users", "pages", "screens", "groups", "accounts", "aliases"}
    assert warehouse.rows("site.identifies", "user_id", "email", "name", "address_city") == [
        ("u1", "a@example.com", "Ann", "Bonn")
    ]
    assert warehouse.rows("site.pages", "name", "category", "title") == [("Home", "Main", "T")]
    assert warehouse.rows("site.screens", "name", "width", "anonymous_id") == [("Start", 320, "a1")]
    assert warehouse.rows("site.groups", "group_id", "employees", "user_id") == [("g1", 12, "u1")]
    assert warehouse.rows("site.accounts", "id", "employees") == [("g1", 12)]
    assert warehouse.rows("site.aliases", "user_id", "previous_id") == [("u1", "a0")]


def test_users_have_what_was_said_last(warehouse: Warehouse) -> None:
    """One row for each user, over batches and within one, by the time of receipt; what is not said again stays."""
    late, early = 1_800_000_009_000, 1_800_000_001_000
    with warehouse.open() as sink:
        sink.write(
            [
                event("identify", userId="u1", traits={"plan": "free", "city": "Bonn"}, at_ms=early),
                event("identify", userId="u1", traits={"plan": "pro"}, at_ms=early + 1),
                event("identify", anonymousId="a9", traits={"plan": "nobody"}),
            ]
        )
        assert warehouse.rows("site.users", "id", "plan", "city") == [("u1", "pro", "Bonn")]
        sink.write([event("identify", userId="u1", traits={"city": "Ulm"}, at_ms=late)])
        sink.write([event("identify", userId="u1", traits={"city": "Jena", "age": 7}, at_ms=early + 2)])
    assert warehouse.rows("site.users", "id", "plan", "city", "age") == [("u1", "pro", "Ulm", 7)]
    (user,) = warehouse.rows("site.users")
    assert user["received_at"] == datetime.fromtimestamp(late / 1000, UTC)
    assert "anonymous_id" not in user
    assert "user_id" not in user
    assert len(warehouse.rows("site.identifies")) == 5


def test_a_late_identify_within_a_batch_does_not_win(warehouse: Warehouse) -> None:
    """A retried event may stand behind one that was received after it."""
    late = event("identify", userId="u1", traits={"plan": "pro"}, at_ms=1_800_000_009_000)
    early = event("identify", userId="u1", traits={"plan": "free", "age": 7}, at_ms=1_800_000_001_000)
    warehouse.write(late, early)
    assert warehouse.rows("site.users", "plan", "age") == [("pro", 7)]


@pytest.mark.parametrize("step_ms", [1, -1])
def test_what_is_known_of_a_user_is_not_copied_for_each_event(step_ms: int) -> None:
    """Each event of a batch may have thousands of new traits: they join the others where those are."""
    maker, batch = RowMaker(""), Batch()
    users = batch.of(TableName("site", "users"), is_latest=True)
    seen = []
    for number in range(3):
        traits = {f"trait_{number}": number, "last": number}
        maker.add(batch, event("identify", userId="u1", traits=traits, at_ms=FIRST_MS + number * step_ms))
        seen.append(users.rows["u1"])
    assert seen[0] is seen[1] is seen[2]
    expected = {"trait_0": 0, "trait_1": 1, "trait_2": 2, "last": 2 if step_ms > 0 else 0}
    assert seen[2].items() >= expected.items()


def test_each_source_has_a_schema(warehouse: Warehouse) -> None:
    """Named after the source, behind the prefix of the settings."""
    warehouse.write(event(source="main-site"), event(source="App"), schemaPrefix="prod_")
    assert warehouse.tables("prod_main_site") == warehouse.tables("prod_app") == {"tracks", "order_completed"}


def test_properties_named_as_our_columns_are_left_out(warehouse: Warehouse) -> None:
    """They would say something else in the same column."""
    warehouse.write(event(userId="u1", properties={"userId": "u2", "timestamp": 5, "Received At": "x", "own": 1}))
    assert warehouse.rows("site.order_completed", "user_id", "own") == [("u1", 1)]
    assert warehouse.types("site.order_completed")["timestamp"] == "timestamp with time zone"


def test_of_two_properties_with_one_column_none_is_lost(warehouse: Warehouse) -> None:
    """The first has the column, the other stands among those without one."""
    warehouse.write(event(properties={"fooBar": 1, "foo_bar": 2}))
    assert warehouse.rows("site.order_completed", "foo_bar", "other_properties") == [(1, {"foo_bar": 2})]


def test_context_fields_with_one_column_are_kept_apart_in_both_tables(warehouse: Warehouse) -> None:
    """What one table keeps as JSON is not mixed with what the other does."""
    warehouse.write(event(context={"aB": 1, "a_b": 2}, properties={"cD": 3, "c_d": 4}))
    assert warehouse.rows("site.tracks", "context_a_b", "other_properties") == [(1, {"a_b": 2})]
    assert warehouse.rows("site.order_completed", "c_d", "other_properties") == [(3, {"a_b": 2, "c_d": 4})]


def test_deep_objects_become_json(warehouse: Warehouse) -> None:
    """From a depth on that no query would look for."""
    deep: object = "x"
    for _ in range(12):
        deep = {"n": deep}
    warehouse.write(event(properties={"deep": deep}))
    (name,) = [name for name in warehouse.types("site.order_completed") if name.startswith("deep")]
    assert warehouse.rows("site.order_completed", name) == [('{"n":{"n":{"n":{"n":"x"}}}}',)]


def test_ids_stay_text(warehouse: Warehouse) -> None:
    """An id that looks like a number or a time is none."""
    warehouse.write(event("group", userId="12", groupId="2026-11-20T07:00:00Z", name="5"))
    assert warehouse.rows("site.groups", "user_id", "group_id") == [("12", "2026-11-20T07:00:00Z")]


@pytest.mark.parametrize("other", ["u\x00", "u\ud83d"])
def test_users_whose_ids_are_stored_alike_are_one_row(warehouse: Warehouse, other: str) -> None:
    """PostgreSQL has no place for NUL and halves of characters: ids that differ by these alone share what was said."""
    verdicts = warehouse.write(
        event("identify", userId="u\ufffd", traits={"a": 1}), event("identify", userId=other, traits={"b": 2})
    )
    assert verdicts == [ACCEPTED] * 2
    assert warehouse.rows("site.users", "id", "a", "b") == [("u\ufffd", 1, 2)]
