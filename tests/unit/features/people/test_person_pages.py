"""The pages of people, as they are sent: whatever an id is, and with everything that may be known or hidden."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import pytest

from hookline.database.location import location_of
from hookline.database.open import ensure
from hookline.features.people import pages, view
from hookline.features.privacy.service import deletion_requests
from hookline.people import timeline
from hookline.people.store import people as stored_people
from hookline.web.lists import person_href
from tests.unit.control.running import Answer, Running
from tests.unit.features.accounts.test_access import sign_in
from tests.unit.features.audiences.test_audience_reach import People, defined
from tests.unit.features.people.test_persons import JOURNEY, of

__all__ = ["defined"]

ODD = ("a/b", "a//b/", "ü 🙂", "<b>x</b>", ".", "..", "a?b=c&d#e", "%2F", "'\"\\", "1", "user/x", "x" * 900)


@pytest.fixture
def people(defined: Running) -> Iterator[People]:
    """Profiles of the journey, and of odd ids."""
    defined.append(*JOURNEY, *(of(f"odd{number}", "identify", id, None) for number, id in enumerate(ODD)))
    ensure(location_of(defined.settings, "profiles"), "profiles")
    found = People(defined)
    found.keep()
    found.apply()
    found.sync_all()
    yield found
    found.close()


def page(control: Running, path: str) -> Answer:
    """A page, for somebody who is signed in."""
    return control.call("GET", path, headers=sign_in(control), token=False)


def test_a_person_has_a_page_with_everything(people: People) -> None:
    """All ids, traits with their events, groups, the audience that holds, the value, and the events of all ids."""
    text = page(people.control, "/people/user/ann").text
    for wanted in ("visitor", "plan", "/events/j3?source=site", "acme", "employees", "Buyers", "/audiences/buyers"):
        assert wanted in text, wanted
    for number in range(6):
        assert f"/events/j{number}?source=site" in text
    assert "/events/j6" not in text
    assert page(people.control, "/people/anonymous/visitor").status == 200


def test_ids_that_are_not_shown_are_counted(people: People) -> None:
    """Of each kind: somebody with many devices has more than a page shows."""
    people.control.append(*(of(f"many{number}", "identify", "many", f"phone-{number:02}") for number in range(25)))
    people.apply()
    text = page(people.control, "/people/user/many").text
    identity = text[text.index("<h2>Identity</h2>") : text.index("<dt>First seen</dt>")]
    assert (identity.count("phone-"), identity.count("and 5 more")) == (20, 1)
    assert "are listed" not in text


def test_a_page_says_that_events_of_some_ids_are_missing(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of somebody with very many; those of the id in the address are there."""
    for module in (stored_people, timeline, view):
        monkeypatch.setattr(module, "IDS_MAX", 5)
    people.control.append(*(of(f"many{number}", "identify", "many", f"phone-{number:02}") for number in range(25)))
    people.control.append(*(of(f"seen{number:02}", "page", None, f"phone-{number:02}") for number in range(25)))
    people.apply()
    text = page(people.control, "/people/anonymous/phone-24").text
    assert "first 5 of 26 ids" in text
    assert [number for number in range(25) if f"/events/seen{number:02}" in text] == [0, 1, 2, 3, 24]


