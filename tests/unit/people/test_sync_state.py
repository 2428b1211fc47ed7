"""How far syncs are and what they left, read from a real database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hookline.connections.definitions.model import ComputedTrait
from hookline.database.connection import Connection
from hookline.database.open import open_profiles
from hookline.people.definitions.definition import Key
from hookline.people.definitions.feature import Feature
from hookline.people.sync.results import SyncState, SyncStates, empty_value
from tests.unit.conftest import LocationOf

BUYERS: Key = ("audience", "buyers")


@pytest.fixture
def file(location_of: LocationOf) -> Iterator[Connection]:
    """Five persons, of whom 1 is no member, 3 was merged into 4, and 5 has no user id."""
    connection = open_profiles(location_of("profiles"))
    for person in range(1, 6):
        user_id = None if person == 5 else f"u{person}"
        connection.execute("INSERT INTO persons (id, first_seen, user_id) VALUES (?, 0, ?)", (person, user_id))
    connection.execute("INSERT INTO merged (person, into_person) VALUES (3, 4)")
    _define(connection, 7, "buyers")
    for person in range(1, 6):
        value = "false" if person == 1 else "true"
        query = "INSERT INTO members (definition, person, value, since, until, sent) VALUES (7, ?, ?, 10, ?, ?)"
        connection.execute(query, (person, value, 99 if person == 2 else None, value if person != 5 else None))
    yield connection
    connection.close()


def test_those_with_a_value_are_held(file: Connection) -> None:
    """Neither who has none nor who was merged; told is what was sent as it is."""
    held = SyncStates(file).held(BUYERS, "false", 10)
    assert [(each.person, each.user_id, each.until_ms, each.synced) for each in held] == [
        (2, "u2", 99, True),
        (4, "u4", None, True),
        (5, None, None, False),
    ]
    assert [each.person for each in SyncStates(file).held(BUYERS, "false", 1, after=2)] == [4]
    assert SyncStates(file).held(("trait", "buyers"), "false", 10) == []


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 6])
def test_counting_goes_on_where_it_stopped(file: Connection, rows: int) -> None:
    """In steps of any size the sum is the same."""
    people, after = 0, 0
    while True:
        step = SyncStates(file).count(BUYERS, "false", after, rows)
        people += step.people
        if step.last is None:
            break
        after = step.last
    assert people == 3


@pytest.mark.parametrize("rows", [1, 2, 5, 6])
def test_members_are_compared_in_steps(file: Connection, rows: int) -> None:
    """Each with whether they are in the other one; neither who is none nor who was merged."""
    _define(file, 8, "loyal")
    for person, value in ((1, "true"), (2, "false"), (4, "true")):
        query = "INSERT INTO members (definition, person, value, since) VALUES (8, ?, ?, 10)"
        file.execute(query, (person, value))
    found, after = [], 0
    while True:
        step = SyncStates(file).overlap("buyers", "loyal", after, rows)
        found += step.members
        if step.last is None:
            break
        after = step.last
    assert found == [(2, False), (4, True), (5, False)]
    assert SyncStates(file).overlap("loyal", "nope").members == [(1, False), (4, False)]


def test_a_sync_is_before_the_first_under_way_or_to_come(file: Connection) -> None:
    """What the pages tell apart."""
    states = SyncStates(file)
    assert states.of(("audience", "unheard of")) is None
    _define(file, 8, "new")
    assert states.of(("audience", "new")) == SyncState(0, 0, False, True)
    file.execute("UPDATE definitions SET sending_at = 5, sending_batch = 2 WHERE id = 8")
    assert states.of(("audience", "new")) == SyncState(0, 0, True, False)
    file.execute("UPDATE definitions SET number = 1, next_at = 50, evaluated = 2, sending_at = NULL WHERE id = 8")
    assert states.of(("audience", "new")) == SyncState(1, 50, False, False)


def test_what_is_still_to_be_read_is_the_longest_way(file: Connection) -> None:
    """Features that begin together are read together; partitions one after the other."""
    orders, refunds = Feature("track", "Order", "", ""), Feature("track", "Refund", "", "")
    for id, feature in enumerate((orders, refunds), 1):
        query = "INSERT INTO features (id, type, name, condition, value) VALUES (?, ?, ?, ?, ?)"
        file.execute(query, (id, *feature))
    backfill = "INSERT INTO backfills (feature, partition, next_offset, end_offset) VALUES (?, ?, ?, ?)"
    file.executemany(backfill, [(1, 0, 10, 100), (1, 1, 0, 5), (2, 0, 90, 100)])
    assert SyncStates(file).unread([orders, refunds]) == 95
    assert SyncStates(file).unread([refunds]) == 10
    assert SyncStates(file).unread([Feature("page", "", "", "")]) == 0


def test_what_stands_for_no_value() -> None:
    """As judging has it."""
    made: dict[str, Any] = {"id": "t", "name": "T", "event": "Order"}
    assert empty_value(ComputedTrait(**made, aggregate="count")) == "0"
    assert empty_value(ComputedTrait(**made, aggregate="uniqueList", property="properties.x")) == "[]"
    assert empty_value(ComputedTrait(**made, aggregate="last", property="properties.x")) == "null"


def _define(connection: Connection, id: int, name: str) -> None:
    query = "INSERT INTO definitions (id, kind, name, judged, number, next_at) VALUES (?, 'audience', ?, '', 0, 0)"
    connection.execute(query, (id, name))
