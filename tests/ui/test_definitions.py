"""Audiences and computed traits in the browser: made from nothing, changed, explained, synced, deleted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from playwright.sync_api import Browser, Locator, Page, expect

from hookline.connections.definitions.model import Condition
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.ui.conftest import CONTRAST, WAIT_MS, sign_in
from tests.ui.hostile_payloads import PAYLOADS
from tests.ui.test_hostile_content import assert_inert
from tests.ui.test_people import PASSWORD
from tests.ui.test_screens import sticks_out
from tests.unit.people.definitions.examples import conditions

THROUGH_THE_BUILDER = """written => {
  const there = document.querySelector("condition-builder");
  const builder = document.createElement("condition-builder");
  builder.dataset.choices = there.dataset.choices;
  builder.dataset.begins = written;
  there.before(builder);
  const { value } = builder.querySelector("[name=condition]");
  builder.remove();
  return value;
}"""
BUYERS = {"event": "Order Completed", "count": {"gte": 2}, "where": "properties.total >= 100"}


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory, shared_receiver: Receiver) -> Iterator[Hookline]:
    """A service of these tests' own, with events of two people."""
    with Hookline(tmp_path_factory.mktemp("definitions") / "h", [webhook("crm", shared_receiver.url())]) as running:
        for user, total in (("ann", 120), ("ann", 150), ("ben", 20)):
            running.track("Order Completed", userId=user, properties={"total": total})
        running.post("/v1/identify", {"userId": "ann", "traits": {"plan": "pro"}})
        wait_until(lambda: len(running.api("GET", "sources/site/schema").json["items"]) == 2, what="names known")
        yield running


@pytest.fixture
def signed_in(page: Page, hookline: Hookline) -> Page:
    """The first page, signed in and live."""
    sign_in(page, hookline)
    return page


def make(hookline: Hookline, path: str, id: str, **fields: Any) -> None:
    """Make a definition of a test's own, and wait for its first sync."""
    assert hookline.api("PUT", f"{path}/{id}", {"id": id, "name": id, "destinations": ["crm"], **fields}).status == 201
    wait_until(lambda: hookline.api("GET", f"{path}/{id}/syncs").json["items"], what="the first sync")


def clause(page: Page, at: int) -> Locator:
    """A clause of the builder."""
    return page.locator(".builder-clause").nth(at)


def looks_right(page: Page) -> None:
    """Nothing sticks out, and everything can be read."""
    assert (sticks_out(page), page.evaluate(CONTRAST)) == (False, [])


def test_an_audience_is_built_from_nothing(signed_in: Page, hookline: Hookline) -> None:
    """Two clauses, one of them with what came with the events; the API has exactly what the sentence says."""
    page = signed_in
    page.goto("/audiences")
    page.get_by_role("link", name="New audience").first.click()
    page.get_by_label("Name").fill("Loyal Buyers")
    expect(page.get_by_label("Id")).to_have_value("loyal-buyers")
    expect(page.locator("#names-event option")).to_have_count(1)
    expect(page.locator("#names-event option")).to_have_attribute("value", "Order Completed")
    first = clause(page, 0)
    first.get_by_label("Event").fill("Order Completed")
    first.get_by_label("Times", exact=True).fill("2")
    first.get_by_label("How long").fill("14")
    first.get_by_role("button", name="where").click()
    expect(first.get_by_label("Property")).to_have_value("properties.total")
    first.get_by_label("Comparison", exact=True).select_option("is at least")
    first.get_by_label("Value").fill("100")
    page.get_by_role("button", name="Add a clause").click()
    second = clause(page, 1)
    second.get_by_label("Clause type").select_option("with")
    expect(second.get_by_label("Trait", exact=True)).to_have_value("plan")
    second.get_by_label("Value").fill("pro")
    expect(page.locator("#condition-text")).to_contain_text('{"if": "traits.plan = \\"pro\\""}')
    page.get_by_label("crm").check()
    looks_right(page)
    page.get_by_role("button", name="Create").click()
    page.wait_for_url("**/audiences/loyal-buyers")
    expect(page.locator(".sentence")).to_contain_text('did "Order Completed" at least 2 times in the last 14d')
    made = hookline.api("GET", "audiences/loyal-buyers").json
    assert made == {
        "id": "loyal-buyers",
        "name": "Loyal Buyers",
        "destinations": ["crm"],
        "syncEvery": "2h",
        "enabled": True,
        "condition": {
            "all": [
                {"event": "Order Completed", "count": {"gte": 2}, "within": "14d", "where": "properties.total >= 100"},
                {"if": 'traits.plan = "pro"'},
            ]
        },
    }
    expect(page.locator(".definition-head")).to_contain_text("1 members")
    looks_right(page)
    page.get_by_role("link", name="Members").click()
    expect(page.get_by_role("row").filter(has_text="ann")).to_contain_text("yes")
    looks_right(page)


