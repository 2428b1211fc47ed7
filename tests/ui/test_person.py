"""The pages of people: found by an id, everything known with where it comes from, and links to them from everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from hookline.web.lists import person_href
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.profiles.test_audience import audience
from tests.ui.conftest import sign_in
from tests.ui.hostile_payloads import PAYLOADS
from tests.ui.test_hostile_content import assert_inert
from tests.ui.test_screens import look

ORDERS = {"event": "Order Completed", "count": {"gte": 2}, "where": "properties.total >= 20"}
DEFINITIONS: dict[str, Any] = {
    "audiences": [
        audience("buyers", {"all": [ORDERS, {"if": 'traits.plan = "pro"'}]}, name="Big buyers"),
        audience("refunded", {"event": "Refund"}, name="Refunded"),
    ],
    "computedTraits": [
        {
            "id": "spend",
            "name": "Total spend",
            "event": "Order Completed",
            "aggregate": "sum",
            "property": "properties.total",
            "syncEvery": 1,
        }
    ],
}
ODD = ("a/b c", "🙂/ü", "..", "?x=1#y", PAYLOADS[0], PAYLOADS[2], PAYLOADS[16])


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory, shared_receiver: Receiver) -> Iterator[Hookline]:
    """A service of these tests' own, with an audience, a computed trait and somebody to look at."""
    folder = tmp_path_factory.mktemp("person") / "h"
    with Hookline(folder, [webhook("crm", shared_receiver.url())], definitions=DEFINITIONS) as running:
        tell(running, "ann")
        wait_until(lambda: is_in(running, "ann"), what="ann in the audience")
        yield running


def tell(hookline: Hookline, user: str) -> None:
    """A visit that ends in an account and three orders."""
    visitor = f"visitor-{user}"
    hookline.post("/v1/page", {"anonymousId": visitor, "name": "Pricing"})
    hookline.track("Video Played", userId="", anonymousId=visitor)
    hookline.post("/v1/alias", {"userId": user, "previousId": visitor})
    traits = {"plan": "pro", "email": f"{user}@example.com", "address": {"city": "Bonn", "street": "Am Hof 1"}}
    hookline.post("/v1/identify", {"userId": user, "traits": traits, "messageId": f"identify-{user}"})
    company = {"employees": 120, "industry": "Bakery"}
    hookline.post("/v1/group", {"userId": user, "groupId": f"acme-{user}", "traits": company})
    for number, total in enumerate((25, 40, 12)):
        hookline.track("Order Completed", f"order-{user}-{number}", userId=user, properties={"total": total})


def is_in(hookline: Hookline, user: str) -> bool:
    """Whether the syncs have found the person in the first audience, with a value."""
    found = hookline.api("GET", f"people?userId={user}").json
    return found.get("audiences", [{}])[0].get("member") is True and found["computedTraits"][0]["value"] == 77


def open_person(page: Page, hookline: Hookline, id: str) -> Page:
    """Sign in and go to somebody's page."""
    sign_in(page, hookline)
    page.goto(person_href(id))
    page.locator("#light[data-state=good]").wait_for()
    return page


def test_a_person_is_found_by_any_id(overview: Page) -> None:
    """The rail leads to the search; an anonymous id leads to the same person; nobody is told to be nobody."""
    overview.get_by_role("link", name="People", exact=True).click()
    expect(overview.locator("main")).to_contain_text("ann")
    search = overview.get_by_role("searchbox")
    search.fill("visitor-ann")
    search.press("Enter")
    expect(overview.get_by_role("heading", level=1)).to_have_text("ann")
    expect(overview.locator("[data-part=who]")).to_contain_text("visitor-ann")
    overview.goto("/people")
    search.fill("nobody at all")
    search.press("Enter")
    expect(overview.locator("main")).to_contain_text("Nobody found for “nobody at all”")


