"""The live debugger: what comes is seen, held while one reads, found again, and never left out unsaid."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.service.files.place import files
from tests.service.harness import WRITE_KEY, Hookline, Receiver, Reply, new_id, wait_until, webhook
from tests.ui.conftest import CONTRAST, sign_in, viewing


@pytest.fixture
def debugger(page: Page, hookline: Hookline) -> Page:
    """The debugger, signed in and live, of the source's events of this test's user."""
    sign_in(page, hookline)
    page.goto("/events")
    page.locator("#light[data-state=good]").wait_for()
    return page


def rows(page: Page, text: str = "") -> Locator:
    """The rows of events that hold a text."""
    return page.locator("event-list [role=option]", has_text=text)


def test_an_event_comes_in_and_its_status_follows(debugger: Page, hookline: Hookline, receiver: Receiver) -> None:
    """A new event is on top at once; while its receiver fails it says so, and it turns to delivered by itself."""
    receiver.reply_with(503)
    hookline.track("Seen at once", userId="watched")
    row = rows(debugger, "Seen at once")
    expect(row).to_contain_text("retrying")
    name = hookline.api("GET", "sources/site").json["name"]  # another test may have changed it
    expect(row.locator(".event-source")).to_have_text(name)
    expect(row.locator(".event-source")).to_have_attribute("title", "site")
    row.click()
    expect(debugger.locator("event-detail")).to_contain_text("server error 503")
    expect(debugger.locator("event-detail").get_by_role("link", name=name, exact=True)).to_be_visible()
    receiver.reply_with(200)
    expect(row).to_contain_text("delivered")
    expect(debugger.locator("event-detail .statuses")).to_contain_text("success 200")
    assert debugger.evaluate(CONTRAST) == []


def test_what_the_page_looks_at_by_itself_is_no_use_of_the_session(
    debugger: Page, hookline: Hookline, receiver: Receiver
) -> None:
    """Events that wait are looked at again and again: a page that was left open would never be signed out."""
    receiver.reply_with(503)
    try:
        waits = hookline.track("Waits")
        with debugger.expect_request(f"**/api/v1/events/{waits}?*") as looked:
            pass
    finally:
        receiver.reply_with(200)
    assert looked.value.headers["x-parts"] == "1"


def test_what_is_pressed_is_picked_though_rows_move_on(debugger: Page, hookline: Hookline) -> None:
    """A new event moves the rows, and a status makes a row anew, between the press and its end."""
    mark = new_id("press")
    debugger.get_by_label("Text").fill(mark)
    expect(debugger).to_have_url(re.compile(mark))  # from here on the list is the filtered one
    hookline.track("Meant", properties={"at": mark})
    expect(rows(debugger, "Meant")).to_contain_text("delivered")
    rows(debugger, "Meant").hover()
    debugger.mouse.down()
    hookline.track("In between", properties={"at": mark})
    expect(rows(debugger, "In between")).to_contain_text("delivered")
    anew = """list => {
        list.refresh(list.visible.find(item => item.name === 'Meant'));
        return list.querySelectorAll('.event-row').length;
    }"""
    assert debugger.locator("event-list").evaluate(anew) == 2  # the row is there all the time
    debugger.mouse.up()
    expect(debugger.locator("event-detail h2")).to_contain_text("Meant")


def test_filters_are_the_address_and_the_server_leaves_out_the_rest(debugger: Page, hookline: Hookline) -> None:
    """Text, name and status narrow what was and what comes; the address opens the same list again."""
    mark = new_id("find")
    hookline.track("Kept", userId="a", properties={"card": mark.upper()})
    hookline.track("Other", userId="b")
    debugger.get_by_label("Text").fill(mark)
    expect(rows(debugger)).to_have_count(1)
    hookline.track("Comes later", properties={"deep": [mark]})
    hookline.track("Never shown")
    expect(rows(debugger)).to_have_count(2)
    assert f"text={mark}" in debugger.url
    debugger.reload()
    expect(rows(debugger)).to_have_count(2)
    debugger.get_by_label("Event name").fill("Kept")
    expect(rows(debugger)).to_have_count(1)
    debugger.get_by_label("Status").select_option("rejected")
    expect(debugger.get_by_role("heading", name="No event matches")).to_be_visible()


def test_a_slow_search_goes_on_until_it_finds_something(debugger: Page, hookline: Hookline) -> None:
    """An answer without events and with a cursor is not the end: nobody reads that no event matches before it is."""
    mark = new_id("far")
    hookline.track("Found in the end", properties={"at": mark})
    held: list[Route] = []
    debugger.route("**/api/v1/events?*", lambda route: held.append(route))
    with debugger.expect_request(f"**/api/v1/events?*{mark}*"):
        debugger.get_by_label("Text").fill(mark)
    for number in range(3):
        expect(debugger.locator("[data-said]")).to_have_text("Searching older events…" if number else "Loading…")
        expect(debugger.get_by_text("No event matches")).to_be_hidden()
        with debugger.expect_request(f"**&after=page{number}"):
            held.pop().fulfill(json={"items": [], "after": f"page{number}"})
    expect(rows(debugger)).to_have_count(0)
    last = held.pop()
    last.continue_(url=last.request.url.replace("&after=page2", ""))
    expect(rows(debugger, "Found in the end")).to_be_visible()
    debugger.unroute("**/api/v1/events?*")
    debugger.get_by_label("Text").fill(new_id("nowhere"))
    expect(debugger.get_by_text("No event matches")).to_be_visible()


def test_a_search_that_failed_is_made_again(debugger: Page, hookline: Hookline) -> None:
    """While the server cannot answer, nobody reads that no event matches; what is there is shown once it can."""
    mark = new_id("again")
    hookline.track("Was there all along", properties={"at": mark})
    debugger.route(f"**/api/v1/events?*{mark}*", lambda route: route.fulfill(status=503, json={}))
    debugger.get_by_label("Text").fill(mark)
    said = debugger.locator("[data-said]")
    expect(said).to_have_text("The events before could not be read. Trying again…")
    expect(debugger.get_by_text("No event matches")).to_be_hidden()
    debugger.route(f"**/api/v1/events?*{mark}*", lambda route: route.abort())
    with debugger.expect_event("requestfailed"):
        pass
    debugger.unroute_all()
    expect(rows(debugger, "Was there all along")).to_be_visible()
    expect(said).to_have_text("1 shown")


def pick_far_down(page: Page, hookline: Hookline) -> str:
    """Pick an event far down, on what was loaded piece by piece; return the user of all of them."""
    mark = new_id("back")
    batch = [{"type": "track", "userId": mark, "event": f"Number {number:03}."} for number in range(160)]
    hookline.post("/v1/batch", {"batch": batch})
    page.goto(f"/events?type=track&userId={mark}")
    expect(rows(page, "Number 159.")).to_be_visible()
    far_down = rows(page, "Number 020.")

    def is_far_down() -> bool:
        if not far_down.count():
            page.locator("event-list").hover()
            page.mouse.wheel(0, 300)
        return far_down.count() > 0

    wait_until(is_far_down)
    far_down.click()
    expect(page.locator("event-detail")).to_contain_text("Number 020.")
    return mark


def to_its_page(page: Page) -> None:
    """Go on to the page of the picked event."""
    page.get_by_role("link", name="Show full history").click()
    page.locator("#message-id").wait_for()


def test_who_comes_back_finds_the_filters_the_place_and_the_picked_event(debugger: Page, hookline: Hookline) -> None:
    """Also far down, on what was loaded piece by piece."""
    mark = pick_far_down(debugger, hookline)
    before = rows(debugger, "Number 020.").bounding_box()
    to_its_page(debugger)
    hookline.track("Number 160.", userId=mark)
    debugger.go_back()
    expect(debugger.locator("event-detail")).to_contain_text("Number 020.")
    wait_until(lambda: rows(debugger, "Number 020.").bounding_box() == before)
    expect(debugger.get_by_label("Type")).to_have_value("track")
    assert f"userId={mark}" in debugger.url
    expect(debugger.locator("[data-said]")).to_contain_text("Paused while you read below")


def test_who_comes_back_to_short_pages_finds_the_place_once_the_rows_below_are_there(
    debugger: Page, hookline: Hookline
) -> None:
    """A slow search gives less than was asked for, and may end just below the place: nothing can be scrolled there."""
    pick_far_down(debugger, hookline)
    before = rows(debugger, "Number 020.").bounding_box()
    to_its_page(debugger)
    debugger.route(
        "**/api/v1/events?*userId=*",
        lambda route: route.continue_(url=re.sub(r"limit=\d+", "limit=142", route.request.url)),
        times=1,
    )
    debugger.go_back()
    wait_until(lambda: rows(debugger, "Number 020.").bounding_box() == before, what="the place is found")


def test_who_comes_back_while_the_server_does_not_answer_finds_the_place_when_it_does(
    debugger: Page, hookline: Hookline
) -> None:
    """The list begins anew with its stream, before anything was read: where one was is not forgotten over it."""
    pick_far_down(debugger, hookline)
    to_its_page(debugger)
    debugger.route("**/api/v1/events/stream?*", lambda route: route.fulfill(status=503), times=1)
    debugger.route("**/api/v1/events?*userId=*", lambda route: None, times=1)  # read after the list began anew
    debugger.go_back()
    expect(debugger.locator("event-detail")).to_contain_text("Number 020.")
    expect(debugger.locator("[data-said]")).to_contain_text("Paused while you read below")


def test_rows_say_how_many_have_got_it_and_what_an_identify_call_sets(
    debugger: Page, hookline: Hookline, receiver: Receiver
) -> None:
    """One destination that fails does not speak for the others; a range and a destination are in the address."""
    picky = hookline.api("POST", "destinations", webhook("picky", receiver.url("/picky"), name="Picky"))
    assert picky.status == 201
    try:
        receiver.respond = lambda request: Reply(503 if request.path == "/picky" else 200)
        mark = new_id("marks")
        body = f'{{"userId": "u1", "traits": {{"plan": "{mark}", "balance": 12.50}}}}'
        assert hookline.post("/v1/identify", body.encode()).status == 200
        debugger.goto(f"/events?text={mark}&range=1h")
        row = rows(debugger)
        expect(row).to_contain_text(f"plan: {mark}, balance: 12.50")
        expect(row).to_contain_text("1 of 2 delivered")
        expect(row.locator(".event-status")).to_have_attribute("title", re.compile("picky (retrying|queued)"))
        debugger.get_by_label("Destination").select_option("picky")
        debugger.get_by_label("Status").select_option("delivered")
        expect(debugger.get_by_role("heading", name="No event matches")).to_be_visible()
        debugger.get_by_label("Status").select_option("")
        expect(debugger).to_have_url(re.compile(r"text=[^&]+&destination=picky&range=1h$"))
        expect(row).to_have_count(1)
        with debugger.expect_download() as file:
            debugger.get_by_role("link", name="CSV").click()
        assert file.value.path().read_text().splitlines()[1].endswith(("picky: retrying", "picky: queued"))
        debugger.get_by_label("To", exact=True).fill("2020-01-01T00:00:00")
        debugger.get_by_label("Accepted within").select_option("")
        expect(debugger.get_by_role("heading", name="No event matches")).to_be_visible()
        debugger.reload()
        expect(debugger.get_by_label("To", exact=True)).to_have_value(re.compile("^2020-01-01T00:00"))
        expect(debugger.get_by_role("heading", name="No event matches")).to_be_visible()
    finally:
        receiver.reply_with(200)
        hookline.api("DELETE", "destinations/picky?waiting=discard")


def test_a_page_without_a_name_is_shown_by_its_path(debugger: Page, hookline: Hookline) -> None:
    """In the list, on its own page and where a test picks an event, as nearly no website names its pages."""
    path = f"/{new_id('pricing')}"
    properties = {"path": path, "url": f"https://a.example{path}", "title": "Pricing"}
    sent = hookline.post("/v1/page", {"anonymousId": "a1", "properties": properties})
    debugger.goto(f"/events?text={path}")
    expect(rows(debugger)).to_contain_text(f"page{path}")
    debugger.goto(f"/events/{sent.json['messageId']}")
    expect(debugger.get_by_role("heading", name=path)).to_be_visible()
    debugger.goto("/destinations/crm/tester")
    expect(debugger.get_by_label("Start with").locator("option", has_text=f"page {path}")).to_have_count(1)


def test_beside_the_list_each_destination_says_why_it_does_not_get_the_event(
    debugger: Page, hookline: Hookline, receiver: Receiver
) -> None:
    """In the words of the event's page; many of them are folded, and stay unfolded while the status changes."""
    others = ["off", *(f"apart-{number}" for number in range(5))]
    for id in others:
        sources = ["site"] if id == "off" else []
        made = {**webhook(id, receiver.url(), name=id), "sources": sources, "enabled": id != "off"}
        assert hookline.api("POST", "destinations", made).status == 201
    try:
        mark = new_id("apart")
        hookline.wait_status(hookline.track(mark), "crm", "delivered")
        debugger.goto(f"/events?text={mark}")
        rows(debugger, mark).click()
        statuses = debugger.locator("event-detail .statuses").first
        expect(statuses.locator("> li").first).to_contain_text("crm")
        statuses.get_by_text(re.compile(r"^\d+ other destinations do not get it$")).click()
        off = statuses.locator("li li", has_text="off")
        expect(off).to_contain_text("the destination was disabled when the event arrived")
        expect(statuses.locator("li li", has_text="apart-4")).to_contain_text("is not connected to the event's source")
        debugger.get_by_role("link", name="Show full history").click()
        expect(debugger.get_by_text("the destination was disabled when the event arrived")).to_be_visible()
    finally:
        for id in others:
            hookline.api("DELETE", f"destinations/{id}?waiting=discard")


