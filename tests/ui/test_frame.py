"""What stands around every page: a drawer on phones, the way to the documentation, keys, width; and no page at all."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from hookline.control.pages import RAIL
from tests.service.client import send
from tests.service.harness import Hookline
from tests.ui.test_screens import barriers, sticks_out

HEAD_PIXELS_MAX = 64
WIDE_SHARE_MIN = 0.95
DATE_STOPS = 8
"""Places within a field of a date and time: its parts, and what opens the calendar."""
LOADS = ("/", "/events", "/destinations", "/people", "/deletion-requests", "/settings/versions", "/usage", "/setup")

# Every control that Tab should come to, marked so that it is known again; hidden ones and those in closed details not.
MARK_STOPS = """() => {
  const wanted = 'a[href], button, input, select, textarea, summary, [tabindex]';
  const stops = [...document.querySelectorAll(wanted)].filter(each =>
    !each.disabled && each.type !== 'hidden' && each.tabIndex >= 0 && !each.closest('dialog, [inert], u-legend')
    && each.checkVisibility({ visibilityProperty: true }));
  // Of one group of radio buttons Tab comes to one.
  const seen = new Set();
  const kept = stops.filter(each => each.type !== 'radio' || (!seen.has(each.name) && seen.add(each.name)));
  kept.forEach((each, index) => { each.dataset.stop = index; });
  return kept.length;
}"""
# Where the focus is: the number of its stop, and its box on the page.
FOCUS = """() => {
  const { stop } = document.activeElement.dataset;
  const { top, bottom, left, right } = document.activeElement.getBoundingClientRect();
  const inMain = Boolean(document.activeElement.closest('main'));
  if (stop === undefined) return null;
  return { stop: Number(stop), inMain, left, right, top: top + scrollY, bottom: bottom + scrollY };
}"""


@pytest.mark.parametrize("screen", [(390, "light"), (390, "dark")])
def test_a_phone_has_a_drawer(overview: Page) -> None:
    """The head takes one line; the menu opens words that hold the focus, closes with Escape, and leads somewhere."""
    overview.goto("/people")
    main = overview.locator("main").bounding_box()
    assert main is not None
    assert main["y"] <= HEAD_PIXELS_MAX
    rail, menu = overview.get_by_role("navigation", name="Main"), overview.get_by_role("button", name="Menu")
    expect(rail).to_be_hidden()
    menu.focus()
    overview.keyboard.press("Enter")
    expect(rail.get_by_role("link", name="People", exact=True)).to_be_focused()
    # The page behind is out of reach, its heading and its main part with it: that is meant.
    behind = ("landmark-one-main", "page-has-heading-one")
    found = [each for each in barriers(overview) if not each.startswith(behind)]
    assert found == []
    for _ in range(2 * len(RAIL)):
        overview.keyboard.press("Tab")
        assert overview.evaluate(
            "document.activeElement.closest('#rail') !== null || document.activeElement.tagName === 'BODY'"
        )
    overview.keyboard.press("Escape")
    expect(rail).to_be_hidden()
    expect(menu).to_be_focused()
    menu.click()
    rail.get_by_role("link", name="Destinations").click()
    overview.wait_for_url("**/destinations")
    expect(overview.get_by_role("navigation", name="Main")).to_be_hidden()


@pytest.mark.parametrize("screen", [(390, "light")])
def test_the_drawer_gives_way_to_the_rail(overview: Page) -> None:
    """A phone that is turned while the drawer is open has the rail beside the page, and nothing out of reach."""
    overview.get_by_role("button", name="Menu").click()
    overview.set_viewport_size({"width": 1280, "height": 800})
    expect(overview.locator(".content[inert]")).to_have_count(0)
    rail, content = overview.locator(".rail").bounding_box(), overview.locator(".content").bounding_box()
    assert rail is not None
    assert content is not None
    assert rail["x"] + rail["width"] <= content["x"]


@pytest.mark.parametrize("screen", [(1920, "light")])
def test_wide_screens_are_used(overview: Page) -> None:
    """A table goes as far as the window does."""
    overview.goto("/settings/versions")
    box = overview.locator("main table").first.bounding_box()
    main = overview.locator("main").bounding_box()
    assert box is not None
    assert main is not None
    assert box["width"] >= WIDE_SHARE_MIN * (main["width"] - 48)
    assert main["x"] + main["width"] == 1920


def test_every_screen_leads_to_its_documentation(overview: Page) -> None:
    """One click from each entry of the rail to a page about it, not only to the list, and from there back."""
    for stop in RAIL:
        overview.goto(stop.href)
        overview.get_by_role("link", name="Docs", exact=True).click()
        overview.wait_for_url("**/docs/**")
        expect(overview.get_by_role("heading", level=1)).to_be_visible()
        assert (barriers(overview), sticks_out(overview)) == ([], False)
    overview.get_by_role("link", name="← Hookline").click()
    expect(overview.get_by_role("heading", level=1)).to_have_text("Overview")


@pytest.mark.parametrize("screen", [(390, "dark")])
def test_documentation_links_to_itself(overview: Page) -> None:
    """Links between pages and to their parts lead where they say; tables stay within a phone."""
    overview.goto("/docs/how-to/receiver-is-down")
    overview.get_by_role("main").get_by_role("link", name="pause the destination").click()
    expect(overview.get_by_role("heading", level=1)).to_have_text("Pause a destination safely")
    overview.goto("/docs/settings#deliver")
    assert not sticks_out(overview)
    overview.set_viewport_size({"width": 1280, "height": 800})
    for path in ("/docs", "/docs/concepts", "/docs/comparison"):  # cells wrap: where there is room, nothing is cut
        overview.goto(path)
        cut = "(parts) => parts.filter((part) => part.scrollWidth > part.clientWidth).length"
        assert overview.locator(".reference .scroll").evaluate_all(cut) == 0
    assert overview.goto("/docs/nonsense").status == 404  # type: ignore[union-attr]
    expect(overview.get_by_role("heading", name="This page does not exist")).to_be_visible()


def test_nothing_at_an_address(page: Page, hookline: Hookline) -> None:
    """A browser gets a page, signed in or not; a program gets the problem document."""
    answer = page.goto("/nonsense")
    assert answer is not None
    assert (answer.status, barriers(page)) == (404, [])
    expect(page.get_by_role("heading", name="This page does not exist")).to_be_visible()
    page.get_by_role("link", name="Go to the overview").click()
    page.locator("#password").fill(hookline.admin_token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.goto("/sources/site/nonsense/deeper")
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    program = send(hookline.control_port, "GET", "/nonsense", headers={"Accept": "application/json"})
    assert program.headers["content-type"] == "application/problem+json"
    assert (program.status, json.loads(program.body)["code"]) == (404, "not_found")


@pytest.mark.parametrize("screen", [(1280, "light"), (390, "light")])
def test_tab_comes_to_everything_as_the_eye_does(overview: Page) -> None:
    """Page by page: Tab reaches every control once, in the order of the page, and comes out at the end."""
    for path in LOADS:
        overview.goto(path)
        overview.locator("#light[data-state=good]").wait_for()
        overview.emulate_media(reduced_motion="reduce")
        # What the page renders anew meanwhile loses its marks: nothing is asked for from here on, and what was under
        # way may still come once.
        overview.evaluate("() => { hookline.look = () => {}; window.fetch = () => new Promise(() => {}); }")
        for _ in range(2):
            count, found = _walk(overview)
            if [each["stop"] for each in found][:count] == list(range(count)):
                break
        assert [each["stop"] for each in found][:count] == list(range(count)), path
        in_main = [each for each in found[:count] if each["inMain"]]
        back = [
            (one, two) for one, two in pairwise(in_main) if two["bottom"] <= one["top"] and two["left"] < one["right"]
        ]
        assert back == [], path


def _walk(page: Page) -> tuple[int, list[dict[str, Any]]]:
    """Mark what Tab should come to, press it until it has been everywhere; return how many there are, and what it came
    to. A field of a date has several places for Tab: they count as one."""
    count = page.evaluate(MARK_STOPS)
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    found: list[dict[str, Any]] = []
    for _ in range(count + 1 + DATE_STOPS * page.locator("input[type=datetime-local]").count()):
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUS)
        if at is not None and at["stop"] not in [each["stop"] for each in found[-1:]]:
            found.append(at)
    return count, found


def test_only_a_click_beside_a_dialog_leaves_it(overview: Page) -> None:
    """Not one on its edge, nor a selection that ends beside it: what was typed, or is shown once, would be gone."""
    overview.goto("/sources")
    overview.get_by_role("button", name="New source").click()
    dialog, name = overview.locator("#new-source"), overview.locator("#new-source #field-name")
    name.fill("Web shop")
    sheet, field = dialog.bounding_box(), name.bounding_box()
    assert sheet is not None
    assert field is not None
    overview.mouse.move(field["x"] + 60, field["y"] + 10)
    overview.mouse.down()
    overview.mouse.move(sheet["x"] - 40, field["y"] + 10)
    overview.mouse.up()
    overview.mouse.click(sheet["x"] + 6, sheet["y"] + 6)
    expect(name).to_have_value("Web shop")
    overview.mouse.click(sheet["x"] - 40, sheet["y"] + 6)
    expect(dialog).to_be_hidden()


def test_hovering_a_chart_moves_nothing(overview: Page, hookline: Hookline) -> None:
    """The numbers under the pointer stand where the newest stood."""
    hookline.track("Seen by the chart")
    overview.goto("/")
    plot = overview.locator("[data-plot]").first
    expect(plot.locator("canvas")).to_be_visible()
    before = overview.evaluate(
        "[...document.querySelectorAll('[data-plot]')].map(each => each.getBoundingClientRect().top)"
    )
    plot.hover(position={"x": 200, "y": 60})
    expect(overview.locator(".legend .when").first).not_to_be_empty()
    after = overview.evaluate(
        "[...document.querySelectorAll('[data-plot]')].map(each => each.getBoundingClientRect().top)"
    )
    assert after == before


def test_a_url_that_will_be_refused_says_so_at_once(overview: Page) -> None:
    """Below the field, before anything is saved, with what to set; a better one takes it away."""
    overview.goto("/destinations/new")
    field = overview.get_by_label("Webhook URL").first
    field.fill("http://10.0.0.1/hook")
    field.press("Tab")
    said = overview.locator("[data-url-check]").first
    expect(said).to_contain_text("10.0.0.1 is not a public address")
    expect(said).to_contain_text("deliver.allow_networks")
    field.fill("http://127.0.0.1:9/hook")  # this service allows it
    field.press("Tab")
    expect(said).to_have_text("")
