"""The pages of audiences and computed traits, as they are sent, over profiles kept by their real store and journal."""

from __future__ import annotations

import re
from html import unescape

import msgspec
import pytest

from hookline.connections.definitions.model import Audience
from hookline.database.open import ensure
from hookline.features.audiences.pages.tabs import value_text
from hookline.features.privacy.service import deletion_requests
from hookline.features.sources.service import schema_watcher
from tests.unit.control.running import Running, record, source, wait_until
from tests.unit.features.accounts.test_access import sign_in
from tests.unit.features.audiences.test_audience_reach import BUYERS, People, defined, people

__all__ = ["defined", "people"]


def shown(control: Running, path: str) -> str:
    """The text of a page's main part, for somebody who is signed in."""
    answer = control.call("GET", path, headers={**sign_in(control), "X-Parts": "1"}, token=False)
    assert answer.status == 200, answer
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def links(control: Running, path: str) -> set[str]:
    """Where a page leads."""
    answer = control.call("GET", path, headers=sign_in(control), token=False)
    return {unescape(each) for each in re.findall(r'<a [^>]*href="([^"]*)"', answer.text)}


def test_before_there_are_profiles_the_pages_say_that_they_wait(defined: Running) -> None:
    """Nothing is known yet: no members, no syncs, and a state that says so."""
    assert "first sync pending Buyers buyers 0" in shown(defined, "/audiences")
    assert "No sync yet" in shown(defined, "/audiences/buyers")
    assert "No people yet" in shown(defined, "/audiences/buyers/members")
    assert "No sync yet" in shown(defined, "/traits/spend/syncs")
    assert "No such person" in shown(defined, "/traits/spend/why?user=u1")


def test_the_list_has_members_the_last_sync_and_who_is_synced(people: People) -> None:
    """Counted as the last sync left them; the destination is a link of its own."""
    control = people.control
    wait_until(lambda: "in sync Buyers buyers 2 +2" in shown(control, "/audiences"))
    wait_until(lambda: "no destination Spend spend 4" in shown(control, "/traits"))
    assert {"/audiences/buyers", "/destinations/crm"} <= links(control, "/audiences")
    assert "No audience matches" in shown(control, "/audiences?search=nobody")


def test_what_an_audience_says_and_hangs_together_with(people: People) -> None:
    """The condition as a sentence and as text, what it looks at, and the way back from there."""
    text = shown(people.control, "/audiences/buyers")
    assert (
        'A person for whom all of these hold : who did "Order" at least 2 times where properties.total >= 5'
        ' for whom any of these holds : with computed.spend >= 30 who never did "Refund"'
    ) in text
    assert "audiences: - id: buyers name: Buyers" in text
    assert "traits.buyers" in text
    assert "/traits/spend" in links(people.control, "/audiences/buyers")
    assert "/audiences/buyers" in links(people.control, "/traits/spend")
    assert 'the sum of properties.total over every "Order"' in shown(people.control, "/traits/spend")


def test_members_and_values_lead_to_the_person_and_to_why(people: People) -> None:
    """Those with an anonymous id alone are told once there is a user id."""
    text = shown(people.control, "/audiences/buyers/members")
    assert re.search(r"u1 \S+ – yes Why anon anonymous \S+ – once identified Why", text)
    assert {
        "/people/user/u1",
        "/people/anonymous/anon",
        "/audiences/buyers/why?user=u1",
    } <= links(people.control, "/audiences/buyers/members")
    assert "u1 30" in shown(people.control, "/traits/spend/values")


def test_nobody_is_shown_whose_data_is_withheld(people: People) -> None:
    """Neither who is suppressed nor who is being erased: in lists, comparisons and explanations alike."""
    requests = deletion_requests(people.control.services)
    requests.create(["u1"], "delete", "somebody")
    suppressed = requests.create(["anon"], "suppress", "somebody")
    text = shown(people.control, "/audiences/buyers/members")
    assert "2 more on this page are suppressed or being erased, and not shown." in text
    assert "No people yet" not in text
    assert "u1" not in text
    assert "anon" not in text
    values = shown(people.control, "/traits/spend/values")
    assert "u1" not in values
    assert "u2 10" in values
    for path in ("/audiences/buyers/why?user=", "/traits/spend/why?user="):
        assert "This person is not shown This person's data is being erased" in shown(people.control, f"{path}u1")
        assert f"suppressed by the deletion request dr{suppressed.number}" in shown(people.control, f"{path}anon")
        assert "match" not in shown(people.control, f"{path}u1")
        assert "match" in shown(people.control, f"{path}u2")


