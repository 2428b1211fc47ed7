"""Secrets leave the history 30 days after they left force, or at once, and nothing else of it changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hookline.connections.edits import Delete, Put
from hookline.connections.model import Destination
from hookline.connections.past import way_back
from hookline.connections.rotation import rotate
from hookline.connections.secrets import KEPT_MS
from hookline.connections.store import ChangeRefused, Store
from hookline.database.location import DatabaseLocation
from tests.unit.connections.examples import change, destination, source

OLD, NEW = "Bearer an-old-secret", "Bearer a-new-secret"
DAY_MS = 86_400_000


class Clock:
    """A wall clock that stands where it is put."""

    ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    """The store's."""
    return Clock()


@pytest.fixture
def store(location: DatabaseLocation, clock: Clock) -> Iterator[Store]:
    """A store with a destination that has a credential."""
    opened = Store(location, now_ms=clock)
    change(opened, source(), crm(OLD))
    yield opened
    opened.close()


def crm(authorization: str, **fields: object) -> Destination:
    """The destination with this credential."""
    return destination(headers={"Authorization": authorization, "X-Team": "crm"}, **fields)  # type: ignore[arg-type]


def authorizations(store: Store) -> list[str]:
    """What the history has of it, version by version."""
    snapshots = (store.snapshot(version) for version in range(1, store.version + 1))
    return [
        each.settings.webhooks[0].headers["Authorization"] for snapshot in snapshots for each in snapshot.destinations
    ]


def remove(store: Store, clock: Clock, days: float = 0) -> int:
    """Let so many days pass, and remove what is then too old."""
    clock.ms += round(days * DAY_MS)
    return store.remove_old_secrets(clock.ms - KEPT_MS)


def test_a_deleted_destination_loses_its_secrets_after_thirty_days(store: Store, clock: Clock) -> None:
    """Not before; what is no secret, and that it was there, stays."""
    change(store, Delete("destination", "crm"))
    assert (remove(store, clock, 29.9), authorizations(store)) == (0, [OLD])
    assert (remove(store, clock, 0.2), authorizations(store)) == (1, ["keep"])
    assert store.snapshot(1).destinations == (crm("keep"),)
    assert remove(store, clock, 100) == 0


def test_a_replaced_secret_goes_and_one_in_force_stays(store: Store, clock: Clock) -> None:
    """A secret is judged by when it left force, not by how old the version is that holds it."""
    change(store, crm(OLD, name="Renamed"))
    remove(store, clock, 40)
    change(store, crm(NEW))
    assert (remove(store, clock, 29), authorizations(store)) == (0, [OLD, OLD, NEW])
    assert (remove(store, clock, 2), authorizations(store)) == (1, ["keep", "keep", NEW])


def test_a_rotated_secret_goes_from_what_is_in_force_too(store: Store, clock: Clock) -> None:
    """30 days after its overlap has ended, without a new version; the secret of now signs on."""
    change(store, destination(secret="shared-secret-one"))
    rotated = rotate(destination(secret="shared-secret-one"), "sharedSecret", "shared-secret-two", 86_400, clock.ms)
    change(store, Put(rotated, rotating=True))
    version = store.version
    remove(store, clock, 30.9)
    assert store.snapshot().destinations[0].rotations[0].previous == "shared-secret-one"
    remove(store, clock, 0.2)
    (found,) = store.snapshot().destinations
    assert (found.rotations[0].previous, found.settings.shared_secret) == (None, "shared-secret-two")
    assert "shared-secret-one" not in str([store.snapshot(each) for each in range(1, version + 1)])
    assert store.version == version


def test_at_once_on_request(store: Store, clock: Clock) -> None:
    """Of one destination, whatever its age; others, and what is in force, stay as they are."""
    change(store, destination("other", headers={"Authorization": OLD}))
    change(store, crm(NEW), Delete("destination", "other"))
    clock.ms += 1
    assert store.remove_old_secrets(clock.ms, "crm") == 1
    assert authorizations(store) == ["keep", "keep", OLD, NEW]


def test_the_way_back_takes_the_secret_of_now(store: Store, clock: Clock) -> None:
    """Rolled back to a version without its secret, a destination has the one in force; without one it is refused."""
    change(store, crm(NEW, name="Renamed"))
    remove(store, clock, 31)
    _, edits = way_back(store, 1)
    store.change(edits, "ada", None, dict)
    assert store.snapshot().destinations == (crm(NEW),)
    change(store, Delete("destination", "crm"))
    with pytest.raises(ChangeRefused, match="Authorization: there is no stored secret to keep"):
        store.change(way_back(store, 1)[1], "ada", None, dict)


def test_references_stay(store: Store, clock: Clock) -> None:
    """They are no secrets, and what they lead to is not in the history."""
    change(store, crm("env:HOOKLINE_SECRET_CRM"))
    change(store, replace(crm(NEW)))
    remove(store, clock, 31)
    assert authorizations(store) == ["keep", "env:HOOKLINE_SECRET_CRM", NEW]


def test_no_byte_is_left(tmp_path: Path, clock: Clock) -> None:
    """Neither in the file's free room nor in its log."""
    store = Store(tmp_path / "control.db", now_ms=clock)
    change(store, source(), crm(OLD))
    change(store, Delete("destination", "crm"))
    remove(store, clock, 31)
    assert [each.name for each in tmp_path.iterdir() if b"an-old-secret" in each.read_bytes()] == []
    store.close()
