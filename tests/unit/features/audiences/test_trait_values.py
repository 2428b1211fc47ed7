"""Values of computed traits in the admin API, and what one is made of."""

from __future__ import annotations

import pytest

from hookline.events import untyped
from hookline.features.privacy.service import deletion_requests
from tests.unit.control.running import Running
from tests.unit.features.accounts.test_access import sign_in
from tests.unit.features.audiences.test_audience_reach import People, defined, people

__all__ = ["defined", "people"]

SPEND = "/computed-traits/spend"


def test_values_are_listed_in_pages(people: People) -> None:
    """By person in the order in which they were first seen; who has no user id by an anonymous one."""
    first = people.control.api("GET", f"{SPEND}/values?limit=3").json
    assert [(each["userId"], each["value"]) for each in first["items"]] == [("u1", 30), ("u2", 10), ("u3", 12)]
    rest = people.control.api("GET", f"{SPEND}/values?limit=3&after={first['after']}").json
    assert [(each["userId"], each["anonymousId"], each["value"]) for each in rest["items"]] == [(None, "anon", 15)]
    assert rest["after"] is None
    assert people.control.api("GET", f"{SPEND}/values?after=x").json["code"] == "invalid_parameter"


def test_nobody_is_listed_or_explained_whose_data_is_withheld(people: People) -> None:
    """A page is as short as it has of them, and leads on to the next one."""
    requests = deletion_requests(people.control.services)
    requests.create(["u1"], "delete", "somebody")
    requests.create(["anon"], "suppress", "somebody")
    first = people.control.api("GET", f"{SPEND}/values?limit=2").json
    assert [each["userId"] for each in first["items"]] == ["u2"]
    rest = people.control.api("GET", f"{SPEND}/values?after={first['after']}").json
    assert [each["userId"] for each in rest["items"]] == ["u3"]
    assert people.control.api("GET", f"{SPEND}/explain?userId=u1").json["code"] == "person_erased"
    assert people.control.api("GET", f"{SPEND}/explain?anonymousId=anon").json["code"] == "person_suppressed"


def test_a_value_is_explained(people: People) -> None:
    """What it is, and the events it is made of, newest first."""
    found = people.control.api("GET", f"{SPEND}/explain?userId=u3").json
    assert (found["value"], found["found"], found["used"], found["historyComplete"]) == (12, 3, 3, True)
    assert found["text"] == 'the sum of properties.total over every "Order"'
    assert {each["messageId"] for each in found["events"]} == {"m3", "m4", "m5"}
    assert people.control.api("GET", f"{SPEND}/explain?anonymousId=anon").json["value"] == 15


@pytest.mark.parametrize(
    ("query", "status"), [("", 400), ("?userId=u1&anonymousId=anon", 400), ("?userId=nobody", 404)]
)
def test_a_person_is_named_by_one_id(people: People, query: str, status: int) -> None:
    """None or both is refused, and one nobody has is not found."""
    assert people.control.api("GET", f"{SPEND}/explain{query}").status == status


def test_values_are_decoded_as_what_strangers_wrote(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a value and of its lists: numbers beyond what is usual cost others a hundred times as much."""
    decoded: list[bytes | str] = []
    decode = untyped.decode
    monkeypatch.setattr(untyped, "decode", lambda written: decoded.append(written) or decode(written))
    signed_in = sign_in(people.control)
    for path, values in (
        (f"/api/v1{SPEND}/values?limit=2", ["30", "10"]),
        ("/traits/spend/values", ["30", "10", "12", "15"]),
        ("/api/v1/people?userId=u1", ["30"]),
    ):
        decoded.clear()
        assert people.control.call("GET", path, headers=signed_in, token=False).status == 200
        assert decoded == values


def test_before_there_are_profiles_there_are_no_values(defined: Running) -> None:
    """Nor is there a computed trait of any other id."""
    assert defined.api("GET", f"{SPEND}/values").json == {"items": [], "after": None}
    assert defined.api("GET", "/computed-traits/nope/values").status == 404
