"""The suppression list: written by control, followed by collect, and without an id in any file of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.database.connect import empty_log
from hookline.database.location import DatabaseLocation
from hookline.database.sqlite import DatabaseNotMade, DatabaseUnreadable
from hookline.privacy import id_digest, requests
from hookline.privacy.model import Action, Erased
from hookline.privacy.requests import Requests, TooManyRequests
from hookline.privacy.search import SearchResult
from hookline.privacy.shared_erased import ErasureFeed
from hookline.privacy.suppressions import (
    IDS_PER_QUERY,
    LogNotEmptied,
    PrivacyStore,
    SuppressionFeed,
    SuppressionLookup,
    Suppressions,
)
from tests.unit.conftest import LocationOf
from tests.unit.database.held_log import held_log


class Folder:
    """The list as control has it, and collect's view of it."""

    def __init__(self, path: Path, location: DatabaseLocation) -> None:
        self.path = path
        self.store = PrivacyStore(location)
        self.digests = id_digest.load_shared(location, self.store.database, path)
        self.suppressions = Suppressions(self.store, self.digests)
        self.requests = Requests(self.store, self.digests, self.suppressions)
        self.feed = SuppressionFeed(location, path)

    def bytes(self) -> bytes:
        """Every byte of every file in the folder."""
        return b"".join(path.read_bytes() for path in sorted(self.path.iterdir()))


@pytest.fixture
def folder(tmp_path: Path, location_of: LocationOf) -> Iterator[Folder]:
    made = Folder(tmp_path, location_of("privacy"))
    yield made
    made.feed.close()
    made.store.close()


def test_a_reader_learns_of_every_change_and_only_then(folder: Folder) -> None:
    """Nobody, somebody, nobody again; without a change there is nothing to tell."""
    assert folder.feed.changed()
    assert folder.feed.current is None
    assert not folder.feed.changed()
    folder.requests.create(["u1"], "suppress", "me")
    assert folder.feed.changed()
    assert folder.feed.current is not None
    assert ("u1" in folder.feed.current, "u2" in folder.feed.current) == (True, False)
    assert folder.suppressions.lift([folder.digests.of("u1")]) == 1
    assert folder.feed.changed()
    assert folder.feed.current is None


def test_an_anonymous_id_that_was_found_suppresses_no_user(folder: Folder, location_of: LocationOf) -> None:
    """Not at collect, not for syncs; and lifting by the id lifts what it stands for of either kind."""
    request = folder.requests.create(["mallory"], "both", "me")
    found = SearchResult(["mallory"])
    found.ids[0]["alice"] = False
    folder.requests.plan(request, found, [])
    assert folder.feed.changed()
    current = folder.feed.current
    assert current is not None
    assert ("mallory" in current, "alice" in current) == (True, False)
    assert (current.has_anonymous("mallory"), current.has_anonymous("alice")) == (True, True)
    assert not current.has_anonymous("bob")
    lookup = SuppressionLookup(location_of("privacy"), folder.path)
    assert lookup.withheld(["mallory", "alice"]) == {"mallory"}
    lookup.close()
    assert folder.suppressions.find("alice", is_user=True) is None
    assert folder.suppressions.find("alice", is_user=False) is not None
    folder.requests.create(["alice"], "suppress", "me")
    assert folder.suppressions.lift_ids(["alice", "mallory", "bob"]) == 2
    assert folder.suppressions.count() == 0


def test_the_kinds_of_ids_are_kept_until_they_are_erased(folder: Folder, location_of: LocationOf) -> None:
    """For a second look, and for profiles; ids that an older version wrote down count as both."""
    request = folder.requests.create(["u1", "u2"], "both", "me")
    found = SearchResult(["u1", "u2"])
    found.ids[0] |= {"a1": False, "p1": True}
    found.ids[1] |= {"a1": False, "a2": False}
    folder.requests.plan(request, found, [])
    assert [person.identities for person in folder.requests.people(request.number)] == found.ids
    feed = ErasureFeed(location_of("privacy"))
    assert feed.ids(request.number) == {"u1": True, "p1": True, "u2": True, "a1": False, "a2": False}
    feed.close()
    with folder.store.database.transaction() as execute:
        execute("UPDATE deletion_people SET identities = ? WHERE number = 0", ('["u1","a1"]',))
    assert folder.requests.people(request.number)[0].identities == {"u1": True, "a1": True}


