"""Destinations: made, watched, filtered, tried, mended and put away, all from the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.service.harness import Hookline, Receiver, Reply, Request, wait_until, webhook
from tests.ui.conftest import sign_in, viewing


@pytest.fixture(scope="module")
def picky() -> Iterator[Receiver]:
    """A receiver that takes everything but refused events, and sends others away for ten minutes, once each."""
    sent_away: set[str] = set()

    def respond(request: Request) -> Reply:
        name = request.json.get("event", "")
        if name == "Busy" and request.message_id not in sent_away:
            sent_away.add(request.message_id)
            return Reply(503, headers={"Retry-After": "600"})
        return Reply(400, b"no such field: <b>total</b>") if name == "Refused" else Reply()

    with Receiver() as running:
        running.respond = respond
        yield running


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory, picky: Receiver) -> Iterator[Hookline]:
    """A service of these tests' own, with one signed destination."""
    crm = webhook("crm", picky.url(), secret="the-secret", headers={"X-Team": "sales"}, name="CRM")
    with Hookline(tmp_path_factory.mktemp("destinations") / "h", [crm]) as running:
        yield running


@pytest.fixture
def signed_in(page: Page, hookline: Hookline) -> Page:
    """A page, signed in."""
    sign_in(page, hookline)
    return page


def test_a_destination_is_made_found_and_deleted(signed_in: Page, hookline: Hookline, picky: Receiver) -> None:
    """The form names what is wrong at its field, makes it with headers and secret, and a typed name deletes it."""
    page = signed_in
    page.goto("/destinations")
    page.get_by_role("link", name="Add destination").first.click()
    page.get_by_label("Name").fill("Second")
    page.locator("[name=id]").fill("second one")
    page.get_by_label("Webhook URL").first.fill(picky.url("/second"))
    page.get_by_label("Headers").first.fill("X-Key: k1\nX-Other: two")
    page.get_by_label("Shared secret").fill("s3cret-of-second")
    page.get_by_label("Site").check()
    page.get_by_role("button", name="Add destination").click()
    expect(page.locator(".field", has=page.locator("[name=id]")).locator("[data-error]")).not_to_be_empty()
    page.locator("[name=id]").fill("second")
    page.get_by_role("button", name="Add destination").click()
    expect(page.get_by_role("heading", name="The event")).to_be_visible()
    made = hookline.api("GET", "destinations/second").json
    assert made["settings"]["webhooks"][0]["headers"] == {"X-Key": "…", "X-Other": "two"}
    assert made["sources"] == ["site"]
    page.goto("/destinations?search=SECOND")
    expect(page.locator("table.list tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Second").click()
    page.get_by_role("link", name="Settings", exact=True).last.click()
    page.get_by_role("button", name="Delete").first.click()
    button = page.get_by_role("dialog").get_by_role("button", name="Delete")
    expect(button).to_be_disabled()
    page.get_by_label("Type second to continue").fill("second")
    button.click()
    expect(page.locator("table.list tbody tr")).to_have_count(1)
    assert hookline.api("GET", "destinations/second").status == 404


def test_settings_are_changed_and_a_secret_rotates(signed_in: Page, hookline: Hookline) -> None:
    """A second URL and a rate are saved, masked headers stay, and the new secret is shown once and nowhere else."""
    page = signed_in
    page.goto("/destinations/crm/settings")
    page.get_by_role("button", name="Add a URL").click()
    page.locator("[name='settings.webhooks.1.url']").fill("ftp://second.example/hook")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("fieldset", has_text="URL 2").locator("[data-error]").first).not_to_be_empty()
    page.locator("[name='settings.webhooks.1.url']").fill("https://second.example/hook")
    page.get_by_label("At most per second").first.fill("50")
    page.get_by_role("button", name="Save").click()
    wait_until(lambda: hookline.api("GET", "destinations/crm").json["delivery"]["maxRate"] == 50, what="saved")
    page.get_by_role("button", name="Rotate secret").click()
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    secret = page.locator("#new-secret").text_content()
    assert secret
    page.get_by_role("dialog").get_by_role("button", name="Close").click()  # it cannot be cancelled any more
    expect(page.get_by_text("rotating")).to_be_visible()
    expect(page.get_by_role("button", name="Rotate secret")).to_be_focused()
    page.get_by_text("How to verify X-Signature").click()
    expect(page.get_by_role("tab", name="PHP")).to_be_visible()
    page.reload()
    assert secret not in page.content()
    hookline.api(
        "PATCH",
        "destinations/crm",
        {"settings": {"webhooks": [{"url": hookline.destinations[0]["settings"]["webhooks"][0]["url"]}]}},
    )
    hookline.api("POST", "destinations/crm/end-overlap", {})


