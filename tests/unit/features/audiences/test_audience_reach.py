"""Members, explanations and syncs in the admin API, over profiles kept by their real store and journal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from hookline.connections.definitions.model import Audience, ComputedTrait
from hookline.database.location import location_of
from hookline.database.open import ensure
from hookline.events.timestamps import iso
from hookline.features.audiences.service import sync_requests
from hookline.features.privacy.service import deletion_requests
from hookline.journal.local.partition_reader import LocalReader
from hookline.people.definitions.definition import Key, in_order
from hookline.people.definitions.feature import windows_of
from hookline.people.ingest.ingest import Ingest
from hookline.people.store.catalog import FeatureCatalog, Span
from hookline.people.store.store import ProfileStore
from hookline.people.sync.sync import Sync
from hookline.privacy.model import Erased
from tests.unit.control.running import Answer, Running, destination, record, source

SPEND = {"id": "spend", "name": "Spend", "event": "Order", "aggregate": "sum", "property": "properties.total"}
BUYERS = {
    "id": "buyers",
    "name": "Buyers",
    "destinations": ["crm"],
    "condition": {
        "all": [
            {"event": "Order", "count": {"gte": 2}, "where": "properties.total >= 5"},
            {"any": [{"if": "computed.spend >= 30"}, {"event": "Refund", "never": True}]},
        ]
    },
}
BOUGHT = (("u1", 10), ("u1", 20), ("u2", 10), ("u3", 5), ("u3", 6), ("u3", 1))
"""Who bought what; message ids count from m0."""


class People:
    """Control beside what the profiles role does, one step at a time."""

    def __init__(self, control: Running) -> None:
        self.control = control
        self.journal = LocalReader(control.data_path / "journal")
        self.store = ProfileStore(location_of(control.settings, "profiles"))
        self.registry = FeatureCatalog(self.store)
        self.sync = Sync(self.store)
        self._audiences = msgspec.convert([BUYERS], list[Audience])
        self._traits = msgspec.convert([SPEND], list[ComputedTrait])

    def keep(self, spans: dict[int, Span] | None = None) -> None:
        """Keep what the definitions ask for."""
        self.registry.keep(windows_of([*self._audiences, *self._traits]), spans or {})
        ready = in_order(self._audiences, self._traits)
        self.sync.follow(ready, {each.key: 1 for each in ready})

    def apply(self) -> None:
        """Read the journal to its end."""
        ingest = Ingest(self.journal, self.store)
        ingest.keep(self.registry.features())
        while ingest.step():
            pass

    def sync_all(self) -> None:
        """Sync everything that is due, and tell it."""
        now_ms = int(time.time() * 1000)
        while self.sync.evaluate(now_ms):
            pass
        while (found := self.sync.to_send(now_ms)) is not None:
            sending, messages = found
            self.sync.sent(sending, [person for person, _ in messages], now_ms)

    def get(self, path: str) -> Answer:
        """A GET below the audience."""
        return self.control.api("GET", f"/audiences/buyers/{path}")

    def close(self) -> None:
        """Give the files back."""
        self.store.close()
        self.journal.close()


@pytest.fixture
def defined(control_on_both: Running) -> Running:
    """Control with the definitions and events, and no profiles yet."""
    for path, body in (
        ("/sources", source()),
        ("/destinations", destination()),
        ("/computed-traits", SPEND),
        ("/audiences", BUYERS),
    ):
        assert control_on_both.api("POST", path, body).status == 201
    control_on_both.append(
        *(
            record(f"m{number}", "Order", userId=user, properties={"total": total})
            for number, (user, total) in enumerate(BOUGHT)
        ),
        record("a1", "Order", userId=None, anonymousId="anon", properties={"total": 7}),
        record("a2", "Order", userId=None, anonymousId="anon", properties={"total": 8}),
        record("r1", "Refund", userId="u3"),
    )
    return control_on_both


@pytest.fixture
def people(defined: Running) -> Iterator[People]:
    """The same after the first syncs: u1 is in, u2 bought too little, u3 had a refund, anon is in without a name."""
    ensure(location_of(defined.settings, "profiles"), "profiles")
    found = People(defined)
    found.keep()
    found.apply()
    found.sync_all()
    yield found
    found.close()


def test_before_there_are_profiles_nobody_is_known(defined: Running) -> None:
    """An audience of which nothing is known yet has no members and no syncs, and nobody to explain."""
    for path in ("members", "syncs"):
        assert defined.api("GET", f"/audiences/buyers/{path}").json == {"items": [], "after": None}
    assert defined.api("GET", "/audiences/buyers/explain?userId=u1").json["code"] == "not_found"


def test_members_are_listed_in_pages(people: People) -> None:
    """User ids, or an anonymous id for who has none; told is what a destination was sent."""
    first = people.get("members?limit=1").json
    assert [(each["userId"], each["synced"]) for each in first["items"]] == [("u1", True)]
    second = people.get(f"members?limit=1&after={first['after']}").json
    assert [(each["userId"], each["anonymousId"], each["synced"]) for each in second["items"]] == [
        (None, "anon", False)
    ]
    assert second["after"] is None
    assert first["items"][0]["since"] == people.get("syncs").json["items"][0]["at"]
    assert people.get("members?after=x").json["code"] == "invalid_parameter"


def test_nobody_is_listed_or_explained_whose_data_is_withheld(people: People) -> None:
    """From the moment somebody asks for it. Who only waits for a receiver has been erased, and was seen again since."""
    requests = deletion_requests(people.control.services)
    erased = requests.create(["u1"], "delete", "somebody")
    requests.create(["anon"], "suppress", "somebody")
    assert people.get("members").json == {"items": [], "after": None}
    for path in ("explain", "history"):
        assert people.get(f"{path}?userId=u1").json["code"] == "person_erased"
        assert people.get(f"{path}?anonymousId=anon").json["code"] == "person_suppressed"
        assert people.get(f"{path}?userId=u2").status == 200
    requests.wait(erased, Erased())
    assert [each["userId"] for each in people.get("members").json["items"]] == ["u1"]
    assert people.get("explain?userId=u1").json["member"]
    found = people.control.api("GET", "/people/search?search=u1").json["items"]
    assert [each["userId"] for each in found] == ["u1"]


def test_a_member_is_explained(people: People) -> None:
    """Each clause with what decides it: the events by messageId, newest first, and the values that were compared."""
    found = people.get("explain?userId=u1").json
    assert (found["member"], found["userId"], found["historyComplete"]) == (True, "u1", True)
    assert found["synced"]["sent"] is True
    orders, either = found["reason"]["terms"]
    assert (orders["held"], orders["found"]) == (True, 2)
    assert {each["messageId"] for each in orders["events"]} == {"m0", "m1"}
    assert orders["events"][0]["source"] == "site"
    assert orders["text"] == 'did "Order" at least 2 times where properties.total >= 5'
    assert either["terms"][0]["values"] == {"computed.spend": 30}
    assert [each["held"] for each in either["terms"]] == [True, True]


def test_somebody_who_is_out_is_explained(people: People) -> None:
    """What does not hold, and where: u2 bought once, u3 spent too little and had a refund."""
    too_few = people.get("explain?userId=u2").json
    assert (too_few["member"], too_few["synced"]) == (False, None)
    assert [each["held"] for each in too_few["reason"]["terms"]] == [False, True]
    refund = people.get("explain?userId=u3").json["reason"]["terms"][1]
    assert refund["held"] is False
    assert [each["path"] for each in refund["terms"]] == ["condition.all[1].any[0]", "condition.all[1].any[1]"]
    assert refund["terms"][1]["events"][0]["messageId"] == "r1"


def test_what_has_happened_since_shows_before_the_next_sync(people: People) -> None:
    """The explanation is of now, the membership of the last sync."""
    people.control.append(record("m9", "Order", userId="u2", properties={"total": 90}))
    people.apply()
    found = people.get("explain?userId=u2").json
    assert (found["member"], found["synced"]) == (True, None)


def test_a_person_is_named_by_one_id(people: People) -> None:
    """An anonymous id will do; none or both is 400, and one nobody has is 404."""
    assert people.get("explain?anonymousId=anon").json["member"] is True
    assert people.get("explain?anonymousId=anon").json["userId"] is None
    assert people.get("explain").json["code"] == "invalid_parameter"
    assert people.get("explain?userId=u1&anonymousId=anon").status == 400
    assert people.get("explain?userId=nobody").status == 404
    assert people.control.api("GET", "/audiences/nope/explain?userId=u1").status == 404


def test_history_that_is_still_read_up_is_said_to_be(people: People) -> None:
    """A new condition's past is not complete before its backfill is."""
    people.registry.keep({}, {})
    people.keep({0: Span(0, 3)})
    assert people.get("explain?userId=u1").json["historyComplete"] is False


