"""Kinds that make requests of their own: set up, mapped with real events, tried before they are saved."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.service.harness import Hookline, Receiver, Reply, Request, webhook
from tests.ui.conftest import sign_in, viewing

TOKEN = "a-token-that-nobody-sees"
WITHOUT_EXACT_NUMBERS = """
  delete JSON.rawJSON;
  const { parse } = JSON;
  JSON.parse = (text, take) => parse(text, take && ((name, value) => take(name, value)));
"""


@pytest.fixture(scope="module")
def api() -> Iterator[Receiver]:
    """An API that takes what has a total."""

    def respond(request: Request) -> Reply:
        return Reply(200, b'{"ok":true}') if "total" in request.json else Reply(422, b'{"error":"total is missing"}')

    with Receiver() as running:
        running.respond = respond
        yield running


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory, api: Receiver) -> Iterator[Hookline]:
    """A service of these tests' own, with an event that was seen."""
    folder = tmp_path_factory.mktemp("kinds")
    install(folder / "packages", api)
    paths = [str(folder / "packages"), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with Hookline(folder / "h", [webhook("crm", api.url("/crm"))], environment=environment) as running:
        running.track("Order Completed", properties={"orderId": "o 1", "total": 12.5, "address": {"city": "Bern"}})
        yield running


def install(folder: Path, api: Receiver) -> None:
    """A package with a kind that brings a request of its own."""
    package = folder / "acme_kind"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    manifest = {
        "name": "Acme",
        "publishedName": "Acme",
        "description": "Sends orders to Acme.",
        "category": "CRM",
        "calls": ["track"],
        "settings": {
            "required": ["apiKey"],
            "properties": {"apiKey": {"type": "string", "title": "Key", "secret": True}},
        },
        "requests": [
            {
                "name": "Order",
                "url": api.url("/acme"),
                "body": {"total": {"@path": "$.properties.total"}, "version": 1.0},
            }
        ],
    }
    (package / "kind.yaml").write_text(json.dumps(manifest))
    facts = folder / "acme_kind-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-kind\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[hookline.destinations]\nacme = acme_kind\n")


@pytest.fixture
def signed_in(page: Page, hookline: Hookline) -> Page:
    """A page, signed in."""
    sign_in(page, hookline)
    return page


def make(hookline: Hookline, *mapping: dict[str, Any]) -> None:
    """A destination with these requests."""
    settings = {"auth": {"type": "bearer", "token": TOKEN}, "variables": {"region": "eu"}}
    made = {"id": "orders", "name": "Orders", "kind": "http", "sources": ["site"], "settings": settings}
    assert hookline.api("PUT", "destinations/orders", {**made, "mapping": list(mapping)}).status < 300


def test_the_catalog_is_browsed(signed_in: Page) -> None:
    """By category and by a word; a kind says what it takes, and its guide stands beside the form."""
    page = signed_in
    page.goto("/catalog")
    expect(page.get_by_role("heading", name="Webhooks", level=2)).to_be_visible()
    page.get_by_placeholder("Search destinations").fill("any API")
    page.keyboard.press("Enter")
    expect(page.locator(".card")).to_have_count(1)
    page.get_by_role("link", name="HTTP", exact=True).click()
    expect(page.get_by_role("heading", name="Before you begin")).to_be_visible()
    page.get_by_role("link", name="Set up").click()
    expect(page.get_by_role("heading", name="Where do events come from?")).to_be_visible()
    page.get_by_role("link", name="Site").click()
    expect(page.get_by_role("complementary", name="Guide")).to_contain_text("Write a mapping")


def test_a_kind_is_set_up_with_a_preview_before_it_is_saved(signed_in: Page, hookline: Hookline, api: Receiver) -> None:
    """The form is that of the kind, shows what belongs to a choice, previews the last event, and masks secrets."""
    page = signed_in
    page.goto("/setup?source=site&kind=http")
    page.get_by_label("Name").first.fill("My API")
    expect(page.get_by_label("Password")).to_be_hidden()
    page.get_by_label("Type").select_option("bearer")
    page.get_by_label("Token").first.fill(TOKEN)
    page.get_by_role("button", name="Add variable").click()
    page.get_by_label("variable: name").fill("region")
    page.get_by_label("variable: value").fill("eu")
    page.get_by_label("URL", exact=True).fill(api.url("/in/{{properties.orderId}}"))
    page.get_by_role("button", name="Preview with my last event").click()
    preview = page.locator("request-preview")
    expect(preview).to_contain_text("POST /in/o%201 HTTP/1.1")
    expect(preview).to_contain_text("Authorization: Bearer …")
    expect(preview).not_to_contain_text(TOKEN)
    page.get_by_role("button", name="Save and continue").click()
    expect(page.locator("mapping-editor")).to_be_visible()
    made = hookline.api("GET", "destinations/my-api").json
    assert made["settings"] == {"auth": {"type": "bearer", "token": "…sees"}, "variables": {"region": "eu"}}
    assert (made["enabled"], made["mapping"][0]["url"]) == (False, api.url("/in/{{properties.orderId}}"))