def test_pausing_says_what_happens_and_resuming_sends(signed_in: Page, hookline: Hookline, picky: Receiver) -> None:
    """Paused with a reason that is shown, events wait; resumed, they are sent."""
    page = signed_in
    page.goto("/destinations/crm")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("dialog")).to_contain_text("New events are queued")
    page.get_by_label("Reason").fill("<b>maintenance</b>")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator(".destination-head .line")).to_contain_text("Paused")
    expect(page.locator(".destination-head .line bdi")).to_have_text("<b>maintenance</b>")
    standing = "destinations/crm/metrics"
    wait_until(lambda: hookline.api("GET", standing).json["state"] == "paused", what="deliver has heard of it")
    message_id = hookline.track("While paused")
    hookline.wait_status(message_id, "crm", "queued", reason="paused")
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    hookline.wait_status(message_id, "crm", "delivered")
    expect(page.locator(".destination-head")).to_contain_text("Healthy")


def test_what_a_press_has_done_is_said_in_view(signed_in: Page, hookline: Hookline, picky: Receiver) -> None:
    """Disabled at the page's foot, enabled at its head, deleted from the list: each is said in view and announced."""
    away = {**webhook("away", picky.url(), name="Warehouse"), "sources": []}
    hookline.api("POST", "destinations", away)
    page = signed_in
    page.goto("/destinations/away/settings")
    said = page.locator("[data-toast]")
    expect(said).to_have_role("status")
    for verb, message in (("Disable", "Warehouse is disabled."), ("Enable", "Warehouse is enabled.")):
        page.locator("main").get_by_role("button", name=verb, exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name=verb, exact=True).click()
        expect(said).to_contain_text(message)
        expect(said).to_be_in_viewport(ratio=1)
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_label("Type away to continue").fill("away")
    page.get_by_role("dialog", name="Delete Warehouse").get_by_role("button", name="Delete").click()
    page.wait_for_url("**/destinations")
    expect(said).to_have_text("Warehouse is deleted.")


def test_what_waits_is_tried_now(signed_in: Page, hookline: Hookline) -> None:
    """Where an event waits for another attempt, saved settings offer a button, which says first what it will do."""
    message_id = hookline.track("Busy")
    hookline.wait_status(message_id, "crm", "retrying")
    page = signed_in
    page.goto("/destinations/crm/settings")
    form = page.locator("form", has=page.get_by_label("Webhook URL"))
    expect(form.get_by_role("button", name="Try now")).to_be_hidden()
    page.get_by_label("At most per second").first.fill("60")
    form.get_by_role("button", name="Save").click()
    expect(form).to_contain_text("Saved")
    expect(form.locator("[data-offered]")).to_contain_text("1 event waits for a retry.")
    signing = page.locator(".thing", has=page.get_by_role("heading", name="X-Signature"))
    for press, done in (("Stop signing", "no longer carry the signature"), ("Start signing", "are signed with")):
        signing.get_by_role("button", name=press).click()  # the dialog is gone with what it said
        dialog = page.get_by_role("dialog")
        if press == "Start signing":
            dialog.get_by_label("Shared secret").fill("the-secret")
        dialog.locator("button:not([type=button])").click()
        said = re.compile(rf"{done}.*1 event waits for a retry\.\s+Try now")
        expect(page.locator("[data-toast]")).to_contain_text(said)
    form.get_by_role("button", name="Try now").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("the event that waits for a retry at once")
    dialog.get_by_role("button", name="Try now").click()
    hookline.wait_status(message_id, "crm", "delivered")
    expect(form.locator("[data-offered]")).to_be_empty()
    hookline.api("PATCH", "destinations/crm", {"delivery": {"maxRate": None}})