def test_a_sync_is_asked_for_and_counted(people: People) -> None:
    """It waits for the role, is due at once, and is the newest of the list with who came and who went."""
    assert people.get("syncs").json["items"][0]["came"] == 2
    people.control.append(
        record("m9", "Order", userId="u2", properties={"total": 90}), record("r2", "Refund", userId="u1")
    )
    people.apply()
    people.sync_all()
    assert len(people.get("syncs").json["items"]) == 1, "not due yet"
    asked = people.control.api("POST", "/audiences/buyers/sync")
    assert (asked.status, asked.json["id"]) == (202, "buyers")
    requests = sync_requests(people.control.services)
    assert requests.asked() == [("audience", "buyers")]
    assert people.sync.bring_forward(("audience", "buyers"))
    requests.done(("audience", "buyers"))
    assert requests.asked() == []
    people.sync_all()
    newest, first = people.get("syncs").json["items"]
    assert (newest["number"], newest["came"], newest["went"]) == (first["number"] + 1, 1, 0)
    assert newest["at"] >= asked.json["askedAt"]
    assert {each["userId"] for each in people.get("members").json["items"]} == {"u1", "u2", None}


def test_the_time_is_that_of_syncs(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the wall clock was set forward, a sync that is waited for comes, and nobody has left by it alone."""
    store = people.control.services.store
    steady_ms = store.steady_ms() - 86_400_000
    monkeypatch.setattr(store, "steady_ms", lambda: steady_ms)
    at = iso(steady_ms)
    assert people.control.api("POST", "/audiences/buyers/sync").json["askedAt"] == at
    assert people.get("explain?userId=u1").json["at"] == at
    assert people.control.api("GET", "/computed-traits/spend/explain?userId=u1").json["at"] == at


def test_a_sync_that_is_under_way_is_followed_by_the_one_asked_for(people: People) -> None:
    """It may have looked at people before; so what was asked for waits for its end."""
    key: Key = ("audience", "buyers")
    assert people.sync.bring_forward(key)
    now_ms = int(time.time() * 1000)
    people.control.append(record("m9", "Order", userId="u2", properties={"total": 90}))
    people.apply()
    assert people.sync.evaluate(now_ms)
    assert not people.sync.bring_forward(key), "looking"
    while people.sync.evaluate(now_ms):
        pass
    assert not people.sync.bring_forward(key), "telling"
    people.sync_all()
    assert people.sync.bring_forward(key)


def test_computed_traits_have_syncs_too(people: People) -> None:
    """The same two calls."""
    assert people.control.api("GET", "/computed-traits/spend/syncs").json["items"][0]["came"] == 4
    assert people.control.api("POST", "/computed-traits/spend/sync").status == 202
    assert sync_requests(people.control.services).asked() == [("trait", "spend")]
    assert people.control.api("POST", "/computed-traits/nope/sync").status == 404


def test_what_is_disabled_is_not_synced(people: People) -> None:
    """409 says what to do; what was asked for an audience that is gone is dropped."""
    assert people.control.api("PATCH", "/audiences/buyers", {"enabled": False}).status == 200
    assert people.control.api("POST", "/audiences/buyers/sync").json["code"] == "definition_disabled"
    assert people.sync.bring_forward(("audience", "gone"))


def test_of_many_events_ten_are_named(people: People) -> None:
    """A person with many events is explained over them all, and ten are named."""
    many: list[Any] = [record(f"x{n}", "Order", userId="u2", properties={"total": 9}) for n in range(3_000)]
    people.control.append(*many)
    people.apply()
    orders = people.get("explain?userId=u2").json["reason"]["terms"][0]
    assert (orders["found"], len(orders["events"])) == (3_001, 10)


def test_the_history_of_a_membership_is_listed(people: People) -> None:
    """Newest first, with the sync that found it; by either kind of id, and 404 for who is not known."""
    people.control.append(record("r2", "Refund", userId=None, anonymousId="anon"))
    people.apply()
    assert people.sync.bring_forward(("audience", "buyers"))
    people.sync_all()
    newest, first = people.get("syncs").json["items"]
    assert people.get("history?anonymousId=anon").json == {
        "items": [
            {"at": newest["at"], "member": False, "sync": newest["number"]},
            {"at": first["at"], "member": True, "sync": first["number"]},
        ],
        "after": None,
    }
    assert [each["member"] for each in people.get("history?userId=u1").json["items"]] == [True]
    assert people.get("history?userId=u2").json["items"] == []
    assert people.get("history?userId=nobody").json["code"] == "not_found"
    assert people.get("history").json["code"] == "invalid_parameter"
    assert people.control.api("GET", "/audiences/nope/history?userId=u1").status == 404