def test_a_page_shows_some_traits_and_groups(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are and however long: the beginning of each value, the numbers, and the way to the rest."""
    monkeypatch.setattr(pages, "TRAITS_SHOWN", 2)
    monkeypatch.setattr(pages, "TRAITS_MAX", 4)
    monkeypatch.setattr(pages, "GROUPS_SHOWN", 2)
    large = {f"name{number}": f"{number}-{'<' * 900}" for number in range(7)}
    people.control.append(of("r", "identify", "rich", None, traits=large))
    people.control.append(*(of(f"r{id}", "group", "rich", None, groupId=f"group{id}", traits=large) for id in "abc"))
    people.apply()
    assert "all data as JSON" not in page(people.control, "/people/user/ann").text
    text = page(people.control, "/people/user/rich").text
    traits = text[text.index("<h2>Traits") : text.index("<h2>Groups")]
    assert [traits.count(f"<bdi>name{number}</bdi>") for number in range(7)] == [1] * 4 + [0] * 3
    assert "<summary>2 more</summary>" in traits
    assert '3 more in <a href="/api/v1/people?userId=rich">' in traits
    assert "0-" + "&lt;" * (pages.VALUE_CHARACTERS_MAX - 3) + "…" in traits
    groups = text[text.index("<h2>Groups") : text.index("<h2>Timeline")]
    assert [groups.count(f"<bdi>group{id}</bdi>") for id in "abc"] == [1, 1, 0]
    assert groups.count("<dt><bdi>name") == 4
    assert "7 more in <a" in groups
    assert "and 1 more</p>" in groups


def test_names_and_values_are_cut(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of events, of whom they came under, and of computed traits: each may be as long as an event."""
    monkeypatch.setattr(pages, "VALUE_CHARACTERS_MAX", 4)
    text = page(people.control, "/people/user/ann").text
    timeline = text[text.index("<h2>Timeline") :]
    assert ">Orde…</bdi>" in timeline
    assert ">Order</bdi>" not in timeline
    assert 'as <bdi class="mono">visi…</bdi>' in timeline
    monkeypatch.setattr(pages, "VALUE_CHARACTERS_MAX", 1)
    assert '<bdi class="mono">4…</bdi>' in page(people.control, "/people/user/ann").text


def test_why_is_unfolded_where_it_is_asked_for(people: People) -> None:
    """An audience's clauses with the events that decide, a computed trait's events; folded again by the same link."""
    path = "/people/user/ann"
    assert "properties.total &gt;= 5" not in page(people.control, path).text
    audience = page(people.control, path + "?why=audience/buyers").text
    assert "properties.total &gt;= 5" in audience
    assert f'href="{path}#audience-buyers"' in audience
    trait = page(people.control, path + "?why=trait/spend").text
    assert "the sum of properties.total" in trait
    for unknown in ("audience/nope", "trait/nope", "nope"):
        assert page(people.control, f"{path}?why={unknown}").status == 200


def test_ids_of_any_kind_have_a_page(people: People) -> None:
    """At the address that everything links to; nothing in an id becomes part of the address, or markup."""
    for id in ODD:
        answer = page(people.control, person_href(id))
        assert answer.status == 200, id
        assert f"<bdi>{escape(id)}</bdi>".replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in answer.text
        assert "<b>x</b>" not in answer.text


def test_a_search_leads_to_the_person(people: People) -> None:
    """By either kind of id; somebody nobody knows stays on the page, which says so."""
    for id, where in (("ann", "user/ann"), ("visitor", "anonymous/visitor"), ("a/b", "user/a%2Fb")):
        answer = page(people.control, f"/people?id={id}")
        assert (answer.status, answer.headers["location"]) == (303, f"/people/{where}")
    assert page(people.control, "/people?search=visitor").headers["location"] == "/people/anonymous/visitor"
    nobody = page(people.control, "/people?search=nobody")
    assert nobody.status == 200
    assert "Nobody found for" in nobody.text
    assert page(people.control, "/people/user/nobody").status == 404


def test_a_search_lists_whom_it_finds(people: People) -> None:
    """By the beginning of an id or of an indexed trait, name first; what somebody called themselves stays text."""
    people.control.append(
        of("n1", "identify", "ann", None, traits={"name": "<i>Ann</i> Smith", "email": "ann@x.test"}),
        of("n2", "identify", "anna", None, traits={"email": "smith@x.test"}),
    )
    people.apply()
    text = page(people.control, "/people?search=SMI").text
    assert "&lt;i&gt;Ann&lt;/i&gt; Smith" in text
    assert "<i>Ann</i>" not in text
    assert "smith@x.test" in text
    text = page(people.control, "/people?search=ann").text
    assert text.index('href="/people/user/ann"') < text.index('href="/people/user/anna"')


def test_those_who_were_met_last_are_listed(people: People) -> None:
    """Newest first; who was merged into somebody is not there twice, who is suppressed not at all."""
    deletion_requests(people.control.services).create(["ben"], "suppress", "somebody")
    text = page(people.control, "/people").text
    assert text.index("/people/user/1") < text.index("/people/user/ann")
    assert "/people/anonymous/visitor" not in text
    assert "/people/user/ben" not in text


def test_devices_without_a_user_are_listed(people: People) -> None:
    """But for those that are being erased."""
    people.control.append(of("device", "track", None, "device-7", event="Order"))
    people.apply()
    assert "/people/anonymous/device-7" in page(people.control, "/people").text
    deletion_requests(people.control.services).create(["device-7"], "delete", "somebody")
    assert "/people/anonymous/device-7" not in page(people.control, "/people").text


def test_before_there_are_profiles_a_person_has_events(defined: Running) -> None:
    """By the id that was given; a search finds either kind."""
    defined.append(*JOURNEY)
    assert "No people yet" in page(defined, "/people").text
    text = page(defined, "/people/user/ann").text
    assert "/events/j5?source=site" in text
    assert "/events/j0" not in text
    assert "has not read this person" in text
    answer = page(defined, "/people?id=visitor")
    assert answer.headers["location"] == "/people/anonymous/visitor"


def test_nothing_is_shown_of_whom_nothing_may_be_shown(people: People) -> None:
    """Suppressed, being erased, erased: the page says so, names the request, and has none of the person's data."""
    requests = deletion_requests(people.control.services)
    suppressed = requests.create(["ann"], "suppress", "somebody")
    for path in ("/people/user/ann", "/people/anonymous/visitor"):
        text = page(people.control, path).text
        assert f"/deletion-requests/dr{suppressed.number}" in text
        assert "acme" not in text
        assert "Buyers" not in text
    erased = requests.create(["ben", "long gone"], "delete", "somebody")
    assert "is being erased" in page(people.control, "/people/user/ben").text
    requests.finish(erased.number)
    assert "was erased" in page(people.control, "/people/user/long gone".replace(" ", "%20")).text
    assert page(people.control, "/people?id=long+gone").headers["location"] == "/people/user/long%20gone"


def test_changes_of_membership_stand_between_the_events(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the page of the events around them, each once, whatever the size of a page."""
    people.control.append(of("late", "track", "ann", None, event="After the sync"))
    people.apply()
    for rows in (1, 3, 50):
        monkeypatch.setattr("hookline.features.people.pages.ROWS_ON_A_PAGE", rows)
        text, path = "", "/people/user/ann"
        while path:
            found = page(people.control, path).text.partition('data-part="timeline"')[2].partition("</section>")[0]
            text += found
            links = [part.partition('"')[0] for part in found.split('href="') if 'rel="next"' in part.partition(">")[0]]
            path = links[0].replace("&amp;", "&") if links else ""
        assert text.count("joined") == 1
        order = [text.index(each) for each in ("/events/late", "joined", *(f"/events/j{n}" for n in range(5, -1, -1)))]
        assert order == sorted(order)


def test_the_time_line_goes_on_from_page_to_page(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older events are behind a link that keeps what is unfolded."""
    monkeypatch.setattr("hookline.features.people.pages.ROWS_ON_A_PAGE", 2)
    first = page(people.control, "/people/user/ann?why=trait/spend").text
    assert "/events/j5" in first
    assert "/events/j3" not in first.replace("&amp;", "&").partition('data-part="timeline"')[2]
    (link,) = {part.partition('"')[0] for part in first.split('href="') if "after=" in part.partition('"')[0]}
    assert "why=" in link
    second = page(people.control, link.replace("&amp;", "&")).text.partition('data-part="timeline"')[2]
    assert "/events/j3" in second
    assert "/events/j5" not in second
    assert page(people.control, "/people/user/ann?after=x").status == 400