def test_it_holds_still_while_one_reads(debugger: Page, hookline: Hookline) -> None:
    """Pause, scrolling and selected text hold the list, and what came meanwhile is counted and comes at the end."""
    mark = new_id("hold")
    debugger.get_by_label("Text").fill(mark)
    for shown in (15, 30):  # of more at once only the newest would be shown
        batch = [{"type": "track", "userId": "u1", "event": f"{mark} {number}"} for number in range(15)]
        hookline.post("/v1/batch", {"batch": batch})
        expect(debugger.get_by_text(f"{shown} shown")).to_be_visible()
    debugger.locator("event-list").focus()
    debugger.keyboard.press("Space")
    hookline.track(f"{mark} paused")
    expect(debugger.get_by_text("Paused; 1 new")).to_be_visible()
    assert rows(debugger, "paused").count() == 0
    debugger.get_by_role("button", name="Show 1 new").click()
    expect(rows(debugger, f"{mark} paused")).to_be_visible()
    debugger.locator("event-list").evaluate("list => { list.scrollTop = 200; }")
    hookline.track(f"{mark} scrolled")
    expect(debugger.get_by_text("Paused while you read below; 1 new")).to_be_visible()
    debugger.locator("event-list").evaluate("list => { list.scrollTop = 0; }")
    expect(debugger.get_by_text("32 shown")).to_be_visible()
    debugger.locator("event-list").evaluate("list => { list.scrollTop = 200; }")
    expect(debugger.get_by_text("Paused while you read below; 0 new")).to_be_visible()
    hookline.track(f"{mark} below")
    debugger.get_by_role("button", name="Show 1 new").click()
    expect(debugger.get_by_text("33 shown")).to_be_visible()
    expect(rows(debugger, f"{mark} below")).to_be_in_viewport()
    debugger.evaluate("getSelection().selectAllChildren(document.querySelector('[role=option]'))")
    expect(debugger.get_by_text("Paused while text is selected")).to_be_visible()