@pytest.mark.parametrize("screen", [(390, "dark")])
def test_an_audience_is_edited_on_a_phone(signed_in: Page, hookline: Hookline) -> None:
    """Another kind of frequency, a group within, and a clause less: what was not touched stays as it was."""
    page = signed_in
    deep = {"any": [{"if": 'traits.plan = "pro"'}, {"event": "Order Completed", "first": {"within": "7d"}}]}
    make(hookline, "audiences", "edited", condition={"all": [BUYERS, deep]}, syncEvery="30m")
    page.goto("/audiences/edited/edit")
    expect(page.locator(".builder-clause")).to_have_count(3)
    clause(page, 0).get_by_label("How often").first.select_option("never")
    clause(page, 2).get_by_label("Remove this clause").click()
    expect(page.locator(".builder-clause")).to_have_count(2)
    looks_right(page)
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/audiences/edited")
    changed = hookline.api("GET", "audiences/edited").json
    never = {"event": "Order Completed", "never": True, "where": "properties.total >= 100"}
    assert changed["condition"] == {"all": [never, {"any": [{"if": 'traits.plan = "pro"'}]}]}
    assert changed["syncEvery"] == "30m"


def test_what_the_api_refuses_is_shown_at_its_clause(signed_in: Page) -> None:
    """A wrong expression at the clause that has it, a taken name at the name; what was typed stays."""
    page = signed_in
    page.goto("/audiences/new")
    page.get_by_label("Name").fill("Refused")
    clause(page, 0).get_by_label("Event").fill("Order Completed")
    page.get_by_role("button", name="Add a clause").click()
    clause(page, 1).get_by_label("Clause type").select_option("with")
    clause(page, 1).get_by_label("Trait", exact=True).fill("a b")
    page.get_by_role("button", name="Create").click()
    expect(clause(page, 1).locator("[data-wrong]")).to_contain_text("at column")
    expect(clause(page, 0).locator("[data-wrong]")).to_be_empty()
    clause(page, 1).get_by_label("Trait", exact=True).fill("plan")
    clause(page, 1).get_by_label("Value").fill("pro")
    clause(page, 0).get_by_label("How long").fill("0")
    page.get_by_role("button", name="Create").click()
    expect(clause(page, 0).locator("[data-wrong]")).to_contain_text("30d")
    expect(clause(page, 1).locator("[data-wrong]")).to_be_empty()
    looks_right(page)