def test_what_was_delivered_before_it_was_tried_is_said(signed_in: Page, hookline: Hookline) -> None:
    """While the question stands open the event arrives: the answer to it says so, calmly, and the page goes on."""

    def retrying() -> int:
        return int(hookline.api("GET", "destinations/crm/metrics").json["figures"]["retrying"])

    message_id = hookline.track("Busy")
    hookline.wait_status(message_id, "crm", "retrying")
    page = signed_in
    page.goto("/destinations/crm")
    page.get_by_role("button", name="Try now").click()
    expect(page.get_by_role("dialog")).to_contain_text("the event that waits for a retry")
    hookline.api("POST", "destinations/crm/try")
    hookline.wait_status(message_id, "crm", "delivered")
    wait_until(lambda: retrying() == 0, what="nothing waits")
    page.get_by_role("dialog").get_by_role("button", name="Try now").click()
    said = page.locator("[data-toast]")
    expect(said).to_contain_text("No event waits for crm now. The last one was delivered at")
    expect(said).not_to_have_text(re.compile(r"\dT\d"))  # the reader's clock, not ours
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_role("button", name="Try now")).to_have_count(0)


def test_what_came_before_a_destination_was_connected_is_said(
    signed_in: Page, hookline: Hookline, picky: Receiver
) -> None:
    """Its figures count from then on; the events from before have a line, and a replay that is filled in."""
    first = hookline.track("Early")
    hookline.wait_status(first, "crm", "delivered")
    hookline.api("POST", "destinations", webhook("late", picky.url(), name="Late"))
    page = signed_in
    page.goto("/destinations/late")
    line = page.locator("[data-part=way] .hint")
    expect(line).to_contain_text("came before it was connected. Only a replay sends")
    line.get_by_role("link", name="Replay").click()
    expect(page.get_by_label("Accepted before")).not_to_have_value("")
    expect(page.get_by_label("Source")).to_have_value("site")
    page.get_by_role("button", name="Count first").click()
    expect(page.locator("[data-counted]")).to_contain_text("would be sent again")
    hookline.api("DELETE", "destinations/late")


def test_filters_are_built_tried_and_saved(signed_in: Page, hookline: Hookline) -> None:
    """Clauses and text say the same, recent events tell what it would do, and what is wrong is said at its filter."""
    for name in ("Heartbeat", "Heartbeat", "Order"):
        hookline.track(name, properties={"card": "4711"})
    page = signed_in
    page.goto("/destinations/crm/filters")
    expect(page.locator("filter-test")).to_contain_text("Matched 0 of")
    page.get_by_role("button", name="Add a filter").click()
    page.get_by_role("button", name="Add a clause").click()
    page.get_by_label("Field", exact=True).last.fill("event")
    page.get_by_label("Value").last.fill("Heartbeat")
    expect(page.locator("filter-builder")).to_contain_text("matches 2")
    expect(page.locator("filter-test")).to_contain_text("Matched 2 of")
    page.get_by_role("button", name="Edit as text").click()
    text = page.get_by_label("Condition")
    expect(text).to_have_value('type = "track" and event = "Heartbeat"')
    expect(text).to_be_focused()
    text.fill("lenght(event) > 3")
    expect(page.locator(".filter-row .error")).to_contain_text("lenght")
    text.fill('not (event = "Heartbeat")')
    page.get_by_label("Action").select_option("dropProperties")
    page.get_by_label("Fields").fill("properties.card")
    expect(page.locator("filter-test .sample").first).to_contain_text("sent with fields removed")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. Applies")).to_be_visible()
    saved = hookline.api("GET", "destinations/crm").json["filters"]
    assert saved == [{"if": 'not (event = "Heartbeat")', "do": "dropProperties", "properties": ["properties.card"]}]
    hookline.api("PATCH", "destinations/crm", {"filters": []})