def test_the_keyboard_walks_and_the_three_views(debugger: Page, hookline: Hookline) -> None:
    """j and k pick, the raw view is byte for byte what was sent, another is the request, Enter opens the event."""
    debugger.context.grant_permissions(["clipboard-read", "clipboard-write"])
    mark = new_id("walk")
    body = f'{{"userId": "u1",\r\n  "event":"{mark}", "messageId": "{mark}", "n": 12345678901234567890.10}}'
    hookline.post("/v1/track", body.encode(), headers={"Content-Type": "application/json"})
    debugger.get_by_label("Text").fill(mark)
    expect(rows(debugger)).to_have_count(1)
    debugger.locator("event-list").focus()
    debugger.keyboard.press("j")
    detail = debugger.locator("event-detail")
    expect(detail.locator("json-tree")).to_contain_text("n: 12345678901234567890.10")
    detail.get_by_role("tab", name="Raw").click()
    expect(detail.locator("pre")).to_be_visible()
    assert detail.locator("pre").evaluate("each => each.textContent") == body
    detail.get_by_role("button", name="Copy as curl").click()
    expect(detail.get_by_role("button", name="Copied")).to_be_visible()
    line = debugger.evaluate("navigator.clipboard.readText()")
    assert f"/v1/track' -u '{WRITE_KEY}:'" in line
    assert json.dumps(mark)[1:-1] in line
    detail.get_by_role("tab", name="Request").click()
    expect(detail.locator(".as-sent")).to_contain_text(f"X-Message-Id: {mark}")
    debugger.locator("event-list").focus()
    debugger.keyboard.press("Enter")
    expect(debugger.locator("#message-id")).to_have_text(mark)