def test_a_condition_is_edited_as_text_and_back(signed_in: Page, hookline: Hookline) -> None:
    """What lies too deep for the sentence is a text in it; the whole may be one, and comes back as a sentence."""
    page = signed_in
    deep = {"any": [{"all": [{"any": [{"not": {"all": [BUYERS, {"if": "traits.vip"}]}}]}]}]}
    make(hookline, "audiences", "deep", condition=deep)
    page.goto("/audiences/deep/edit")
    expect(page.get_by_label("Condition as JSON", exact=True)).to_have_value(
        '{"not":{"all":[' + _json(BUYERS) + ',{"if":"traits.vip"}]}}'
    )
    page.get_by_role("button", name="Edit as text").click()
    text = page.get_by_label("Whole condition as JSON")
    text.fill('{"event": "Order Completed", ')
    page.get_by_role("button", name="Save").click()
    expect(page.locator("condition-builder > [role=alert]")).to_contain_text("This is not JSON")
    text.fill(_json({"not": {"audience": "nobody"}}))
    page.get_by_role("button", name="Save").click()
    expect(page.locator("condition-builder > [role=alert]")).to_contain_text("there is no audience 'nobody'")
    text.fill(_json(BUYERS))
    page.get_by_role("button", name="Visual editor").click()
    expect(clause(page, 0).get_by_label("Times", exact=True)).to_have_value("2")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/audiences/deep")
    assert hookline.api("GET", "audiences/deep").json["condition"] == BUYERS


def test_somebody_is_explained_then_synced_disabled_and_deleted(signed_in: Page, hookline: Hookline) -> None:
    """Why, with the event that decides; who came since is told on request; the delete waits for the id."""
    page = signed_in
    make(hookline, "audiences", "explained", condition=BUYERS)
    page.goto("/audiences/explained")
    page.get_by_label("User id, or anonymous id").fill("ben")
    page.get_by_role("button", name="Explain").click()
    page.wait_for_url("**/explained/why?user=ben")
    expect(page.locator(".verdict")).to_contain_text("not a member")
    expect(page.locator(".why")).to_contain_text("0 events match")
    first = hookline.track("Order Completed", userId="ben", properties={"total": 400})
    hookline.track("Order Completed", userId="ben", properties={"total": 400})
    expect(page.locator(".verdict")).to_contain_text("● a member")
    expect(page.locator(".why").get_by_role("link", name=first)).to_have_attribute(
        "href", f"/events/{first}?source=site"
    )
    looks_right(page)
    expect(page.locator(".definition-head")).to_contain_text("1 members")
    page.get_by_role("button", name="Sync now").click()
    expect(page.locator(".definition-head")).to_contain_text("2 members")
    assert hookline.api("GET", "audiences/explained/syncs").json["items"][0]["came"] == 1
    expect(page.locator(".history li")).to_have_text(re.compile(r"● joined .* with sync 2"))
    page.get_by_role("button", name="Disable").click()
    page.get_by_role("dialog").get_by_role("button", name="Disable").click()
    expect(page.locator(".definition-head")).to_contain_text("off")
    assert hookline.api("GET", "audiences/explained").json["enabled"] is False
    page.goto("/audiences/explained")
    page.get_by_role("button", name="Delete audience").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("destinations keep the last value of the trait explained")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_label("Type explained to continue").fill("explained")
    dialog.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/audiences")
    assert hookline.api("GET", "audiences/explained").status == 404


def test_a_computed_trait_is_built_changed_and_shown(signed_in: Page, hookline: Hookline) -> None:
    """A sum over a property that came with the event; its values; and what one of them is made of."""
    page = signed_in
    page.goto("/traits/new")
    page.get_by_label("Name").fill("Total Spend")
    page.get_by_label("Id").fill("total_spend")
    page.get_by_label("Event").fill("Order Completed")
    page.get_by_label("Aggregate").select_option("sum")
    expect(page.get_by_label("Property")).to_have_value("properties.total")
    page.get_by_label("Property").fill("total")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("trait-builder [role=alert]")).to_contain_text("begin with properties")
    page.get_by_label("Property").fill("properties.total")
    looks_right(page)
    page.get_by_role("button", name="Create").click()
    page.wait_for_url("**/traits/total_spend")
    made = hookline.api("GET", "computed-traits/total_spend").json
    given = {key: value for key, value in made.items() if value is not None}
    assert given == {
        "id": "total_spend",
        "name": "Total Spend",
        "event": "Order Completed",
        "aggregate": "sum",
        "property": "properties.total",
        "within": "90d",
        "destinations": [],
        "syncEvery": "2h",
        "enabled": True,
    }
    page.goto("/traits/total_spend/values")
    expect(page.get_by_role("row").filter(has_text="ann")).to_contain_text("270")
    page.get_by_role("row").filter(has_text="ann").get_by_role("link", name="Why").click()
    expect(page.locator(".verdict")).to_contain_text("270")
    expect(page.locator(".deciding li")).to_have_count(2)
    looks_right(page)
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Aggregate").select_option("number")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/traits/total_spend")
    assert hookline.api("GET", "computed-traits/total_spend").json["property"] is None