def test_filters_are_built_with_the_keyboard_and_saved_once(signed_in: Page, hookline: Hookline) -> None:
    """The focus stays where it was, or near by once its control is gone; a double click on Save saves once."""
    page = signed_in
    page.goto("/destinations/crm/filters")
    add = page.get_by_role("button", name="Add a filter")
    add.click()
    page.get_by_label("Action").press("s")  # the only choice that begins with it
    expect(page.get_by_label("Percent")).to_be_visible()
    expect(page.get_by_label("Action")).to_be_focused()
    clause = page.get_by_role("button", name="Add a clause")
    clause.press("Enter")
    expect(page.get_by_label("Value")).to_have_count(2)
    expect(clause).to_be_focused()
    for left in (1, 0):
        page.get_by_role("button", name="Remove this clause").last.press("Enter")
        expect(page.get_by_label("Value")).to_have_count(left)
    expect(clause).to_be_focused()
    page.get_by_role("button", name="Edit as text").press("Enter")
    expect(page.get_by_label("Condition")).to_be_focused()
    page.get_by_role("button", name="Visual editor").press("Enter")
    expect(page.get_by_role("button", name="Edit as text")).to_be_focused()
    asked: list[str] = []
    page.on("request", lambda each: asked.append(each.method) if each.url.endswith("/destinations/crm") else None)
    page.get_by_role("button", name="Save").evaluate("each => { each.click(); each.click(); }")
    expect(page.get_by_text("Saved. Applies")).to_be_visible()
    assert asked == ["GET", "PATCH"]
    expect(page.locator("filter-builder [role=alert]")).to_be_empty()
    page.get_by_role("button", name="Remove", exact=True).press("Enter")
    expect(add).to_be_focused()
    hookline.api("PATCH", "destinations/crm", {"filters": []})


def test_another_comparison_keeps_the_type_of_a_value(signed_in: Page, hookline: Hookline) -> None:
    """A text that looks like a number stays a text, and a number is one again after it was searched for as a text."""
    condition = 'properties.zip = "10115" and properties.rooms = 3'
    hookline.api("PATCH", "destinations/crm", {"filters": [{"if": condition, "do": "drop"}]})
    page = signed_in
    page.goto("/destinations/crm/filters")
    page.get_by_label("Comparison").first.select_option("!=")
    page.get_by_label("Comparison").last.select_option("contains")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. Applies")).to_be_visible()
    searched = 'properties.zip != "10115" and contains(properties.rooms, "3")'
    assert hookline.api("GET", "destinations/crm").json["filters"][0]["if"] == searched
    page.get_by_label("Comparison").last.select_option(">")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. Applies")).to_be_visible()
    compared = 'properties.zip != "10115" and properties.rooms > 3'
    assert hookline.api("GET", "destinations/crm").json["filters"][0]["if"] == compared
    hookline.api("PATCH", "destinations/crm", {"filters": []})


@pytest.mark.parametrize("number", ["9007199254740993", "1.50", "1e3"])
def test_a_number_that_a_browser_would_write_otherwise_is_edited_as_text(
    signed_in: Page, hookline: Hookline, number: str
) -> None:
    """Clauses would round it while somebody changes another one."""
    condition = f'properties.id = {number} and event = "Order"'
    hookline.api("PATCH", "destinations/crm", {"filters": [{"if": condition, "do": "drop"}]})
    signed_in.goto("/destinations/crm/filters")
    expect(signed_in.get_by_label("Condition")).to_have_value(condition)
    expect(signed_in.get_by_role("button", name="Visual editor")).to_be_hidden()
    hookline.api("PATCH", "destinations/crm", {"filters": []})


def test_filters_of_somebody_else_are_not_saved_over(signed_in: Page, hookline: Hookline) -> None:
    """Refuse it to whoever opened the page before them; whatever else happened to the destination is no reason."""
    page = signed_in
    page.goto("/destinations/crm/filters")
    for action in ("pause", "resume"):
        hookline.api("POST", f"destinations/crm/{action}", {})
    page.get_by_role("button", name="Add a filter").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. Applies")).to_be_visible()
    theirs = [{"if": "true", "do": "dropProperties", "properties": ["properties.card"]}]
    hookline.api("PATCH", "destinations/crm", {"filters": theirs})
    page.get_by_role("button", name="Add a filter").click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("filter-builder [role=alert]")).to_contain_text("Somebody else has changed this")
    assert hookline.api("GET", "destinations/crm").json["filters"] == theirs
    hookline.api("PATCH", "destinations/crm", {"filters": []})


