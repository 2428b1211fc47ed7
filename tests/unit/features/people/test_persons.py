"""One person in the admin API: over profiles kept by their real store, a real journal and a real index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from hookline.database.location import location_of
from hookline.database.open import ensure
from hookline.features.people import api, view
from hookline.features.privacy.service import deletion_requests
from hookline.journal.record import Record
from hookline.people.store.people import Person
from tests.unit.control.running import Running, record
from tests.unit.features.audiences.test_audience_reach import People, defined

__all__ = ["defined"]


def of(message_id: str, type: str, user_id: str | None, anonymous_id: str | None, **fields: Any) -> Record:
    """A record of any type by somebody with these ids."""
    body = {**({"userId": user_id} if user_id else {}), **({"anonymousId": anonymous_id} if anonymous_id else {})}
    made = record(message_id, type=type, **{"userId": None, **body, **fields})
    made.user_key = user_id or anonymous_id or ""
    return made


JOURNEY = (
    of("j0", "page", None, "visitor", name="Home"),
    of("j1", "track", None, "visitor", event="Order", properties={"total": 9}),
    of("j2", "alias", "ann", None, previousId="visitor"),
    of("j3", "identify", "ann", None, traits={"plan": "pro", "gone": None, "address": {"city": "Bonn"}}),
    of("j4", "group", "ann", "visitor", groupId="acme", traits={"employees": 12}),
    of("j5", "track", "ann", "phone", event="Order", properties={"total": 40}),
    of("j6", "track", "ben", "phone", event="Order"),
    of("j7", "track", None, "phone", event="After the hand-over"),
)
"""An anonymous visitor becomes ann, whose phone ben gets in the end."""


@pytest.fixture
def people(defined: Running) -> Iterator[People]:
    """Profiles of the journey, after the first syncs."""
    defined.append(*JOURNEY)
    ensure(location_of(defined.settings, "profiles"), "profiles")
    found = People(defined)
    found.keep()
    found.apply()
    found.sync_all()
    yield found
    found.close()


def person(control: Running, **named: str) -> Any:
    """The document of somebody."""
    return control.api("GET", f"/people?{urlencode(named)}").json


def events(control: Running, query: str = "", **named: str) -> list[str]:
    """The messageIds of what somebody did, newest first."""
    answer = control.api("GET", f"/people/events?{urlencode(named)}{query}")
    assert answer.status == 200, answer.json
    return [each["messageId"] for each in answer.json["items"]]


def test_a_person_is_one_under_all_ids(people: People) -> None:
    """By either id of the alias, and by the anonymous id: the same person with every id that leads there."""
    found = person(people.control, userId="ann")
    assert found["userId"] == "ann"
    assert [(each["kind"], each["id"]) for each in found["identities"]] == [("user", "ann"), ("anonymous", "visitor")]
    assert person(people.control, anonymousId="visitor") == found
    assert person(people.control, anonymousId="phone")["userId"] == "ben"


def test_an_answer_has_so_many_traits_and_groups(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """The person's traits before those of groups; what there is no room for is not read, and the answer says so."""
    monkeypatch.setattr(view, "TRAITS_MAX", 5)
    monkeypatch.setattr(api, "GROUPS_MAX", 3)
    three = {f"t{number}": number for number in range(3)}
    people.control.append(of("r", "identify", "rich", None, traits={**three, "gone": None}))
    people.control.append(*(of(f"r{id}", "group", "rich", None, groupId=id, traits=three) for id in "abcd"))
    people.apply()
    read: list[str] = []
    group_traits = Person.written_group_traits
    monkeypatch.setattr(Person, "written_group_traits", lambda self, id: read.append(id) or group_traits(self, id))
    found = person(people.control, userId="rich")
    assert ([each["value"] for each in found["traits"]], found["traitsComplete"]) == ([0, 1, 2], True)
    assert [(each["groupId"], len(each["traits"]), each["traitsComplete"]) for each in found["groups"]] == [
        ("a", 2, False),
        ("b", 0, False),
        ("c", 0, False),
    ]
    assert found["groupsTotal"] == 4
    assert read == ["a"]