def test_a_viewer_hears_who_sees_requests(browser: Browser, hookline: Hookline, origin: str) -> None:
    """Nothing is asked for them that is refused."""
    mark = new_id("seen")
    hookline.track(mark)
    with viewing(browser, hookline, origin) as theirs:
        refused: list[str] = []
        theirs.on("response", lambda answer: refused.append(answer.url) if answer.status >= 400 else None)
        theirs.goto(f"/events?text={mark}")
        rows(theirs).first.click()
        theirs.get_by_role("tab", name="Request").click()
        expect(theirs.locator(".detail-view")).to_contain_text("Your role is viewer. Editors see here which requests")
        assert refused == []


@pytest.mark.parametrize("screen", [(1280, "light"), (390, "light")])
def test_the_picked_event_is_closed_by_its_button_and_by_escape(debugger: Page, hookline: Hookline) -> None:
    """But not by an Escape that closes a dialog or clears a field: that one stays where it is."""
    mark = new_id("close")
    hookline.track(mark)
    field, detail = debugger.get_by_label("Text"), debugger.locator("event-detail")
    field.fill(mark)
    expect(debugger).to_have_url(re.compile(mark))  # from here on the list is the filtered one
    rows(debugger, mark).click()
    detail.get_by_role("button", name="Close details").click()
    expect(detail).to_be_hidden()
    expect(debugger.locator("event-list")).to_be_focused()
    rows(debugger, mark).click()
    expect(detail).to_be_visible()
    debugger.keyboard.press("Control+k")
    expect(debugger.locator("dialog[open]")).to_have_count(1)
    debugger.keyboard.press("Escape")
    expect(debugger.locator("dialog[open]")).to_have_count(0)
    expect(detail).to_be_visible()
    field.press("Escape")
    expect(field).to_be_focused()
    expect(detail).to_be_visible()
    debugger.locator("event-list").focus()
    debugger.keyboard.press("Escape")
    expect(detail).to_be_hidden()