def test_settings_of_somebody_else_are_not_saved_over(signed_in: Page, hookline: Hookline) -> None:
    """Refuse what somebody else has changed while it was typed; what the form does not have is no reason, nor is what
    it has saved itself."""
    page = signed_in
    page.goto("/destinations/crm/settings")
    before = hookline.api("GET", "destinations/crm").json
    form = page.locator("form", has=page.get_by_label("Name", exact=True))
    save = form.get_by_role("button", name="Save")
    try:
        page.get_by_label("Name", exact=True).fill("Mine")
        for action in ("pause", "resume"):
            hookline.api("POST", f"destinations/crm/{action}", {})
        save.click()
        expect(form.get_by_text("Saved")).to_be_visible()
        page.get_by_label("Name", exact=True).fill("Mine again")
        theirs = {"webhooks": [{"url": "https://theirs.example.com/hook", "headers": {}}]}
        hookline.api("PATCH", "destinations/crm", {"settings": theirs})
        save.click()
        expect(form.get_by_text("Somebody else has changed this")).to_be_visible()
        found = hookline.api("GET", "destinations/crm").json
        assert (found["name"], found["settings"]["webhooks"]) == ("Mine", theirs["webhooks"])
    finally:
        hookline.api(
            "PATCH",
            "destinations/crm",
            {"name": before["name"], "settings": {"webhooks": before["settings"]["webhooks"]}},
        )


def test_a_viewer_reads_filters_and_replays_without_controls(browser: Browser, hookline: Hookline, origin: str) -> None:
    """What the filters do is text; nothing is offered that would be refused."""
    hookline.api(
        "PATCH", "destinations/crm", {"filters": [{"if": 'event = "Heartbeat"', "do": "sample", "percent": 5}]}
    )
    with viewing(browser, hookline, origin) as page:
        page.goto("/destinations")
        expect(page.get_by_role("link", name="CRM")).to_be_visible()
        expect(page.get_by_role("link", name="Add destination")).to_have_count(0)
        page.goto("/destinations/crm/filters")
        expect(page.locator("filter-builder")).to_contain_text('if event = "Heartbeat"')
        expect(page.locator("filter-builder")).to_contain_text("send only 5 %")
        expect(page.locator("filter-builder :is(input, select, textarea, button)")).to_have_count(0)
        expect(page.locator("filter-test")).to_have_count(0)
        page.goto("/destinations/crm/replay")
        expect(page.get_by_text("Editors can send stored events again")).to_be_visible()
        expect(page.get_by_role("button", name="Count first")).to_have_count(0)
    hookline.api("PATCH", "destinations/crm", {"filters": []})


def test_the_tester_shows_the_request_and_the_answer(signed_in: Page, hookline: Hookline, picky: Receiver) -> None:
    """The request is there before it is sent; sent, the receiver's answer and its timings are."""
    page = signed_in
    page.goto("/destinations/crm/tester")
    expect(page.locator(".as-sent").first).to_contain_text("X-Signature:")
    page.get_by_label("JSON, as an SDK").fill('{"type": "track", "userId": "u1", "event": "Refused", "n": 1.10')
    expect(page.locator("[data-tester] [data-error]")).to_contain_text("not JSON")
    page.get_by_label("JSON, as an SDK").fill(
        '{"type": "track", "userId": "u1", "event": "Refused", "properties": {"n": 3}}'
    )
    expect(page.locator(".as-sent").first).to_contain_text('"n":3')
    before = len(picky.requests)
    page.get_by_role("button", name="Send test").click()
    expect(page.locator(".answer").first).to_contain_text("refused 400")
    expect(page.locator(".answer").first).to_contain_text("no such field: <b>total</b>")
    expect(page.locator(".answer").first).to_contain_text("connect")
    assert len(picky.requests) > before