def test_an_answer_has_so_many_bytes_of_traits(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names count too: nobody bounds them alone."""
    monkeypatch.setattr(view, "TRAITS_BYTES_MAX", 1_000)
    people.control.append(of("r", "identify", "rich", None, traits={"a" * 400: 1, "b": "b" * 400, "c" * 400: 1}))
    people.apply()
    found = person(people.control, userId="rich")
    assert [each["name"][0] for each in found["traits"]] == ["a", "b"]
    assert not found["traitsComplete"]
    assert person(people.control, userId="ann")["traitsComplete"]


def test_traits_and_groups_say_where_they_come_from(people: People) -> None:
    """Each with the event that gave it; what was taken back is not there."""
    found = person(people.control, userId="ann")
    assert {each["name"]: (each["value"], each["source"], each["messageId"]) for each in found["traits"]} == {
        "plan": ("pro", "site", "j3"),
        "address": ({"city": "Bonn"}, "site", "j3"),
    }
    (group,) = found["groups"]
    assert (group["groupId"], group["messageId"]) == ("acme", "j4")
    assert [(each["name"], each["value"], each["messageId"]) for each in group["traits"]] == [("employees", 12, "j4")]


def test_audiences_and_computed_traits_are_as_the_last_syncs_left_them(people: People) -> None:
    """In or out with since when and whether it was told, and values; of nobody's definition nothing is left out."""
    ann, ben = person(people.control, userId="ann"), person(people.control, userId="ben")
    assert [(each["id"], each["name"], each["member"]) for each in ann["audiences"]] == [("buyers", "Buyers", True)]
    assert ann["audiences"][0]["synced"] is True
    assert [(each["id"], each["value"]) for each in ann["computedTraits"]] == [("spend", 49)]
    assert [each["member"] for each in ben["audiences"]] == [False]


def test_events_of_all_ids_come_newest_first(people: People) -> None:
    """Those before the alias too, and of a shared device those of the person's own time."""
    assert events(people.control, userId="ann") == ["j5", "j4", "j3", "j2", "j1", "j0"]
    assert events(people.control, anonymousId="visitor") == events(people.control, userId="ann")
    assert events(people.control, userId="ben") == ["j7", "j6"]
    first = people.control.api("GET", "/people/events?userId=ann&limit=1").json["items"][0]
    assert (first["type"], first["name"], first["origin"], first["rejected"]) == ("track", "Order", "sdk", None)
    assert (first["userId"], first["anonymousId"], first["source"]) == ("ann", "phone", "site")
    items = people.control.api("GET", "/people/events?userId=ann").json["items"]
    about = {each["messageId"]: each["summary"] for each in items}
    assert about == {"j5": "", "j4": "acme", "j3": "plan, gone, address", "j2": "visitor", "j1": "", "j0": ""}


def test_events_come_in_pages(people: People) -> None:
    """Each once and in order, whatever the size of a page; the last one says that it is."""
    for limit in (1, 2, 4, 6, 50):
        found, after = [], ""
        for _ in range(20):
            answer = people.control.api("GET", f"/people/events?userId=ann&limit={limit}{after}").json
            found += [each["messageId"] for each in answer["items"]]
            if answer["after"] is None:
                break
            after = f"&after={answer['after']}"
        assert found == ["j5", "j4", "j3", "j2", "j1", "j0"]
    assert people.control.api("GET", "/people/events?userId=ann&after=x").json["code"] == "invalid_parameter"


def test_before_there_are_profiles_events_go_by_the_id(defined: Running) -> None:
    """Nothing else is known then; an id is a user's or a device's, as asked for."""
    defined.append(*JOURNEY)
    assert defined.api("GET", "/people?userId=ann").json["code"] == "not_found"
    assert events(defined, userId="ann") == ["j5", "j4", "j3", "j2"]
    assert events(defined, anonymousId="visitor") == ["j1", "j0"]
    assert events(defined, userId="visitor") == []


def test_ids_of_any_kind_name_a_person(people: People) -> None:
    """Nothing in an id is taken for part of the address."""
    ids = ("a/b", "ü 🙂", "<b>x</b>", "..", "a?b=c&d#e", "%2F", "'\"\\", "1")
    people.control.append(*(of(f"odd {id}", "identify", id, None, traits={"x": 1}) for id in ids))
    people.apply()
    for id in ids:
        assert person(people.control, userId=id)["identities"] == [{"kind": "user", "id": id}]
        assert events(people.control, userId=id) == [f"odd {id}"]
        assert people.control.api("GET", f"/people?userId={quote(id, safe='')}").json["userId"] == id


def test_a_person_is_named_by_one_id(people: People) -> None:
    """None, both or an empty one is 400, and one nobody has is 404."""
    for path in ("/people", "/people/events"):
        for query in ("", "?userId=ann&anonymousId=visitor", "?userId=", f"?userId={'x' * 1001}"):
            assert people.control.api("GET", path + query).json["code"] == "invalid_parameter"
    assert people.control.api("GET", "/people?userId=visitor").json["code"] == "not_found"
    assert events(people.control, userId="nobody") == []


def test_nothing_is_shown_of_somebody_who_is_suppressed(people: People) -> None:
    """Neither by the suppressed id nor by another one of the same person; after it is lifted everything is."""
    deletion_requests(people.control.services).create(["ann"], "suppress", "somebody")
    for named in ({"userId": "ann"}, {"anonymousId": "visitor"}):
        for path in ("/people", "/people/events"):
            answer = people.control.api("GET", f"{path}?{urlencode(named)}")
            assert (answer.status, answer.json["code"]) == (404, "person_suppressed")
            assert "acme" not in answer.text
    assert person(people.control, userId="ben")["userId"] == "ben"
    people.control.api("POST", "/suppressions/lift", {"userId": "ann"})
    assert person(people.control, userId="ann")["userId"] == "ann"


def test_who_has_a_device_of_somebody_suppressed_is_shown(people: People) -> None:
    """An anonymous id on the list hides who has no other, and not the user it was handed to."""
    deletion_requests(people.control.services).create(["phone", "lonely"], "suppress", "somebody")
    people.control.append(of("alone", "track", None, "lonely", event="Seen"))
    people.apply()
    assert person(people.control, userId="ben")["userId"] == "ben"
    assert events(people.control, userId="ben") == ["j7", "j6"]
    for id in ("phone", "lonely"):
        assert person(people.control, anonymousId=id)["code"] == "person_suppressed"


def test_nothing_is_shown_of_somebody_who_is_being_erased(people: People) -> None:
    """From the request on; of somebody whose data is gone it is said which request that was."""
    made = deletion_requests(people.control.services).create(["ann", "never seen"], "delete", "somebody")
    found = person(people.control, userId="ann")
    assert found["code"] == "person_erased"
    other = person(people.control, anonymousId="visitor")
    assert (other["code"], other["detail"]) == ("person_erased", found["detail"])
    assert person(people.control, anonymousId="phone")["userId"] == "ben"
    assert f"dr{made.number}" in found["detail"]
    deletion_requests(people.control.services).finish(made.number)
    assert person(people.control, userId="never seen")["code"] == "person_erased"
    assert person(people.control, userId="ann")["userId"] == "ann"