def test_a_computed_trait_is_asked_for_by_any_id(signed_in: Page, hookline: Hookline) -> None:
    """A dot in an id is no step of a path; what it looks at leads there, and back."""
    page = signed_in
    make(hookline, "computed-traits", "orders.all-1", event="Order Completed", aggregate="count")
    page.goto("/audiences/new")
    page.get_by_label("Name").fill("Asks for a dot")
    clause(page, 0).get_by_label("Clause type").select_option("with")
    clause(page, 0).get_by_label("Kind of trait").select_option("computed trait")
    clause(page, 0).get_by_label("Computed trait").select_option("orders.all-1")
    clause(page, 0).get_by_label("Comparison", exact=True).select_option("is more than")
    clause(page, 0).get_by_label("Value").fill("1")
    page.get_by_role("button", name="Create").click()
    page.wait_for_url("**/audiences/asks-for-a-dot")
    asked = hookline.api("GET", "audiences/asks-for-a-dot").json["condition"]
    assert asked == {"if": r"computed.orders\.all-1 > 1"}
    page.get_by_role("link", name="orders.all-1").click()
    page.get_by_role("link", name="Asks for a dot").click()
    page.wait_for_url("**/audiences/asks-for-a-dot")


def test_what_nobody_touches_stays_as_it_was(signed_in: Page) -> None:
    """Any condition comes out of the builder as it went in; "none of" one clause is "not" that clause."""
    page = signed_in
    page.goto("/audiences/new")
    page.locator(".builder-clause").wait_for()

    @settings(max_examples=60, deadline=None)
    @given(conditions())
    def comes_out(condition: Condition) -> None:
        written = msgspec.json.encode(condition).decode()
        assert plain(json.loads(page.evaluate(THROUGH_THE_BUILDER, written))) == plain(json.loads(written))

    comes_out()


def plain(condition: dict[str, Any]) -> dict[str, Any]:
    """A condition without the one difference that means nothing."""
    if "not" in condition:
        inner = condition["not"]
        while len(inner.get("any", ())) == 1:
            (inner,) = inner["any"]
        return {"not": plain(inner)}
    return {
        key: [plain(each) for each in value] if key in ("all", "any") else value for key, value in condition.items()
    }


def test_a_preview_counts_people_before_anything_is_saved(signed_in: Page, hookline: Hookline) -> None:
    """Over an event that nothing asked for yet: how many, and who; of a trait with values; what is refused is said at
    its clause, and what was changed since says so."""
    page = signed_in
    for user in ("fay", "gus"):
        hookline.track("Previewed", userId=user, properties={"total": 7})
    page.goto("/audiences/new")
    clause(page, 0).get_by_label("Event").fill("Previewed")
    preview = page.locator("definition-preview")
    preview.get_by_role("button", name="Preview audience").click()
    expect(preview.locator(".matched")).to_contain_text("2 of")
    expect(preview.get_by_role("link")).to_have_text(["fay", "gus"])
    expect(preview.get_by_role("link").first).to_have_attribute("href", "/people/user/fay")
    expect(preview.get_by_text("Preview again")).to_be_hidden()
    looks_right(page)
    clause(page, 0).get_by_label("How long").fill("0")
    expect(preview.get_by_text("Preview again")).to_be_visible()
    preview.get_by_role("button", name="Preview audience").click()
    expect(clause(page, 0).locator("[data-wrong]")).to_contain_text("30d")
    page.goto("/traits/new")
    page.get_by_label("Event").fill("Previewed")
    preview.get_by_role("button", name="Preview trait").click()
    expect(preview.locator(".matched")).to_contain_text("with a value")
    expect(preview.locator(".sampled li").first).to_contain_text("1")
    assert "Previewed" not in json.dumps(hookline.api("GET", "audiences").json)