def test_a_mapping_is_written_with_completion_and_preview(signed_in: Page, hookline: Hookline, api: Receiver) -> None:
    """Paths of real events are offered to the keyboard, the request is made anew as one types, tried and saved."""
    make(hookline, {"name": "Order", "url": api.url("/orders"), "body": {"total": 1}})
    page = signed_in
    page.goto("/destinations/orders/mapping")
    preview = page.locator(".previewed")
    expect(preview).to_contain_text('{"total":1}')
    body = page.get_by_label("JSON body")
    body.fill("")
    body.press_sequentially('{"total": {"@path": "$.properties.to')
    option = page.get_by_role("option", name="properties.total")
    expect(option).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    body.press_sequentially("}}")
    expect(preview).to_contain_text('{"total":12.5}')
    page.get_by_role("button", name="Send test").click()
    expect(preview).to_contain_text("The event would be delivered.")
    assert api.requests[-1].json == {"total": 12.5}
    assert hookline.api("GET", "destinations/orders").json["mapping"][0]["body"] == {"total": 1}
    page.get_by_role("button", name="Add a header").click()
    page.get_by_label("Headers: name 1").fill("X-City")
    page.get_by_label("Headers: value 1").press_sequentially("in {{properties.address.ci")
    page.keyboard.press("Tab")
    expect(preview).to_contain_text("X-City: in Bern")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. Applies to events sent from now on.")).to_be_visible()
    (saved,) = hookline.api("GET", "destinations/orders").json["mapping"]
    assert saved["body"] == {"total": {"@path": "$.properties.total"}}
    assert saved["headers"] == {"X-City": {"@template": "in {{properties.address.city}}"}}