@pytest.mark.parametrize("backend", ["postgres"], indirect=True)  # a file is on one machine, with the key beside it
def test_every_machine_knows_whom_the_list_means(folder: Folder, tmp_path: Path, location_of: LocationOf) -> None:
    """The key comes with the list: a machine that never had the first one's data folder recognises the same people."""
    folder.requests.create(["u1"], "suppress", "me")
    (other := tmp_path / "other").mkdir()
    feed = SuppressionFeed(location_of("privacy"), other)
    assert feed.changed()
    assert feed.current is not None
    assert ("u1" in feed.current, "u2" in feed.current) == (True, False)
    feed.close()
    store = PrivacyStore(location_of("privacy"))
    assert id_digest.load_shared(location_of("privacy"), store.database, other).of("u1") == folder.digests.of("u1")
    assert list(other.iterdir()) == []
    store.close()


def test_ids_are_looked_up_where_the_list_lies(folder: Folder, location_of: LocationOf) -> None:
    """As the list is at each look, for any number of ids."""
    lookup, ids = SuppressionLookup(location_of("privacy"), folder.path), [f"u{n}" for n in range(2 * IDS_PER_QUERY)]
    assert lookup.withheld(ids) == set()
    folder.requests.create(["u1", f"u{IDS_PER_QUERY}", "other"], "suppress", "me")
    assert lookup.withheld(ids) == {"u1", f"u{IDS_PER_QUERY}"}
    folder.suppressions.lift([folder.digests.of("u1")])
    assert lookup.withheld(ids) == {f"u{IDS_PER_QUERY}"}
    lookup.close()


def test_who_is_being_erased_is_looked_up_too(folder: Folder, location_of: LocationOf) -> None:
    """From the request on until nothing but delete messages is left, and whether or not anybody is suppressed."""
    lookup = SuppressionLookup(location_of("privacy"), folder.path)
    request = folder.requests.create(["u1"], "delete", "me")
    assert lookup.withheld(["u1", "u2"]) == {"u1"}
    folder.requests.plan(request, SearchResult(["u1"]), [])
    folder.requests.clear(request.number)
    assert lookup.withheld(["u1", "u2"]) == {"u1"}
    folder.requests.wait(request, Erased())
    assert lookup.withheld(["u1", "u2"]) == set()
    lookup.close()


@pytest.mark.parametrize("backend", ["postgres"], indirect=True)  # the file's absence: test_id_digest
def test_a_list_without_its_key_is_nobodys(folder: Folder) -> None:
    """Nothing is taken in by who cannot tell whose it is."""
    folder.requests.create(["u1"], "suppress", "me")
    with folder.store.database.transaction() as execute:
        execute("DELETE FROM privacy_key")
    with pytest.raises(DatabaseUnreadable, match="put the schema back"):
        folder.feed.changed()


def test_a_reader_may_come_before_the_database(tmp_path: Path, bare_location_of: LocationOf) -> None:
    """Start-up order does not matter: a list that is not there yet cannot be told, and is not "nobody"."""
    feed = SuppressionFeed(bare_location_of("privacy"), tmp_path)
    with pytest.raises(DatabaseNotMade):
        feed.changed()
    late = Folder(tmp_path, bare_location_of("privacy"))
    late.requests.create(["u1"], "suppress", "me")
    assert feed.changed()
    assert feed.current is not None
    assert "u1" in feed.current
    feed.close()
    late.store.close()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)  # PostgreSQL's files are its own