def test_lists_of_people_have_pages(control: Running) -> None:
    """Fifty at a time; the next page goes on with the person after. What is synced to nobody says so."""
    everybody = {**BUYERS, "condition": {"event": "Order"}, "destinations": []}
    assert control.api("POST", "/sources", source()).status == 201
    assert control.api("POST", "/audiences", everybody).status == 201
    control.append(*(record(f"o{number}", "Order", userId=f"p{number:02}") for number in range(53)))
    ensure(control.data_path / "profiles.db", "profiles")
    found = People(control)
    found._audiences, found._traits = msgspec.convert([everybody], list[Audience]), []
    found.keep()
    found.apply()
    found.sync_all()
    try:
        (after,) = [each for each in links(control, "/audiences/buyers/members") if "after=" in each]
        text = shown(control, after)
        assert list(re.findall(r"p\d\d", text)) == ["p50", "p51", "p52"]
        assert "First page" in text
        # It has no destination: no page says that it is in sync, or that it will be.
        assert "no destination Buyers buyers 53" in shown(control, "/audiences")
        for path, says in (("/audiences", "none yet"), ("/audiences/buyers", "no destination gets it yet")):
            assert f"{says} Connect one" in shown(control, path)
            assert "/audiences/buyers/edit#sync-to" in links(control, path)
        assert "no destination 53 members" in text
        assert re.search(r"p52 \S+ – no destination Why", text)
        why = shown(control, "/audiences/buyers/why?user=p50")
        assert re.search(r"A member since the sync \S+ , and no destination gets it yet\.", why)
    finally:
        found.close()


def test_why_names_what_decided_each_clause(people: People) -> None:
    """Ticks and crosses, the events as links, and the values that were looked at; ids of either kind are found."""
    text = shown(people.control, "/audiences/buyers/why?user=u1")
    assert "a member u1" in text
    assert 'did "Order" at least 2 times where properties.total >= 5' in text
    assert "2 events match:" in text
    assert "computed.spend is 30" in text
    assert "/events/m0?source=site" in links(people.control, "/audiences/buyers/why?user=u1")
    assert "✗ no" in shown(people.control, "/audiences/buyers/why?user=u2")
    assert "a member anon" in shown(people.control, "/audiences/buyers/why?user=anon")
    assert "30 u1" in shown(people.control, "/traits/spend/why?user=u1")
    assert "2 events match, 2 of them with a value" in shown(people.control, "/traits/spend/why?user=u1")


def test_why_shows_the_values_of_few_groups(people: People) -> None:
    """How many more groups have one is said."""
    of_groups = BUYERS | {"id": "teams", "name": "Teams", "condition": {"if": "groupTraits.size > 99"}}
    assert people.control.api("POST", "/audiences", of_groups).status == 201
    people.control.append(
        *(record(f"g{n}", type="group", userId="u1", groupId=f"g{n:02}", traits={"size": n}) for n in range(12))
    )
    people.apply()
    assert "[0,1,2,3,4,5,6,7,8,9] and 2 more" in shown(people.control, "/audiences/teams/why?user=u1")


def test_syncs_are_listed_and_drawn_when_there_are_several(people: People) -> None:
    """Newest first, with a chart from the fifth on."""
    assert "Show as table" not in shown(people.control, "/audiences/buyers/syncs")
    for _ in range(5):
        people.sync.bring_forward(("audience", "buyers"))
        people.sync_all()
    text = shown(people.control, "/audiences/buyers/syncs")
    assert text.count("Show as table") == 2
    assert "Members after each sync" in text
    assert "joined" in text
    assert [each["people"] for each in people.control.api("GET", "/audiences/buyers/syncs").json["items"]] == [2] * 6
    assert "People with a value after each sync" not in shown(people.control, "/traits/spend")


def test_lists_are_searched_and_sorted_in_the_address(control: Running) -> None:
    """By name, by size, by the last sync, each way; a page further on keeps both; what is no column is the name."""
    for number in range(53):
        name = f"Trait {number:02}"
        body = {"id": f"t{52 - number:02}", "name": name, "event": "Order", "aggregate": "count"}
        assert control.api("POST", "/computed-traits", body).status == 201
    names = re.compile(r"Trait \d\d")
    by_name = names.findall(shown(control, "/traits"))
    assert (by_name[0], by_name[-1], len(by_name)) == ("Trait 00", "Trait 49", 50)
    assert names.findall(shown(control, "/traits?sort=-name"))[0] == "Trait 52"
    assert names.findall(shown(control, "/traits?sort=nonsense")) == by_name
    assert names.findall(shown(control, f"/traits?after={'9' * 5_000}")) == by_name
    assert names.findall(shown(control, "/traits?search=trait+5")) == ["Trait 50", "Trait 51", "Trait 52"]
    (after,) = [each for each in links(control, "/traits?sort=-name&search=trait") if "after=" in each]
    assert names.findall(shown(control, after)) == ["Trait 02", "Trait 01", "Trait 00"]
    assert "/traits?sort=people" in links(control, "/traits")


