"""One user id that has got the devices of everybody: what is read of such a person is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.database.connection import Connection
from hookline.people import timeline
from hookline.people.store import people
from hookline.people.store.people import Identity, People, Person
from hookline.people.timeline import of_person
from tests.unit.conftest import LocationOf
from tests.unit.people.memory_journal import record
from tests.unit.people.test_sync_model import Profiles

DEVICES = [f"d{number:02}" for number in range(30)]


@pytest.fixture
def connection(location_of: LocationOf, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """People among whom all devices were ``before``'s and are ``undefined``'s, where 20 ids are many."""
    for module in (people, timeline):
        monkeypatch.setattr(module, "IDS_MAX", 20)
    profiles = Profiles(location_of("profiles"))
    for user in ("before", "undefined"):
        profiles.journal.append(*(record("identify", user + id, userId=user, anonymousId=id) for id in DEVICES))
    profiles.sync_all()
    return profiles.store.connection


def user(connection: Connection, id: str) -> Person:
    """The person of a user id."""
    found = People(connection).by_user_id(id)
    assert found is not None
    return found


def test_ids_are_counted_beyond_those_that_are_listed(connection: Connection) -> None:
    """User ids come first."""
    person = user(connection, "undefined")
    assert [each.id for each in person.identities()] == ["undefined", *DEVICES[:19]]
    assert person.identity_count() == 31
    assert person.anonymous_id() == "d00"


def test_so_many_ids_are_looked_through(connection: Connection) -> None:
    """And the one that was asked for; of somebody whose devices are others' by now, as many of those."""
    assert of_person(connection, user(connection, "undefined")).ids == {"undefined", *DEVICES[:19]}
    asked = Identity("anonymous", "d29")
    assert of_person(connection, user(connection, "undefined"), asked).ids == {"undefined", *DEVICES[:19], "d29"}
    assert of_person(connection, user(connection, "before")).ids == {"before", *DEVICES[:20]}


def test_a_few_queries_look_up_whose_the_ids_were(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ids there are; each is the person's from where it was handed on."""
    person, asked = user(connection, "undefined"), []

    class Asked:
        def execute(self, query: str, values: Any = ()) -> Any:
            asked.append(query)
            return connection.execute(query, values)

    monkeypatch.setattr(timeline, "IDS_PER_QUERY", 10)
    owned = of_person(Asked(), person)  # type: ignore[arg-type]  # what it asks of a connection
    assert len(asked) == 1 + 2
    assert len(set(owned.anonymous.values())) == 19
    assert all(len(stretches) == 1 and stretches[0][0] > 0 for stretches in owned.anonymous.values())
