"""Versions of the connections: what each changed, and the way back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from hookline.connections.edits import Delete, Edit, Put
from hookline.connections.model import Pause, Source
from hookline.connections.past import LISTED_CHANGES_MAX, Past, way_back
from hookline.connections.rotation import rotate
from hookline.connections.store import Store
from hookline.database.location import DatabaseLocation
from tests.unit.connections.examples import destination, source


@pytest.fixture
def past(location: DatabaseLocation, store: Store) -> Iterator[Past]:
    """What another part of control reads."""
    opened = Past(location)
    yield opened
    opened.close()


def change(store: Store, *edits: Edit, author: str = "ada", owner: str | None = None) -> int:
    """Make the edits."""
    return store.change(edits, author, owner, dict)


def told(past: Past, version: int) -> list[tuple[str, str, str | None]]:
    """Action, id and note of each change of a version."""
    found = past.version(version)
    assert found is not None
    return [(each.action, each.id, each.note) for each in found.changes]


def test_each_version_tells_who_did_what(store: Store, past: Past) -> None:
    """Created, changed with the fields, deleted."""
    change(store, Put(source()), Put(destination()))
    change(store, Put(replace(destination(), name="Other")), author="bob")
    change(store, Delete("destination", "crm"))
    assert [(each.version, each.author, each.objects) for each in past.newest(9)] == [
        (3, "ada", 1), (2, "bob", 1), (1, "ada", 2),
    ]  # fmt: skip
    assert told(past, 1) == [("create", "website", None), ("create", "crm", None)]
    assert told(past, 3) == [("delete", "crm", None)]
    changed = past.version(2)
    assert changed is not None
    assert [(field.path, field.after) for field in changed.changes[0].fields] == [("name", "Other")]


def test_a_version_tells_what_is_no_field(store: Store, past: Past) -> None:
    """Pauses, and files that take an object over."""
    change(store, Put(source()), Put(destination()))
    store.pause("crm", Pause(since=1, reason="moving"), "ada", dict)
    store.resume("crm", None, "ada", dict)
    change(store, Put(destination()), owner="file")
    notes = [told(past, version) for version in (2, 3, 4)]
    assert notes == [
        [("change", "crm", "paused: moving")],
        [("change", "crm", "resumed")],
        [("change", "crm", "belongs to the file from then on")],
    ]


def test_secrets_are_masked(store: Store, past: Past) -> None:
    """Neither the old one nor the new one is told, but that it changed is."""
    for secret in ("first-secret-of-all", "second-secret-of-all"):
        change(store, Put(source()), Put(destination(secret=secret)))
    changed = past.version(2)
    assert changed is not None
    assert [field.path for field in changed.changes[0].fields] == ["settings.sharedSecret"]
    assert "secret-of-all" not in repr(changed)


def test_a_list_is_cut_and_says_so(store: Store, past: Past) -> None:
    """A large change shows its first objects and how many there were; pages go on below a version."""
    change(store, *(Put(Source(id=f"s{n:02}", name="S", write_keys=(f"wk_{n}",))) for n in range(30)))
    change(store, *(Delete("source", f"s{n:02}") for n in range(15)))
    newest, first = past.newest(2)
    assert (newest.objects, len(newest.changes)) == (15, LISTED_CHANGES_MAX)
    assert {each.action for each in newest.changes} == {"delete"}
    assert past.newest(5, below=2) == [first]
    assert past.version(3) is None


def test_the_way_back_undoes_everything(store: Store) -> None:
    """Changed, deleted and new objects are as they were; going back twice changes nothing more."""
    change(store, Put(source()), Put(destination()))
    then = store.snapshot()
    change(store, Put(replace(destination(), name="Other")), Put(Source(id="app", name="App", write_keys=("wk_app",))))
    change(store, Delete("destination", "crm"), Delete("source", "website"))
    changes, edits = way_back(store, 1)
    assert [(each.action, each.id) for each in changes] == [
        ("create", "website"), ("create", "crm"), ("delete", "app"),
    ]  # fmt: skip
    change(store, *edits)
    now = store.snapshot()
    assert (now.sources, now.destinations) == (then.sources, then.destinations)
    assert way_back(store, 1) == ([], [])


def test_the_way_back_keeps_lanes_and_pauses(store: Store) -> None:
    """How far a destination has come is no setting."""
    change(store, Put(source()), Put(destination()))
    change(store, Put(replace(destination(), name="Other")))
    store.pause("crm", Pause(since=1), "ada", dict)
    lane = store.snapshot().lanes["crm"]
    change(store, *way_back(store, 1)[1])
    stored = store.destination("crm")
    assert stored is not None
    assert (stored.object.name, stored.lane) == (destination().name, lane)


def test_no_way_back_for_a_secret_that_was_rotated_out(store: Store) -> None:
    """It may be known to others: the new one stays."""
    change(store, Put(source()), Put(destination(secret="old-secret-old-secret")))
    stored = store.destination("crm")
    assert stored is not None
    rotated = rotate(stored.object, "sharedSecret", "new-secret-new-secret", overlap_seconds=60, now_ms=1)
    change(store, Put(rotated, rotating=True))
    changes, edits = way_back(store, 1)
    assert (changes, edits) == ([], [])