def test_the_list_is_sorted_by_size_and_last_sync(people: People) -> None:
    """The largest and the newest first."""
    control = people.control
    other = {"id": "none", "name": "A nobody", "condition": {"event": "Nothing"}}
    assert control.api("POST", "/audiences", other).status == 201
    wait_until(lambda: "in sync Buyers buyers 2" in shown(control, "/audiences"))
    order = re.compile(r"A nobody|Buyers")
    assert order.findall(shown(control, "/audiences")) == ["A nobody", "Buyers"]
    for sort in ("people", "synced"):
        assert order.findall(shown(control, f"/audiences?sort={sort}")) == ["Buyers", "A nobody"]
        assert order.findall(shown(control, f"/audiences?sort=-{sort}")) == ["A nobody", "Buyers"]


def test_two_audiences_are_compared(people: People) -> None:
    """Who is in both and who only in one, as links; before there is anything to compare the page says what to do."""
    control = people.control
    assert "Two audiences are needed" in shown(control, "/audiences/compare")
    other = {"id": "orderers", "name": "Orderers", "condition": {"event": "Order", "where": "properties.total >= 5"}}
    assert control.api("POST", "/audiences", other).status == 201
    assert "Choose two audiences" in shown(control, "/audiences/compare?a=buyers&b=nope")
    assert "two different audiences" in shown(control, "/audiences/compare?a=buyers&b=buyers")
    path = "/audiences/compare?a=buyers&b=orderers"
    assert "Orderers has not been synced yet" in shown(control, path)
    people._audiences += msgspec.convert([other], list[Audience])
    people.keep()
    people.apply()
    people.sync_all()
    text = shown(control, path)
    assert "Buyers has 2 members, Orderers has" in text.replace(" ,", ",")
    assert "Only in Buyers 0" in text
    assert "In both 2" in text
    assert "/people/user/u1" in links(control, path)
    assert "not been synced" not in text
    deletion_requests(control.services).create(["u1"], "both", "somebody")
    assert "/people/user/u1" not in links(control, path)
    assert "/people/anonymous/anon" in links(control, path)


def test_a_disabled_definition_says_so(people: People) -> None:
    """It is disabled, and its members stay."""
    people.control.api("PATCH", "/audiences/buyers", {"enabled": False})
    wait_until(lambda: "disabled 2 members" in shown(people.control, "/audiences/buyers"))


def test_the_form_begins_with_what_there_is(people: People) -> None:
    """The condition, and what is known to offer; of a trait only what was given."""
    control = people.control
    begins = _data(control, "/audiences/buyers/edit", "begins")
    assert msgspec.json.decode(begins) == BUYERS["condition"]
    choices = msgspec.json.decode(_data(control, "/audiences/buyers/edit", "choices"))
    assert choices["computed"] == [{"id": "spend", "name": "Spend"}]
    assert choices["audiences"] == []
    trait = msgspec.json.decode(_data(control, "/traits/spend/edit", "begins"))
    assert trait == {"event": "Order", "aggregate": "sum", "property": "properties.total"}


def test_the_builder_is_offered_what_sources_have_sent(control: Running) -> None:
    """Names by how often they came, with paths as expressions write them, and traits of people and groups."""
    assert control.api("POST", "/sources", source()).status == 201
    control.append(
        *(record(f"o{number}", "Order", properties={"total": 5, "gift card": True}) for number in range(3)),
        record("s1", "Signed Up", properties={"plan": {"name": "pro"}}),
        record("p1", type="page", name="Pricing"),
        record("i1", type="identify", traits={"plan": "pro"}),
        record("g1", type="group", groupId="g", traits={"employees": 5}),
    )
    schema_watcher(control.services).run_once()
    offered = msgspec.json.decode(_data(control, "/audiences/new", "choices"))
    assert offered["event"] == [
        {"name": "Order", "paths": ["properties.gift\\ card", "properties.total"]},
        {"name": "Signed Up", "paths": ["properties.plan", "properties.plan.name"]},
    ]
    assert offered["page"] == [{"name": "Pricing", "paths": []}]
    assert (offered["traits"], offered["groupTraits"]) == (["plan"], ["employees"])


@pytest.mark.parametrize("path", ["/audiences/nope", "/traits/nope/values", "/audiences/nope/edit"])
def test_what_is_not_there_has_no_page(asked: Running, path: str) -> None:
    """404, on a page that says so."""
    assert asked.call("GET", path, headers=sign_in(asked), token=False).status == 404


def _data(control: Running, path: str, name: str) -> str:
    text = control.call("GET", path, headers=sign_in(control), token=False).text
    (value,) = re.findall(f'data-{name}="([^"]*)"', text)
    return unescape(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (100.89000000000001, "100.89"),
        (0.1 + 0.2, "0.3"),
        (1234.5, "1234.5"),
        (1234567.891, "1\u202f234\u202f567.891"),
        (9007199254740991, "9\u202f007\u202f199\u202f254\u202f740\u202f991"),
        (True, "true"),
        ("1e5", '"1e5"'),
        (None, "null"),
    ],
)
def test_values_are_written_for_people(value: object, text: str) -> None:
    """Fifteen digits, grouped where there are many; texts stay what they are."""
    assert value_text(value) == text