def test_the_request_is_shown_where_one_was_due(debugger: Page, hookline: Hookline, receiver: Receiver) -> None:
    """Not of an event that was filtered; a destination without requests says so, and what is left out is counted."""
    mark = new_id("due")
    drop = {"if": f'event = "{mark}"', "do": "drop"}
    made = [webhook("picky", receiver.url(), filters=[drop]), files("archive")]
    made += [webhook(f"due-{number}", receiver.url()) for number in range(5)]
    try:
        for each in made:
            assert hookline.api("POST", "destinations", each).status == 201
        hookline.wait_status(hookline.track(mark), "due-4", "delivered")
        debugger.goto(f"/events?text={mark}")
        rows(debugger, mark).click()
        debugger.get_by_role("tab", name="Request").click()
        view = debugger.locator(".detail-view")
        expect(view).to_contain_text("Made with the current settings.")
        expect(view.locator("h3", has_text="archive")).to_be_visible()
        expect(view).to_contain_text("No HTTP request.")
        expect(view).to_contain_text("2 more destinations")
        expect(view.locator("h3", has_text="picky")).to_have_count(0)
    finally:
        for each in made:
            hookline.api("DELETE", f"destinations/{each['id']}?waiting=discard")


def test_a_view_is_saved_found_and_deleted(debugger: Page, hookline: Hookline) -> None:
    """What the address holds at that moment, under a name; the list shows it again."""
    debugger.get_by_label("Type").select_option("track")
    debugger.wait_for_url("**/events?type=track")
    debugger.get_by_text("Views", exact=True).click()
    expect(debugger.get_by_text("No saved views of this list yet.")).to_be_visible()
    debugger.get_by_label("Save the current view as").fill("Only <b>track</b>")
    debugger.get_by_role("button", name="Save view").click()
    link = debugger.get_by_role("link", name="Only <b>track</b>")
    expect(link).to_be_visible()
    assert debugger.evaluate(CONTRAST) == []
    debugger.goto("/events")
    debugger.get_by_text("Views", exact=True).click()
    link.click()
    debugger.wait_for_url("**/events?type=track")
    debugger.get_by_text("Views", exact=True).click()
    debugger.get_by_role("button", name="Delete Only").click()
    expect(debugger.get_by_text("No saved views of this list yet.")).to_be_visible()
    assert hookline.api("GET", "views").json["items"] == []