def test_the_ids_of_a_request_that_is_done_are_in_no_file(folder: Folder) -> None:
    """Not in rows, free pages or the write-ahead log, whatever else is written to the file meanwhile."""
    made = folder.requests.create(["person-of-the-test"], "suppress", "me")
    assert b"person-of-the-test" in folder.bytes()
    folder.requests.create([f"other-{n}" for n in range(500)], "suppress", "me")
    folder.requests.suppress_found(made.number, "me", [{"person-of-the-test": True, "anonymous-of-the-test": False}])
    folder.requests.finish(made.number)
    assert b"-of-the-test" not in folder.bytes()
    assert folder.feed.changed()
    assert folder.feed.current is not None
    assert folder.feed.current.has_anonymous("anonymous-of-the-test")


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize("action", ["suppress", "delete"])
def test_a_request_is_not_done_before_its_ids_are_in_no_file(folder: Folder, action: Action) -> None:
    """Somebody reads the file as it was, so its log cannot be emptied; it is done at a later try."""
    made = folder.requests.create(["person-of-the-test"], action, "me")
    with held_log(folder.path / "privacy.db", folder.store.database.read):
        if action == "suppress":
            with pytest.raises(LogNotEmptied):
                folder.requests.suppress_found(made.number, "me", [{"person-of-the-test": True}])
        else:
            folder.requests.wait(made, Erased())
        for _ in range(2):
            with pytest.raises(LogNotEmptied):
                folder.requests.finish(made.number)
        assert [each.state for each in folder.requests.under_way()] == ["waiting"]
        assert folder.requests.people(made.number)[0].user_id is None
        assert b"-of-the-test" in folder.bytes()
    folder.requests.finish(made.number)
    assert folder.requests.under_way() == []
    assert b"-of-the-test" not in folder.bytes()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_what_could_not_be_emptied_is_tried_again(folder: Folder) -> None:
    """Further ids go with the events, and the request may wait for a receiver for a month; who opens the file after a
    crash begins with it."""
    made = folder.requests.create(["person-of-the-test"], "delete", "me")
    place = folder.path / "privacy.db"
    with folder.store.database.transaction() as execute:
        execute("UPDATE deletion_people SET identities = ?", ('["another-of-the-test"]',))
    folder.store.database.read(empty_log)
    with held_log(place, folder.store.database.read):
        folder.requests.wait(made, Erased())
        folder.requests.empty_log()
        assert b"another-of-the-test" in folder.bytes()
        later = PrivacyStore(place)
    later.close()
    assert b"another-of-the-test" in folder.bytes()
    folder.requests.empty_log()
    assert b"another-of-the-test" not in folder.bytes()
    with held_log(place, folder.store.database.read), pytest.raises(LogNotEmptied):
        folder.requests.finish(made.number)
    assert b"person-of-the-test" in folder.bytes()
    PrivacyStore(place).close()
    assert b"person-of-the-test" not in folder.bytes()


def test_a_request_is_found_by_the_id_it_was_made_for(folder: Folder) -> None:
    """Also when it is done and the id is no longer kept."""
    made = folder.requests.create(["u1", "u2"], "suppress", "me")
    folder.requests.suppress_found(made.number, "me", [{"u1": True}, {"u2": True}])
    assert [each.number for each in folder.requests.newest(5, user_id="u2")] == [made.number]
    assert folder.requests.newest(5, user_id="u3") == []
    assert [person.user_id for person in folder.requests.people(made.number)] == [None, None]


def test_pages_go_on_where_the_last_one_ended(folder: Folder) -> None:
    """Every id of the list once, newest first, also where many were added in one moment."""
    folder.requests.create([f"u{n}" for n in range(7)], "suppress", "me")
    seen = []
    page = folder.suppressions.page(3)
    while page:
        seen += [each.digest for each in page]
        page = folder.suppressions.page(3, (page[-1].at_ms, page[-1].digest))
    assert sorted(seen) == sorted(folder.digests.of(f"u{n}") for n in range(7))


def test_requests_under_way_are_bounded(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than the bound is refused, and suppresses nobody."""
    monkeypatch.setattr(requests, "OPEN_MAX", 2)
    for id in ("u1", "u2"):
        folder.requests.create([id], "suppress", "me")
    with pytest.raises(TooManyRequests):
        folder.requests.create(["u3"], "suppress", "me")
    assert folder.suppressions.get(folder.digests.of("u3")) is None


def test_requests_that_only_wait_for_receivers_hold_no_others_up(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have a bound of their own, whose error says what they wait for; whoever only suppresses waits for nobody."""
    monkeypatch.setattr(requests, "OPEN_MAX", 1)
    monkeypatch.setattr(requests, "WAITING_MAX", 2)
    for id in ("u1", "u2"):
        request = folder.requests.create([id], "delete", "me")
        with pytest.raises(TooManyRequests, match="under way"):
            folder.requests.create(["u3"], "suppress", "me")
        folder.requests.wait(request, Erased())
    with pytest.raises(TooManyRequests, match="wait for receivers"):
        folder.requests.create(["u3"], "delete", "me")
    assert folder.requests.create(["u3"], "suppress", "me").action == "suppress"
    assert [each.state for each in folder.requests.under_way()] == ["waiting", "waiting", "looking"]