def test_everything_known_is_there_with_where_it_comes_from(page: Page, hookline: Hookline) -> None:
    """Events of both ids newest first, traits and groups that lead to their events, the audience and the value."""
    open_person(page, hookline, "ann")
    rows = page.locator("[data-part=timeline] tbody tr")
    told = rows.filter(has=page.locator(".type"), has_not=page.locator(".by-sync"))
    expect(rows.filter(has_text="joined Big buyers")).to_have_count(1)
    expect(told).to_have_count(8)
    for number, name in enumerate(("Order Completed", "Order Completed", "Order Completed", "", "", "")):
        expect(told.nth(number)).to_contain_text(name)
    expect(told.nth(6)).to_contain_text("Video Played")
    expect(told.nth(7)).to_contain_text("Pricing")
    expect(page.locator("[data-part=audiences] li").first).to_contain_text("in Big buyers")
    expect(page.locator("[data-part=audiences] li").nth(1)).to_contain_text("out Refunded")
    expect(page.locator("[data-part=computed]")).to_contain_text("77")
    expect(page.locator("[data-part=groups]")).to_contain_text("acme-ann")
    expect(page.locator("[data-part=groups]")).to_contain_text('"Bakery"')
    page.locator("[data-part=traits] a").first.click()
    expect(page.locator("#message-id")).to_have_text("identify-ann")
    page.get_by_role("link", name="ann", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("ann")


def test_why_unfolds_in_place_and_stays_in_the_address(page: Page, hookline: Hookline) -> None:
    """The clauses with their events for an audience, the events of a computed trait; folded again by the same link."""
    open_person(page, hookline, "ann")
    page.get_by_role("link", name="Why: Big buyers").click()
    reasons = page.locator("#audience-buyers .reasons")
    expect(reasons).to_contain_text('did "Order Completed" at least 2 times where properties.total >= 20')
    expect(reasons.get_by_role("link", name="order-ann-1")).to_be_visible()
    assert "why=audience" in page.url
    page.get_by_role("link", name="Why: Total spend").click()
    expect(page.locator("#trait-spend .reasons")).to_contain_text("3 events match")
    expect(reasons).to_have_count(0)
    page.get_by_role("link", name="Hide why: Total spend").click()
    expect(page.locator(".reasons")).to_have_count(0)


def test_what_is_new_comes_in_by_itself(page: Page, hookline: Hookline) -> None:
    """An event, a trait, and the audience that follows from it, without a click."""
    tell(hookline, "ben")
    open_person(page, hookline, "ben")
    expect(page.locator("[data-part=audiences] li").first).to_contain_text("in Big buyers")
    hookline.post("/v1/identify", {"userId": "ben", "traits": {"plan": "free"}})
    expect(page.locator("[data-part=traits]")).to_contain_text('"free"')
    expect(page.locator("#audience-buyers")).to_contain_text("out")
    expect(page.locator("[data-part=timeline]")).to_contain_text("left Big buyers")


def test_what_becomes_known_comes_to_its_own_place(page: Page, hookline: Hookline) -> None:
    """Beside the time line, and not at the end of the page."""
    hookline.track("Video Played", userId="cora")
    open_person(page, hookline, "cora")
    expect(page.locator("[data-part=traits]")).to_contain_text("No identify call has set a trait.")
    groups = page.locator("[data-part=groups]")
    expect(groups).to_be_empty()
    hookline.post("/v1/group", {"userId": "cora", "groupId": "acme", "traits": {"employees": 120}})
    expect(groups).to_contain_text("employees")
    expect(page.locator(".person-side [data-part=groups]")).to_be_visible()


def test_a_deletion_request_begins_with_the_person_filled_in(page: Page, hookline: Hookline) -> None:
    """And once it is made, nothing of the person is shown."""
    tell(hookline, "gone")
    open_person(page, hookline, "gone")
    page.get_by_role("button", name="Delete or suppress…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("User id")).to_have_value("gone")
    dialog.get_by_label("Type confirm to continue").fill("confirm")
    dialog.get_by_role("button", name="Create request").click()
    page.wait_for_url("**/deletion-requests/dr*")
    page.goto("/people/user/gone")
    expect(page.locator("main")).to_contain_text("This person is suppressed by the deletion request")
    expect(page.locator("main")).not_to_contain_text("Bonn")
    page.get_by_role("link", name="Show the request and its evidence").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("dr")


def test_a_user_id_leads_to_the_person_from_where_it_stands(page: Page, hookline: Hookline) -> None:
    """On the overview, in the debugger, on an event's page; an event of a device alone to the device's person."""
    hookline.track("Looked around", "around", userId="", anonymousId="just a device")
    sign_in(page, hookline)
    page.get_by_role("link", name="just a device", exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("just a device")
    page.goto("/events?text=around")
    page.locator("event-list [role=option]").first.click()
    page.locator("event-detail .facts").get_by_role("link", name="just a device").click()
    expect(page).to_have_url(f"{page.url.partition('/people')[0]}/people/anonymous/just%20a%20device")
    page.goto("/events/around")
    page.get_by_role("link", name="just a device", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("just a device")


def test_ids_and_values_of_any_kind_are_text(page: Page, hookline: Hookline) -> None:
    """At an address of their own, as the heading, in the time line and as values; nothing becomes markup."""
    for number, id in enumerate(ODD):
        body = {"userId": id, "traits": {id: id, "list": [id]}, "messageId": f"odd-{number}", "anonymousId": f"x-{id}"}
        hookline.post("/v1/identify", body)
        hookline.post("/v1/group", {"userId": id, "groupId": id, "traits": {id: id}})
        hookline.track(id, userId=id)
    sign_in(page, hookline)
    for id in ODD:
        page.goto(person_href(id))
        expect(page.get_by_role("heading", level=1)).to_have_text(id)
        expect(page.locator("[data-part=groups]")).to_be_visible()
        expect(page.locator("[data-part=timeline] tbody tr")).to_have_count(3)
        assert_inert(page)
    page.goto("/people")
    expect(page.get_by_role("link", name=ODD[4])).to_be_visible()
    assert_inert(page)


def test_everybody_can_use_the_page(page: Page, hookline: Hookline) -> None:
    """With a reason unfolded, on a desk and on a phone, light and dark: it fits, can be read, and has no barrier."""
    open_person(page, hookline, "ann")
    found = []
    for why in ("audience/buyers", "trait/spend"):
        page.goto(f"/people/user/ann?why={why}")
        page.locator("#light[data-state=good]").wait_for()
        found += look(page, f"person-{why.partition('/')[0]}", pictures=False)
    assert "\n".join(found) == ""