def requests_of(page: Page, path: str) -> list[str]:
    """Note the methods of the requests to a path from now on."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method) if request.url.endswith(path) else None)
    return asked


def test_a_mapping_is_sent_and_saved_once(signed_in: Page, hookline: Hookline, api: Receiver) -> None:
    """A double click sends one test, whose answer stays though another event was chosen meanwhile, and saves once."""
    make(hookline, {"name": "Order", "url": api.url("/orders"), "body": {"total": 1}})
    page = signed_in
    page.goto("/destinations/orders/mapping")
    preview = page.locator(".previewed")
    expect(preview).to_contain_text('{"total":1}')
    held: list[Route] = []
    page.route("**/destinations/orders/test", lambda route: held.append(route))
    with page.expect_request("**/destinations/orders/test"):
        page.get_by_role("button", name="Send test").evaluate("each => { each.click(); each.click(); }")
    with page.expect_event("requestfinished", lambda request: request.url.endswith("/preview")):
        page.get_by_label("For the event").select_option("sample:identify")
        (sent,) = held
        sent.continue_()
    expect(preview).to_contain_text("The event would be delivered.")
    page.get_by_label("JSON body").fill('{"total": 2}')
    expect(preview).to_contain_text('{"total":2}')
    asked = requests_of(page, "/destinations/orders")
    page.get_by_role("button", name="Save").evaluate("each => { each.click(); each.click(); }")
    expect(page.get_by_text("Saved. Applies to events sent from now on.")).to_be_visible()
    assert asked == ["GET", "PATCH"]
    expect(page.locator("mapping-editor [role=alert]")).to_be_empty()


def test_a_kinds_own_requests_are_changed_and_come_back(signed_in: Page, hookline: Hookline) -> None:
    """A destination of a kind with requests shows those; a change makes them its own, and a button goes back."""
    made = {"id": "acme", "name": "Acme", "kind": "acme", "sources": ["site"], "settings": {"apiKey": "key-123456789"}}
    assert hookline.api("PUT", "destinations/acme", made).status == 201
    page = signed_in
    page.goto("/catalog?category=CRM")
    expect(page.locator(".card")).to_have_count(1)
    page.goto("/destinations/acme/mapping")
    back = page.get_by_role("button", name="Use the kind's own requests")
    expect(page.locator(".previewed")).to_contain_text('{"total":12.5,"version":1.0}')
    expect(back).to_be_hidden()
    page.get_by_label("Method").select_option("PUT")
    page.get_by_role("button", name="Save").click()
    expect(back).to_be_visible()
    assert hookline.api("GET", "destinations/acme").json["mapping"][0]["method"] == "PUT"
    back.click()
    dialog = page.get_by_role("dialog", name="Use the kind's own requests")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    assert hookline.api("GET", "destinations/acme").json["mapping"][0]["method"] == "PUT"
    back.click()
    dialog.get_by_role("button", name="Use the kind's requests").click()
    expect(page.get_by_text("This destination uses the kind's own requests again.")).to_be_visible()
    expect(back).to_be_hidden()
    expect(page.get_by_label("Method")).to_have_value("POST")
    expect(page.get_by_label("JSON body")).to_have_value(re.compile('"version": 1\\.0\n'))
    assert hookline.api("GET", "destinations/acme").json["mapping"] is None


def test_what_nobody_touches_is_saved_as_it_was(signed_in: Page, hookline: Hookline, api: Receiver) -> None:
    """Texts that look like numbers, and numbers that a browser would round, in a request and in a copy of it; what is
    typed is a number only if it is written as one."""
    numbers = {"one": 1.0, "large": 12345678901234567890, "exponent": 1e300}
    parts = {"query": numbers, "headers": {"X-Version": "1.0", "X-Code": "007", "X-Plan": "5"}, "body": numbers}
    make(hookline, {"name": "Order", "url": api.url("/orders"), **parts})
    (before,) = hookline.api("GET", "destinations/orders").json["mapping"]
    page = signed_in
    page.goto("/destinations/orders/mapping")
    page.locator("mapping-editor").get_by_label("Name", exact=True).fill("Orders")
    page.get_by_role("button", name="Duplicate").click()
    page.get_by_label("Headers: name 3").last.fill("X-Other")
    page.get_by_role("button", name="Add a header").last.click()
    page.get_by_label("Headers: name 4").fill("X-Typed")
    page.get_by_label("Headers: value 4").fill("2.0")
    page.get_by_label("JSON body").last.press_sequentially(" ")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. Applies to events sent from now on.")).to_be_visible()
    saved = hookline.api("GET", "destinations/orders").json["mapping"]
    headers = {"X-Version": "1.0", "X-Code": "007", "X-Other": "5", "X-Typed": "2.0"}
    wanted = [{**before, "name": "Orders"}, {**before, "name": "Orders copy", "headers": headers}]
    assert json.dumps(saved, sort_keys=True) == json.dumps(wanted, sort_keys=True)  # where 1 is not 1.0


def test_a_number_that_somebody_else_has_changed_is_not_saved_over(
    signed_in: Page, hookline: Hookline, api: Receiver
) -> None:
    """Also where a browser rounds both numbers to the same one; what was saved here before is no change of others."""
    mine = {"name": "Order", "url": api.url("/orders"), "body": {"account": 12345678901234567890}}
    make(hookline, mine)
    page = signed_in
    page.goto("/destinations/orders/mapping")
    for name in ("First", "Second"):
        page.locator("mapping-editor").get_by_label("Name", exact=True).fill(name)
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved. Applies to events sent from now on.")).to_be_visible()
    theirs = {**mine, "name": "Second", "body": {"account": 12345678901234567891}}
    hookline.api("PATCH", "destinations/orders", {"mapping": [theirs]})
    page.locator("mapping-editor").get_by_label("Name", exact=True).fill("Third")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Somebody else has changed this")).to_be_visible()
    (kept,) = hookline.api("GET", "destinations/orders").json["mapping"]
    assert (kept["name"], kept["body"]) == ("Second", theirs["body"])


def test_a_browser_that_would_round_a_number_saves_none(signed_in: Page, hookline: Hookline, api: Receiver) -> None:
    """Older ones do: of what is there already, and of what is typed."""
    page = signed_in
    page.add_init_script(WITHOUT_EXACT_NUMBERS)
    for number, typed in ((12345678901234567890, None), (5, '{\n  "account": 12345678901234567890\n}')):
        make(hookline, {"name": "Order", "url": api.url("/orders"), "body": {"account": number}})
        (before,) = hookline.api("GET", "destinations/orders").json["mapping"]
        page.goto("/destinations/orders/mapping")
        page.locator("mapping-editor").get_by_label("Name", exact=True).fill("Orders")
        if typed:
            page.get_by_label("JSON body").fill(typed)
        page.get_by_role("button", name="Save").click()
        said = f"{'Line 2: t' if typed else 'T'}his browser would save the number 12345678901234567890"
        expect(page.get_by_text(said)).to_be_visible()
        assert hookline.api("GET", "destinations/orders").json["mapping"] == [before]


def test_errors_stand_where_they_are(signed_in: Page, hookline: Hookline, api: Receiver) -> None:
    """Of JSON that is none, of a directive in the fourth line, of a condition, and of what the event lacks."""
    make(hookline, {"name": "Order", "url": api.url("/orders"), "body": {"total": 1}})
    page = signed_in
    page.goto("/destinations/orders/mapping")
    body = page.get_by_label("JSON body")
    field = page.locator(".field", has=body)
    body.fill('{\n  "a": 1,\n  "b":\n}')
    expect(field.locator(".error")).to_contain_text("Line 4")
    body.fill('{\n  "a": 1,\n  "b": {\n    "@path": 7\n  }\n}')
    expect(field.locator(".error")).to_contain_text("Line 4:")
    expect(body).to_have_attribute("aria-invalid", "true")
    body.fill('{"total": 1}')
    expect(field.locator(".error")).to_be_hidden()
    condition = page.get_by_label("If", exact=True)
    condition.fill("type = ")
    expect(page.locator(".field", has=condition).locator(".error")).not_to_be_empty()
    condition.fill("")
    url = page.get_by_label("URL", exact=True)
    url.fill(api.url("/orders/{{properties.coupon}}"))
    expect(page.locator(".field", has=url).locator(".error")).to_contain_text("properties.coupon")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved. Applies to events sent from now on.")).to_be_visible()
    url.fill("ftp://example.com/")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".field", has=url).locator(".error")).to_contain_text("http")


def test_settings_keep_replace_and_remove_secrets(signed_in: Page, hookline: Hookline, api: Receiver) -> None:
    """An empty secret stays, a typed one replaces it, a removed row goes, and one that is needed cannot go."""
    make(hookline, {"name": "Order", "url": api.url("/orders")})
    hookline.api(
        "PATCH", "destinations/orders", {"settings": {"secrets": {"one": "first-secret-1", "two": "second-secret"}}}
    )
    page = signed_in
    page.goto("/destinations/orders/settings")
    assert TOKEN not in page.content()
    page.get_by_label("Name", exact=True).fill("Orders again")
    page.get_by_role("button", name="Remove two").click()
    page.get_by_label("secret: value").first.fill("another-secret-9")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved", exact=True)).to_be_visible()
    settings = hookline.api("GET", "destinations/orders").json["settings"]
    assert settings["auth"]["token"] == "…sees"
    assert settings["secrets"] == {"one": "…et-9"}
    page.goto("/destinations/orders/settings")
    page.get_by_role("button", name="Remove", exact=True).click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#field-settings-auth-token-error")).to_contain_text("bearer needs token")
    page.get_by_role("button", name="Keep", exact=True).click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved", exact=True)).to_be_visible()
    assert hookline.api("GET", "destinations/orders").json["settings"]["auth"]["token"] == "…sees"


def test_the_tester_shows_requests_and_what_cannot_be_made(signed_in: Page, hookline: Hookline, api: Receiver) -> None:
    """Each request by its name, what its answer means, and the place of what an event lacks."""
    make(
        hookline,
        {"name": "Coupon", "url": api.url("/{{properties.coupon}}")},
        {"name": "Order", "url": api.url("/orders"), "body": {"none": 1}},
    )
    page = signed_in
    page.goto("/destinations/orders/tester")
    requests = page.locator("[data-requests]")
    expect(requests).to_contain_text("/mapping/0/url")
    page.get_by_role("button", name="Send test").click()
    expect(requests).to_contain_text("The event would become a dead letter.")
    expect(requests).to_contain_text("total is missing")


def test_a_connection_is_tested_before_and_after_it_is_saved(signed_in: Page, hookline: Hookline) -> None:
    """In the set-up with what the form says then; on the settings' and the tester's page of a saved destination. The
    set-up of a kind that is chosen begins anew beside another destination that was begun."""
    request = {"name": "Send", "url": "https://api.example.com/"}
    begun = {"id": "begun", "name": "Begun", "kind": "http", "sources": ["site"], "enabled": False, "settings": {}}
    assert hookline.api("PUT", "destinations/begun", {**begun, "mapping": [request]}).status < 300
    signed_in.goto("/setup?source=site&kind=files&step=urls")
    signed_in.get_by_label("Name").first.fill("Lake")
    signed_in.locator('[name="settings.prefix"]').fill("../out")
    signed_in.get_by_role("button", name="Test connection").click()
    said = signed_in.locator("[data-connection]")
    expect(said).to_contain_text("■")
    signed_in.locator('[name="settings.prefix"]').fill("events")
    signed_in.get_by_role("button", name="Test connection").click()
    expect(said).to_have_text("● files/lake/events: It answers and can be written to. No event was written.")
    assert hookline.api("GET", "destinations/lake").status == 404
    made = {"id": "lake", "name": "Lake", "kind": "files", "sources": ["site"], "settings": {"where": "folder"}}
    assert hookline.api("PUT", "destinations/lake", made).status < 300
    for tab in ("settings", "tester"):
        signed_in.goto(f"/destinations/lake/{tab}")
        signed_in.get_by_role("button", name="Test connection").click()
        expect(signed_in.locator("[data-connection]")).to_contain_text("● files/lake: It answers")
    signed_in.goto("/setup?source=site&destination=lake&step=test")
    signed_in.get_by_role("button", name="Test connection").click()
    expect(signed_in.get_by_text("● The test succeeded.")).to_be_visible()
    signed_in.get_by_role("link", name="Continue").click()
    expect(signed_in.get_by_role("navigation", name="Steps").locator("li", has_text="Test")).to_have_class("done")
    for id in ("lake", "begun"):
        hookline.api("DELETE", f"destinations/{id}")


def test_a_viewer_reads_a_mapping(browser: Browser, hookline: Hookline, origin: str, api: Receiver) -> None:
    """What the requests are is text; nothing is offered that would be refused."""
    make(hookline, {"name": "Order", "if": 'type = "track"', "url": api.url("/orders"), "body": {"total": 1}})
    with viewing(browser, hookline, origin) as page:
        page.goto("/destinations/orders/mapping")
        expect(page.locator("mapping-editor")).to_contain_text('type = "track"')
        expect(page.locator("mapping-editor")).to_contain_text('"total": 1')
        expect(page.get_by_role("button", name="Save")).to_have_count(0)
        expect(page.get_by_text("Your role is viewer. Editors can change requests.")).to_be_visible()


def test_a_mistake_in_a_condition_is_shown_where_it_stands(signed_in: Page, hookline: Hookline, api: Receiver) -> None:
    """What answers mean has its own place, with the line; a request that is folded opens for what is wrong in it."""
    make(hookline, {"name": "Order", "url": api.url("/orders")}, {"name": "Other", "url": api.url("/other")})
    page = signed_in
    page.goto("/destinations/orders/mapping")
    other = page.locator(".requests > li").nth(1)
    other.locator("summary").first.click()
    other.get_by_text("Batches and answers").click()
    other.get_by_label("What answers mean").fill('{\n  "if": "status = 200",\n  "retry": "code = 1"\n}')
    other.locator("summary").first.click()
    page.get_by_label("For the event").select_option("sample:track")  # the preview may have come before it was folded
    place = other.locator('[data-at="success"]')
    expect(place).to_have_text("■ Line 3: there is no field 'code' (there are status, body, text, headers) at column 1")
    expect(place).to_be_visible()
    expect(other.locator('[data-at="if"]')).to_have_text("")
    other.get_by_label("What answers mean").fill("")
    other.get_by_label("If").fill("type =")
    expect(other.locator('[data-at="if"]')).to_have_text("■ expected a value after '=' at column 6")


def test_a_header_with_a_secret_that_is_not_entered(signed_in: Page, hookline: Hookline, api: Receiver) -> None:
    """The page says at the header what to do; done so, the header is sent filled."""
    make(hookline, {"name": "Order", "url": api.url("/orders"), "body": {"total": 1}})
    page = signed_in
    page.goto("/destinations/orders/mapping")
    page.get_by_role("button", name="Add a header").click()
    page.get_by_label("Headers: name 1").fill("X-Api-Key")
    value = page.get_by_label("Headers: value 1")
    value.fill("Key {{settings.apiKey}}")
    said = page.locator('[data-at="headers/X-Api-Key"]')
    expect(said).to_contain_text("write settings.secrets.apiKey, and enter apiKey under Secrets")
    value.fill("Key {{settings.secrets.apiKey}}")
    expect(said).to_contain_text("enter it there first")
    hookline.api("PATCH", "destinations/orders", {"settings": {"secrets": {"apiKey": "a-key-nobody-sees"}}})
    page.reload()
    page.get_by_role("button", name="Add a header").click()
    page.get_by_label("Headers: name 1").fill("X-Api-Key")
    page.get_by_label("Headers: value 1").fill("Key {{settings.secrets.apiKey}}")
    expect(page.locator(".previewed")).to_contain_text("X-Api-Key: Key …")
    page.get_by_role("button", name="Send test").click()
    expect(page.locator(".previewed")).to_contain_text("The event would be delivered.")
    assert api.requests[-1].headers["x-api-key"] == "Key a-key-nobody-sees"


def test_slack_asks_for_little(signed_in: Page, hookline: Hookline) -> None:
    """In view are the URL, the calls and the message of each chosen call; the rest is under a closed part, which says
    how much of it was changed and opens for a mistake in it."""
    page = signed_in
    page.goto("/setup?source=site&kind=slack")
    labels = page.locator("#kind-form :is(label, legend):visible")
    shown = ["Name", "Id", "Webhook URL", "Calls", "identify", "track", "page", "screen", "group", "alias"]
    assert [text.removesuffix(" optional").strip() for text in labels.all_inner_texts()] == [
        *shown,
        "Events",
        "Message of a track call",
    ]
    page.locator('[name="name"]').fill("Team")
    page.get_by_label("Webhook URL").fill("https://hooks.slack.com/services/T000/B000/XXXX")
    page.get_by_role("checkbox", name="identify").check()
    page.get_by_role("checkbox", name="track").uncheck()
    expect(page.get_by_label("Message of a track call")).to_be_hidden()
    page.get_by_label("Message of an identify call").fill("New: {{userId}}")
    page.get_by_text("More settings").click()
    page.get_by_label("Emoji").fill("bell")
    page.get_by_text("More settings").click()
    page.get_by_role("button", name="Save and continue").click()
    expect(page.get_by_text("this does not have the form that is needed")).to_be_visible()
    page.get_by_label("Emoji").fill(":bell:")
    page.get_by_role("button", name="Save and continue").click()
    page.wait_for_url("**destination=team**")
    settings = hookline.api("GET", "destinations/team").json["settings"]
    assert (settings["calls"], settings["identifyMessage"]) == (["identify"], "New: {{userId}}")
    page.goto("/destinations/team/settings")
    expect(page.get_by_text("More settings · 1 changed")).to_be_visible()
    expect(page.get_by_label("Emoji")).to_be_hidden()
    expect(page.get_by_label("Message of an identify call")).to_have_value("New: {{userId}}")


def test_a_delete_message_is_tested(signed_in: Page, hookline: Hookline, api: Receiver) -> None:
    """The tester says beforehand that the receiver deletes; for a mapping without one it says what to do instead."""
    page = signed_in
    page.goto("/destinations/crm/tester")
    page.get_by_label("Start with").select_option("sample:delete")
    expect(page.get_by_text("it deletes the user “test-user” there. Hookline itself deletes nothing.")).to_be_visible()
    page.get_by_role("button", name="Send delete message").click()
    expect(page.get_by_role("heading", name="The answer")).to_be_visible()
    assert list(api.requests[-1].json) == ["type", "userId", "timestamp"]
    page.get_by_label("Start with").select_option("sample:track")
    expect(page.get_by_role("button", name="Send test")).to_be_visible()
    expect(page.locator("[data-warning]")).to_have_text("")
    make(hookline, {"name": "Order", "url": api.url("/orders"), "if": 'type = "track"'})
    page.goto("/destinations/orders/tester")
    page.get_by_label("Start with").select_option("sample:delete")
    said = page.locator("[data-routing]")
    expect(said).to_contain_text("■ this destination's mapping has no delete message, so nothing was sent. Delete the")
    expect(page.locator("[data-requests]")).to_have_text("")
    page.goto("/destinations/orders/mapping")
    page.get_by_label("For the event").select_option("sample:delete")
    expect(page.locator(".previewed")).to_contain_text(
        "This event would not be sent: this destination's mapping has no"
    )
    expect(page.get_by_role("button", name="Send delete message")).to_be_visible()