def test_an_answer_is_shown_though_something_was_chosen_meanwhile(signed_in: Page, hookline: Hookline) -> None:
    """The test was really sent; only the button says what it would send now."""
    page = signed_in
    page.goto("/destinations/crm/tester")
    page.get_by_label("Start with").select_option("sample:track")
    expect(page.locator(".as-sent").first).to_contain_text('"type":"track"')
    held: list[Route] = []

    def hold(route: Route) -> None:
        if route.request.post_data_json["dryRun"]:
            route.continue_()
        else:
            held.append(route)

    page.route("**/destinations/crm/test", hold)
    with page.expect_request("**/destinations/crm/test"):
        page.get_by_role("button", name="Send test").click()
    page.get_by_label("Start with").select_option("sample:delete")
    (sent,) = held
    sent.continue_()
    expect(page.get_by_role("button", name="Send delete message")).to_be_visible()
    expect(page.get_by_role("heading", name="The answer")).to_be_visible()
    expect(page.locator(".as-sent").first).to_contain_text('"type":"track"')


def test_dead_letters_are_looked_at_retried_and_discarded(
    signed_in: Page, hookline: Hookline, picky: Receiver, tmp_path: Path
) -> None:
    """A cause leads to its dead letters; one is retried as a replay, the rest is discarded after the name is typed."""
    page = signed_in
    ids = [hookline.track("Refused") for _ in range(3)]
    for message_id in ids:
        hookline.wait_status(message_id, "crm", "failed")
    page.goto("/destinations/crm/dead-letters?outcome=refused")
    expect(page.locator("table.list tbody tr")).to_have_count(3)
    kept = page.viewport_size
    assert kept
    for width in (390, 1280, 1920, 2560):
        page.set_viewport_size({"width": width, "height": kept["height"]})
        assert page.locator("td.grow").first.evaluate("cell => cell.offsetWidth") >= 160, width
    page.set_viewport_size(kept)
    page.get_by_role("link", name="Refused").first.click()
    expect(page.locator("table.attempts")).to_contain_text("refused 400")
    expect(page.locator("json-tree")).to_contain_text('event: "Refused"')
    hookline.api("POST", "destinations/crm/pause")
    page.get_by_role("button", name="Retry").click()
    page.get_by_role("dialog", name="Send it again").get_by_role("button", name="Retry").click()
    page.wait_for_url("**/replays/r*")
    replay = page.url.rpartition("/")[2]
    page.go_back()
    expect(page.locator("[data-part=letter]")).to_contain_text(f"◔ queued by the replay {replay}")
    hookline.api("POST", "destinations/crm/resume")
    page.goto(f"/replays/{replay}")
    expect(page.locator("main .mark").first).to_contain_text("done")
    page.goto("/destinations/crm/dead-letters?status=expired")
    expect(page.get_by_role("heading", name="No dead letters match")).to_be_visible()
    page.goto("/destinations/crm/dead-letters?status=failed&range=1h")
    expect(page.locator("table.list tbody tr")).to_have_count(3)
    with page.expect_download() as file:
        page.get_by_role("link", name="CSV").click()
    assert [line.split(",")[4] for line in file.value.path().read_text().splitlines()] == ["event", *["Refused"] * 3]
    page.get_by_role("checkbox", name="Select Refused").first.check()
    expect(page.locator("[data-picked]")).to_contain_text("1 dead letter selected")
    hookline.track("Delivered meanwhile")
    page.locator("[data-picked]").get_by_role("button", name="Discard").click()
    page.get_by_role("dialog", name="Discard the selected").get_by_role("button", name="Discard").click()
    expect(page.locator("table.list tbody tr")).to_have_count(2)
    expect(page.locator("[data-picked]")).to_be_hidden()
    kept = {each["messageId"] for each in hookline.api("GET", "dead-letters?destination=crm").json["items"]}
    assert len(kept) == 2
    assert kept < set(ids)
    page.get_by_text("From, to").click()
    page.get_by_label("To", exact=True).fill("2020-01-01T00:00:00")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", name="No dead letters match")).to_be_visible()
    assert "to=20" in page.url
    assert "status=failed" in page.url
    page.goto("/destinations/crm/dead-letters?status=failed")
    page.get_by_role("button", name="Discard all").first.click()
    page.get_by_label("Type crm to continue").fill("crm")
    page.get_by_role("dialog", name="Discard").get_by_role("button", name="Discard all").click()
    expect(page.get_by_text("No dead letters")).to_be_visible()


