"""Finding people by the beginning of ids and traits: who is found, in which order, and who is not found any more."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from hookline.journal.record import Record
from hookline.people.ingest.erasing import Erasing
from hookline.people.store import search
from hookline.people.store.search import PeopleSearch, bounds, normal
from hookline.people.store.store import ProfileStore
from hookline.privacy.identities import given
from hookline.replays.offset_set import OffsetSet
from tests.unit.conftest import LocationOf
from tests.unit.people.memory_journal import NOW_MS, record
from tests.unit.people.test_sync_model import Profiles

COUNT = count()


@pytest.fixture
def profiles(location_of: LocationOf) -> Profiles:
    """People, on both databases."""
    return Profiles(location_of("profiles"))


def identify(user_id: str | None, anonymous_id: str | None = None, **traits: Any) -> Record:
    """An identify call; a later one is newer."""
    return record("identify", "i", NOW_MS + next(COUNT), userId=user_id, anonymousId=anonymous_id, traits=traits)


def take(profiles: Profiles, *records: Record) -> None:
    """Have them come in, and wait until they are in the database."""
    profiles.journal.append(*records)
    while profiles.ingest.step():
        pass


def found(profiles: Profiles, text: str, limit: int = 20) -> list[str]:
    """The ids of whom a search finds."""
    return [each.id for each in PeopleSearch(profiles.store.connection).find(text, limit)]


@pytest.mark.parametrize(
    ("written", "one"),
    [
        ("  Ada\tLOVELACE ", "ada lovelace"),
        ("ＡＤＡ", "ada"),
        ("Straße", "strasse"),
        ("e\u0301cole", "école"),
        ("a\x00b\udc80c", "a b c"),
        ("x" * 1_000, "x" * search.TERM_CHARACTERS_MAX),
    ],
)
def test_one_spelling(written: str, one: str) -> None:
    """Of what people write in many ways."""
    assert normal(written) == one
    assert normal(one) == one


@pytest.mark.parametrize("prefix", ["a", "zoë", "\ud7ff", "a\U0010ffff", "日本", "\U0010fffe"])
def test_bounds_hold_exactly_what_begins_so(prefix: str) -> None:
    """In the order of bytes, which both databases keep."""
    low, high = bounds(prefix)
    assert high is not None
    last = (prefix + "\U0010ffff" * 3).encode()
    assert low.encode() <= prefix.encode() <= last < high.encode()
    assert not high.startswith(prefix)


def test_nothing_is_behind_the_last_character() -> None:
    """So that there is no upper bound."""
    assert bounds("\U0010ffff\U0010ffff") == ("\U0010ffff\U0010ffff", None)


def test_people_are_found_by_ids_and_traits(profiles: Profiles) -> None:
    """By the beginning of an id, of an e-mail and of each word of a name, however it is written; exact ids first."""
    take(
        profiles,
        identify("u-17", email="Ada@Example.com", name="Ada King Lovelace", plan="secret"),
        identify("u-170", name="Zoë Straße", company="日本電気"),
        identify("ada", name="Somebody"),
        identify("odd", name="\U0010ffff\U0010ffff last"),
        record("track", "t", anonymousId="ADA-device"),
    )
    assert found(profiles, "ADA@ex") == ["u-17"]
    assert found(profiles, "lovel") == found(profiles, "king  LOVE") == ["u-17"]
    assert found(profiles, "u-17") == ["u-17", "u-170"]
    assert found(profiles, "u-170") == ["u-170"]
    assert found(profiles, "strasse") == found(profiles, "日本") == ["u-170"]
    assert found(profiles, "\U0010ffff") == ["odd"]
    assert found(profiles, "ADA") == ["ada", "u-17", "ADA-device"]
    assert found(profiles, "secret") == found(profiles, "  ") == found(profiles, "%") == found(profiles, "acme") == []
    assert found(profiles, "u-", limit=1) == ["u-17"]


def test_a_changed_trait_is_found_by_its_new_value_alone(profiles: Profiles) -> None:
    """Also where the newer one was given under another id before both turned out to be one person."""
    take(profiles, identify("u", email="old@x.test"))
    take(profiles, identify("u", email="new@x.test"))
    assert (found(profiles, "old@"), found(profiles, "new@")) == ([], ["u"])
    take(profiles, identify(None, "device", email="later@x.test"))
    assert found(profiles, "later") == ["device"]
    take(profiles, record("track", "t", userId="u", anonymousId="device"))
    assert (found(profiles, "later"), found(profiles, "new@"), found(profiles, "device")) == (["u"], [], ["u"])
    take(profiles, identify("u", email=None))
    assert found(profiles, "later") == []


def test_what_comes_late_does_not_win(profiles: Profiles) -> None:
    """The value of the newest event counts, also where that one only repeated it."""
    first, late, again = (
        identify("u", email="a@x.test"),
        identify("u", email="late@x.test"),
        identify("u", email="a@x.test"),
    )
    take(profiles, first)
    take(profiles, again)
    take(profiles, late)
    assert (found(profiles, "a@"), found(profiles, "late@")) == (["u"], [])


def test_what_goes_with_somebody_else_is_not_found(profiles: Profiles) -> None:
    """Traits that came from erased events of somebody who shared a device, and not the others."""
    take(profiles, identify("gone", "device", email="gone@x.test"))
    take(profiles, identify("stays", "device", name="Stays"), identify(None, "device", email="both@x.test"))
    assert found(profiles, "both@") == ["stays"]
    with profiles.store.transaction() as execute:
        Erasing(profiles.store, execute, {0: OffsetSet([0, 2])}).erase(given(["gone", "device"]))
    profiles.ingest.forget()
    assert found(profiles, "both@") == found(profiles, "gone@") == []
    assert found(profiles, "stays") == ["stays"]


def test_nothing_of_an_erased_person_is_left(profiles: Profiles) -> None:
    """Not in the rows of others who shared a device with them, either."""
    take(profiles, identify("gone", "device", email="gone@x.test"), identify("stays", email="stays@x.test"))
    with profiles.store.transaction() as execute:
        Erasing(profiles.store, execute, {0: OffsetSet()}).erase(given(["gone"]))
    profiles.ingest.forget()
    assert (found(profiles, "gone"), found(profiles, "stays@")) == ([], ["stays"])
    terms = [term for (term,) in profiles.store.connection.execute("SELECT DISTINCT term FROM search_terms")]
    assert terms == ["stays@x.test"]


def test_it_is_built_from_what_is_there(
    profiles: Profiles, location_of: LocationOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade, or another choice of traits: step by step, over a restart, while more comes in."""
    monkeypatch.setattr(search, "PERSONS_PER_STEP", 3)
    take(profiles, *(identify(f"u{n}", email=f"e{n}@x.test", phone=f"49{n}") for n in range(8)))
    assert (found(profiles, "492"), found(profiles, "e2@")) == ([], ["u2"])
    reader = PeopleSearch(profiles.store.connection)
    for _ in range(2):  # the second goes on where the first was
        store = ProfileStore(location_of("profiles"), ("phone",))
        assert reader.built() < 1
        assert store.search.step()
        store.close()
    assert found(profiles, "e2@") == []
    store = ProfileStore(location_of("profiles"), ("phone",))
    while store.search.step():
        pass
    store.close()
    assert reader.built() == 1
    assert [found(profiles, f"49{n}") for n in range(8)] == [[f"u{n}"] for n in range(8)]


def test_identified_people_are_listed_newest_first(profiles: Profiles) -> None:
    """In pages; without those who were merged into others."""
    take(profiles, *(identify(f"u{n}") for n in range(5)), record("track", "t", anonymousId="a"))
    take(profiles, record("alias", "t", userId="u4", previousId="u0"))
    reader = PeopleSearch(profiles.store.connection)
    first, after = reader.identified(2)
    at, number = map(int, after.split(":"))
    second, end = reader.identified(2, (at, number))
    assert [each.user_id for each in [*first, *second]] == ["u4", "u3", "u2", "u1"]
    assert end == ""