def test_texts_from_outside_are_texts(signed_in: Page, hookline: Hookline) -> None:
    """Names of events and audiences, traits and user ids that are markup, on every page and in the builder."""
    page = signed_in
    bad = PAYLOADS[1]
    hookline.track(bad, userId=bad, properties={"total": bad})
    hookline.post("/v1/identify", {"userId": bad, "traits": {"plan": bad}})
    condition = {
        "all": [{"event": bad, "where": f"properties.total = {_json(bad)}"}, {"if": f"traits.plan = {_json(bad)}"}]
    }
    make(hookline, "audiences", "hostile", name=bad, condition=condition)
    make(
        hookline,
        "computed-traits",
        "hostile",
        name=PAYLOADS[0],
        event=bad,
        aggregate="last",
        property="properties.total",
    )
    wait_until(lambda: hookline.api("GET", "audiences/hostile/members").json["items"], what="a member")
    for path, text in (
        ("/audiences", bad),
        ("/audiences/hostile", bad),
        ("/audiences/hostile/members", bad),
        ("/audiences/hostile/why?user=" + bad.replace(" ", "+"), bad),
        ("/traits", PAYLOADS[0]),
        ("/traits/hostile/values", bad),
        ("/traits/hostile/edit", ""),
        ("/audiences/hostile/edit", ""),
    ):
        page.goto(path)
        page.locator("#light[data-state=good]").wait_for()
        expect(page.locator("main")).to_contain_text(text)
        assert page.evaluate("window.ran") is None, path
        if not path.endswith("edit"):  # its data lists hold the names
            assert_inert(page)
    expect(clause(page, 0).get_by_label("Event")).to_have_value(bad)
    expect(clause(page, 0).get_by_label("Value")).to_have_value(bad)


def test_a_viewer_is_offered_nothing_to_change(page: Page, browser: Browser, hookline: Hookline, origin: str) -> None:
    """Neither buttons nor forms nor the way to them; the pages themselves can be read."""
    make(hookline, "audiences", "seen", condition=BUYERS)
    invited = hookline.api("POST", "users", {"name": "vera", "role": "viewer"}).json
    context = browser.new_context(base_url=origin)
    theirs = context.new_page()
    theirs.set_default_timeout(WAIT_MS)
    theirs.goto(invited["link"])
    theirs.get_by_label("Password").fill(PASSWORD)
    theirs.get_by_role("button", name="Join").click()
    theirs.goto("/audiences/seen")
    expect(theirs.locator(".sentence")).to_be_visible()
    for name in ("Sync now", "Disable", "Delete audience"):
        expect(theirs.get_by_role("button", name=name)).to_be_hidden()
    expect(theirs.get_by_role("link", name="Edit")).to_have_count(0)
    theirs.goto("/audiences")
    expect(theirs.get_by_role("link", name="seen")).to_be_visible()
    expect(theirs.get_by_role("link", name="New audience")).to_have_count(0)
    theirs.goto("/audiences/new")
    expect(theirs.get_by_text("This page is not for your role")).to_be_visible()
    context.close()


def test_the_builder_is_used_by_keyboard(signed_in: Page) -> None:
    """What is chosen keeps the focus when the row is drawn again, and a new clause gets it."""
    page = signed_in
    page.goto("/audiences/new")
    often = clause(page, 0).get_by_label("How often").first
    often.focus()
    often.select_option("exactly")
    expect(clause(page, 0).get_by_label("How often").first).to_be_focused()
    page.keyboard.press("Tab")
    expect(clause(page, 0).get_by_label("Times", exact=True)).to_be_focused()
    add = page.get_by_role("button", name="Add a clause")
    add.focus()
    page.keyboard.press("Enter")
    expect(clause(page, 1).get_by_label("Clause type")).to_be_focused()


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