def test_a_replay_is_counted_before_it_is_sent(signed_in: Page, hookline: Hookline, picky: Receiver) -> None:
    """The count names the number, a few events and the time; only then it is sent, and the page follows it."""
    ids = [hookline.track("To replay") for _ in range(4)]
    hookline.wait_status(ids[-1], "crm", "delivered")
    page = signed_in
    before = hookline.api("GET", "replays").json
    page.goto("/destinations/crm/replay")
    page.get_by_label("Event name").fill("To replay")
    page.get_by_role("button", name="Count first").click()
    expect(page.locator("[data-counted]")).to_contain_text("4 events would be sent again")
    sent = sum(request.json.get("event") == "To replay" for request in picky.requests)
    assert sent == 4
    expect(page.get_by_text("Saved", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Send 4 events").click()
    dialog = page.get_by_role("dialog", name="Send 4 events")
    expect(dialog).to_contain_text("This sends 4 events to CRM again")
    expect(dialog).not_to_contain_text("The form is empty")
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_label("Event name").fill("")
    page.get_by_role("button", name="Count first").click()
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("dialog")).to_contain_text("The form is empty: these are all stored events")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert hookline.api("GET", "replays").json == before
    page.get_by_label("Event name").fill("To replay")
    page.get_by_role("button", name="Count first").click()
    page.get_by_role("button", name="Send 4 events").click()
    hookline.wait_status(hookline.track("To replay"), "crm", "delivered")  # after it was counted
    dialog.get_by_role("button", name="Send 4 events").click()
    page.wait_for_url("**/replays/r*")
    expect(page.locator("main .mark").first).to_contain_text("done")
    assert sum("x-hookline-replay" in request.headers for request in picky.requests) >= 4
    page.get_by_role("link", name="Replays").click()
    expect(page.locator("table.list tbody tr").first).to_contain_text("4 of 4")


def test_a_replay_that_cannot_be_paused_says_why(
    signed_in: Page, hookline: Hookline, browser: Browser, origin: str
) -> None:
    """In a corner of the window, as its button has no place of its own; a viewer has no such button."""
    hookline.wait_status(hookline.track("To hold"), "crm", "delivered")
    hookline.api("POST", "destinations/crm/pause")
    replay = hookline.api("POST", "replays", {"destination": "crm", "event": "To hold"}).json["id"]
    try:
        page = signed_in
        page.route("**/pause", lambda route: route.fulfill(status=409, json={"detail": "The replay has ended."}))
        page.goto(f"/replays/{replay}")
        page.locator("main").get_by_role("button", name="Pause").click()
        expect(page.locator("[data-toast]")).to_have_text("■ The replay has ended.")
        with viewing(browser, hookline, origin) as theirs:
            theirs.goto(f"/replays/{replay}")
            expect(theirs.get_by_role("heading", name=replay)).to_be_visible()
            expect(theirs.locator("main").get_by_role("button", name="Pause")).to_have_count(0)
    finally:
        hookline.api("POST", f"replays/{replay}/cancel")
        hookline.api("POST", "destinations/crm/resume")


def test_the_search_key_finds_a_choice_too(signed_in: Page) -> None:
    """The first filter of attempts is no field to type in."""
    signed_in.goto("/destinations/crm/attempts")
    signed_in.keyboard.press("/")
    expect(signed_in.get_by_label("Outcome")).to_be_focused()


def test_what_is_typed_never_stands_in_an_address(overview: Page) -> None:
    """Where a form is sent before the scripts are there, or without them, its secrets go into no log and no history."""
    overview.route("**/static/*.js*", lambda route: route.abort())
    overview.goto("/destinations/new")
    for name in ("name", "id", "settings.sharedSecret"):
        overview.locator(f"[name='{name}']").fill("s3cret")
    overview.locator("[name='settings.webhooks.0.url']").fill("https://crm.example.com/s3cret")
    with overview.expect_navigation():
        overview.get_by_role("button", name="Add destination").click()
    assert "s3cret" not in overview.url
