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
from tests.ui.conftest import CONTRAST, sign_in, viewing
from tests.ui.hostile_payloads import PAYLOADS
from tests.ui.test_hostile_content import assert_inert
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


def confirm(page: Page, verb: str) -> Locator:
    """Ask to save, and return the question once it says how many people there are."""
    page.get_by_role("button", name=verb, exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(re.compile("will be in|will have|will join"))
    return dialog


def save(page: Page, verb: str) -> None:
    """Save, and confirm it."""
    confirm(page, verb).get_by_role("button", name=verb, exact=True).click()


def save_anyway(page: Page, verb: str) -> None:
    """Save what cannot be counted either."""
    page.get_by_role("button", name=verb, exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name=verb, exact=True).click()


def looks_right(page: Page) -> None:
    """Nothing sticks out, and everything can be read."""
    page.locator("main").wait_for()  # a click may have led elsewhere: between two pages there is no document
    page.wait_for_load_state()
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
    first.get_by_label("Event", exact=True).fill("Order Completed")
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
    expect(second.get_by_label("Value")).to_have_value("")
    second.get_by_label("Value").fill("pro")
    expect(page.locator("#condition-text")).to_contain_text('{"if": "traits.plan = \\"pro\\""}')
    page.get_by_label("crm").check()
    expect(page.locator("definition-preview .matched")).to_contain_text("1 of 2 people (50 %)")
    looks_right(page)
    dialog = confirm(page, "Create")
    expect(dialog.get_by_role("heading")).to_have_text("Create Loyal Buyers")
    expect(dialog).to_contain_text("1 of 2 people will be in this audience.")
    expect(dialog).to_contain_text("Hookline sends up to 1 identify call to crm now.")
    looks_right(page)
    dialog.get_by_role("button", name="Cancel").click()
    assert hookline.api("GET", "audiences/loyal-buyers").status == 404
    save(page, "Create")
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
    expect(page.locator(".definition-head")).to_contain_text("1 member")
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
    dialog = confirm(page, "Save")
    expect(dialog).to_contain_text("0 people will join and 1 person will leave. Afterwards there are 0 members.")
    expect(dialog).to_contain_text("Hookline sends up to 1 identify call to crm after saving.")
    dialog.get_by_role("button", name="Save").click()
    page.wait_for_url("**/audiences/edited")
    changed = hookline.api("GET", "audiences/edited").json
    never = {"event": "Order Completed", "never": True, "where": "properties.total >= 100"}
    assert changed["condition"] == {"all": [never, {"any": [{"if": 'traits.plan = "pro"'}]}]}
    assert changed["syncEvery"] == "30m"


def test_nothing_means_everybody_by_accident(signed_in: Page, hookline: Hookline) -> None:
    """A clause without a name, or a value, says so where it is missing; any event is a choice, which is then counted
    as everyone."""
    page = signed_in
    page.goto("/audiences/new")
    page.get_by_label("Name", exact=True).fill("Everybody")
    expect(page.locator("definition-preview")).to_contain_text("Complete the definition")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(clause(page, 0).locator("[data-wrong]")).to_have_text("■ Name the event, or choose “any event”.")
    expect(clause(page, 0).get_by_label("Event", exact=True)).to_be_focused()
    expect(page.get_by_role("dialog")).to_have_count(0)
    clause(page, 0).get_by_label("Event", exact=True).fill("Order Completed")
    clause(page, 0).get_by_role("button", name="where").click()
    page.get_by_role("button", name="Create", exact=True).click()
    expect(clause(page, 0).locator("[data-wrong]")).to_contain_text("Give a property and a value")
    expect(clause(page, 0).get_by_label("Value")).to_be_focused()
    looks_right(page)
    clause(page, 0).get_by_label("Remove this comparison").click()
    clause(page, 0).get_by_label("Which event").select_option("any event")
    expect(page.locator("#condition-text")).to_contain_text('"event": "*"')
    expect(page.locator("definition-preview .doubt")).to_contain_text("Everyone matches")
    page.get_by_role("button", name="Add a clause").click()
    clause(page, 1).get_by_label("Clause type").select_option("with")
    clause(page, 1).get_by_label("Value").fill("nothing like it")
    expect(page.locator("definition-preview .doubt")).to_contain_text("Nobody matches yet")
    looks_right(page)


def test_an_audience_is_created_without_destinations_first(signed_in: Page, hookline: Hookline) -> None:
    """People are counted, nothing is synced: destinations are chosen later."""
    page = signed_in
    page.goto("/audiences/new")
    page.get_by_label("Name", exact=True).fill("Later")
    clause(page, 0).get_by_label("Event", exact=True).fill("Order Completed")
    page.get_by_label("crm").check()
    confirm(page, "Create").get_by_role("button", name="Create without destinations").click()
    page.wait_for_url("**/audiences/later")
    assert hookline.api("GET", "audiences/later").json["destinations"] == []
    expect(page.locator(".definition-head")).to_contain_text("2 members")
    page.goto("/audiences/later/edit")
    page.get_by_label("crm").check()
    dialog = confirm(page, "Save")
    expect(dialog).to_contain_text("crm is new here and gets up to 2 identify calls: one for each member.")
    dialog.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**/audiences/later")
    assert hookline.api("GET", "audiences/later").json["destinations"] == ["crm"]


def test_audiences_are_compared_in_the_editor_and_on_their_page(signed_in: Page, hookline: Hookline) -> None:
    """What a change does to the members there are, what another audience has in common with it, and the page that
    compares two saved ones; the size is drawn."""
    page = signed_in
    make(hookline, "audiences", "compared", condition={"event": "Order Completed"})
    make(hookline, "audiences", "loyal", condition={"event": "Order Completed", "count": {"gte": 2}})
    page.goto("/audiences/compared/edit")
    preview = page.locator("definition-preview")
    expect(preview).to_contain_text("Now 2 members: +0 join, −0 leave")
    clause(page, 0).get_by_label("Times", exact=True).fill("2")
    expect(preview).to_contain_text("Now 2 members: +0 join, −1 leave")
    expect(preview.locator(".sampled li")).to_have_text(["ben"])
    preview.get_by_label("Compare with").select_option("loyal")
    expect(preview).to_contain_text("1 in both")
    expect(preview).to_contain_text("0 only in this one")
    looks_right(page)
    page.goto("/audiences/compare")
    page.get_by_label("First audience").select_option("compared")
    page.get_by_label("Second audience").select_option("loyal")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/audiences/compare?a=compared&b=loyal")
    expect(page.locator(".overlap > div").first).to_have_text(
        re.compile(r"Only in compared\s*1 50 % of the people in either")
    )
    expect(page.locator(".overlap > div").first.get_by_role("link", name="ben")).to_be_visible()
    looks_right(page)
    page.goto("/audiences/loyal")
    page.get_by_role("button", name="Sync now").click()
    expect(page.get_by_role("heading", name="Members after each sync")).to_be_visible()
    expect(page.locator("[data-chart=sizes] canvas")).to_be_visible()
    looks_right(page)


def test_what_the_api_refuses_is_shown_at_its_clause(signed_in: Page) -> None:
    """A wrong expression at the clause that has it, a taken name at the name; what was typed stays."""
    page = signed_in
    page.goto("/audiences/new")
    page.get_by_label("Name").fill("Refused")
    clause(page, 0).get_by_label("Event", exact=True).fill("Order Completed")
    page.get_by_role("button", name="Add a clause").click()
    clause(page, 1).get_by_label("Clause type").select_option("with")
    clause(page, 1).get_by_label("Trait", exact=True).fill("a b")
    clause(page, 1).get_by_label("Value").fill("pro")
    save_anyway(page, "Create")
    expect(clause(page, 1).locator("[data-wrong]")).to_contain_text("at column")
    expect(clause(page, 0).locator("[data-wrong]")).to_be_empty()
    clause(page, 1).get_by_label("Trait", exact=True).fill("plan")
    clause(page, 0).get_by_label("How long").fill("0")
    save_anyway(page, "Create")
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
    save_anyway(page, "Save")
    expect(page.locator("condition-builder > [role=alert]")).to_contain_text("This is not JSON")
    text.fill(_json({"not": {"audience": "nobody"}}))
    save_anyway(page, "Save")
    expect(page.locator("condition-builder > [role=alert]")).to_contain_text("there is no audience 'nobody'")
    text.fill(_json(BUYERS))
    page.get_by_role("button", name="Visual editor").click()
    expect(clause(page, 0).get_by_label("Times", exact=True)).to_have_value("2")
    save(page, "Save")
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
    expect(page.locator(".definition-head")).to_contain_text("1 member")
    page.get_by_role("button", name="Sync now").click()
    expect(page.locator(".definition-head")).to_contain_text("2 members")
    assert hookline.api("GET", "audiences/explained/syncs").json["items"][0]["came"] == 1
    expect(page.locator(".history li")).to_have_text(re.compile(r"● joined .* with sync 2"))
    page.get_by_role("button", name="Disable").click()
    page.get_by_role("dialog").get_by_role("button", name="Disable").click()
    expect(page.locator(".definition-head")).to_contain_text("disabled")
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
    page.get_by_label("Event", exact=True).fill("Order Completed")
    page.get_by_label("Aggregate").select_option("sum")
    expect(page.get_by_label("Property")).to_have_value("properties.total")
    page.get_by_label("Property").fill("total")
    save_anyway(page, "Create")
    expect(page.locator("trait-builder [role=alert]")).to_contain_text("begin with properties")
    page.get_by_label("Property").fill("properties.total")
    looks_right(page)
    save(page, "Create")
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
    save(page, "Save")
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
    save(page, "Create")
    page.wait_for_url("**/audiences/asks-for-a-dot")
    asked = hookline.api("GET", "audiences/asks-for-a-dot").json["condition"]
    assert asked == {"if": r"computed.orders\.all-1 > 1"}
    page.get_by_role("link", name="orders.all-1").click()
    page.get_by_role("link", name="Asks for a dot").click()
    page.wait_for_url("**/audiences/asks-for-a-dot")


def test_another_comparison_keeps_a_text_that_looks_like_a_number(signed_in: Page) -> None:
    """Quotes stay around it, whichever comparison is chosen."""
    page = signed_in
    page.goto("/audiences/new")
    page.get_by_role("button", name="Edit as text").click()
    page.get_by_label("Whole condition as JSON").fill(json.dumps({"if": 'traits.zip = "10115"'}))
    page.get_by_role("button", name="Visual editor").click()
    clause(page, 0).get_by_label("Comparison", exact=True).select_option("is not")
    expect(page.locator("#condition-text")).to_have_text(json.dumps({"if": 'traits.zip != "10115"'}))


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
    its clause."""
    page = signed_in
    for user in ("fay", "gus"):
        hookline.track("Previewed", userId=user, properties={"total": 7})
    page.goto("/audiences/new")
    name = clause(page, 0).get_by_label("Event", exact=True)
    name.fill("Previewed")
    name.blur()
    preview = page.locator("definition-preview")
    expect(preview.locator(".matched")).to_contain_text("2 of")
    expect(preview.get_by_role("link")).to_have_text(["fay", "gus"])
    expect(preview.get_by_role("link").first).to_have_attribute("href", "/people/user/fay")
    looks_right(page)
    clause(page, 0).get_by_label("How long").fill("0")
    expect(clause(page, 0).locator("[data-wrong]")).to_contain_text("30d")
    expect(preview).to_contain_text("Correct the definition")
    page.goto("/traits/new")
    page.get_by_label("Event", exact=True).fill("Previewed")
    page.get_by_label("Event", exact=True).blur()
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
    make(hookline, "audiences", "hostile2", name=PAYLOADS[2], condition={"event": bad})
    for path, text in (
        ("/audiences", bad),
        ("/audiences/hostile", bad),
        ("/audiences/hostile/members", bad),
        ("/audiences/hostile/why?user=" + bad.replace(" ", "+"), bad),
        ("/audiences/compare?a=hostile&b=hostile2", bad),
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
    expect(clause(page, 0).get_by_label("Event", exact=True)).to_have_value(bad)
    expect(clause(page, 0).get_by_label("Value")).to_have_value(bad)


def test_a_viewer_is_offered_nothing_to_change(browser: Browser, hookline: Hookline, origin: str) -> None:
    """Neither buttons nor forms nor the way to them; the pages themselves can be read."""
    make(hookline, "audiences", "seen", condition=BUYERS)
    with viewing(browser, hookline, origin) as theirs:
        theirs.goto("/audiences/seen")
        expect(theirs.locator(".sentence")).to_be_visible()
        for name in ("Sync now", "Disable", "Delete audience"):
            expect(theirs.get_by_role("button", name=name)).to_be_hidden()
        expect(theirs.get_by_role("link", name="Edit")).to_have_count(0)
        theirs.goto("/audiences")
        expect(theirs.get_by_role("link", name="seen")).to_be_visible()
        expect(theirs.get_by_role("link", name="New audience")).to_have_count(0)
        theirs.get_by_role("link", name="Compare", exact=True).click()
        expect(theirs.get_by_text("Choose two audiences")).to_be_visible()
        theirs.goto("/audiences/new")
        expect(theirs.get_by_text("This page is not for your role")).to_be_visible()


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
