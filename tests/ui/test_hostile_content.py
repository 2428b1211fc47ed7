"""Event content is hostile: nothing that comes in through the collection API or from a receiver becomes markup."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.service.harness import Hookline, Receiver, Reply, Request, wait_until, webhook
from tests.ui.conftest import sign_in
from tests.ui.hostile_payloads import PAYLOADS

CLASSIC = PAYLOADS[:20]
"""Those that differ most; all of them are on the debugger and in what receivers answer."""

# Elements and attributes our templates never put inside the content.
FOREIGN = (
    "main :is(script, img, iframe, style, link, base, meta, svg, math, object, embed, video, audio, marquee, x,"
    " noscript, form:not([data-api], [data-test], [method], [role=search]), input[type=submit], [formaction],"
    " [contenteditable], [srcdoc])"
)
HANDLERS = "[...document.querySelectorAll('*')].some(e => [...e.attributes].some(a => a.name.startsWith('on')))"


@pytest.fixture
def hookline(tmp_path: Path, receiver: Receiver) -> Iterator[Hookline]:
    """A service of the test's own: the list shows its events alone."""
    with Hookline(tmp_path / "h", [webhook("crm", receiver.url())]) as running:
        running.track("Before anybody looked")
        yield running


def assert_inert(page: Page) -> None:
    """Nothing ran, and no node is there that only markup in content could have made."""
    assert page.evaluate("window.ran") is None
    assert page.locator(FOREIGN).count() == 0
    assert page.evaluate(HANDLERS) is False
    assert page.locator("main a[href^='javascript:' i]").count() == 0


def test_names_ids_users_and_properties(page: Page, hookline: Hookline) -> None:
    """Each payload in every field of an event, on the live list and on the event's own page, is text."""
    sign_in(page, hookline)
    for payload in CLASSIC:
        body = {
            "event": payload,
            "messageId": f"id-{payload}",
            "userId": payload,
            "properties": {payload: payload, "nested": [{payload: [payload]}]},
            "context": {"page": {"url": payload}},
        }
        assert hookline.post("/v1/track", body).status == 200
    expect(page.locator("table.events tbody tr")).to_have_count(len(CLASSIC))
    expect(page.locator("table.events tbody tr").first).to_contain_text(CLASSIC[-1])
    expect(page.locator("table.events tbody tr").last).to_contain_text(PAYLOADS[0])
    assert_inert(page)
    for payload in CLASSIC[::3]:  # they share one template; what differs was on the list
        page.goto(f"/events/{quote('id-' + payload, safe='')}")
        expect(page.locator("h2.big")).to_be_visible()
        assert_inert(page)


def test_rejected_items(page: Page, hookline: Hookline) -> None:
    """What was refused at the edge is kept and shown as it came."""
    sign_in(page, hookline)
    hookline.post("/v1/batch", {"batch": [{"type": payload, "userId": payload} for payload in PAYLOADS[:8]]})
    expect(page.locator("table.events tbody tr", has_text="rejected")).to_have_count(8)
    assert_inert(page)
    page.locator("a.row").first.click()
    expect(page.locator(".line-of-time")).to_contain_text("never delivered")
    assert_inert(page)


def test_names_of_connections(page: Page, hookline: Hookline) -> None:
    """Names of sources and destinations, and write keys, are text as well."""
    name = PAYLOADS[1]
    key = "wk_'><script>x</script>"
    hookline.api("POST", "sources", {"id": "bad", "name": name, "writeKeys": [key]})
    hookline.api("POST", "destinations", webhook("worse", "https://a.example/<b>", sources=["bad"], name=PAYLOADS[2]))
    sign_in(page, hookline)
    expect(page.locator("#destinations").get_by_role("link", name=PAYLOADS[2])).to_be_visible()
    assert_inert(page)
    page.goto("/sources/bad")
    expect(page.locator("code", has_text=key).first).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    assert_inert(page)


def test_the_debugger_draws_every_payload_as_text(page: Page, hookline: Hookline) -> None:
    """In each row, and in the tree, the raw text and the request of what is picked: nothing becomes markup."""
    batch = [
        {
            "type": "track",
            "event": payload,
            "messageId": f"d{number}-{payload}",
            "userId": payload,
            "properties": {payload: payload, "deep": [{payload: [payload]}]},
        }
        for number, payload in enumerate(PAYLOADS)
    ]
    sign_in(page, hookline)
    assert hookline.post("/v1/batch", {"batch": batch}).json["accepted"] == len(PAYLOADS)
    page.goto("/events?type=track")
    listed = page.locator("event-list")
    newest = page.locator("event-list [role=option]", has_text=PAYLOADS[-1]).first
    expect(newest).to_be_visible()
    for number in range(0, len(PAYLOADS), 15):
        row = f"d{number}-"
        page.wait_for_function(
            "name => { const list = document.querySelector('event-list');"
            " list.scrollTop += 15 * 36; return list.size > name; }",
            arg=number,
        )
        assert page.evaluate("window.ran") is None, row
    listed.evaluate("list => { list.scrollTop = 0; }")
    for view in ("Pretty", "Raw", "Request"):
        for _ in range(3):
            listed.evaluate("list => { for (let i = 0; i < 9; i += 1) list.step(1); }")
        page.locator("event-detail").get_by_role("tab", name=view).click()
        expect(page.locator("event-detail .detail-view :is(json-tree, pre)").first).to_be_visible()
        assert_inert(page)


def test_what_receivers_answer_is_text_wherever_it_is_shown(page: Page, hookline: Hookline, receiver: Receiver) -> None:
    """Bodies and headers of refusals in attempts, dead letters, causes, issues and on the destination's head."""
    left = list(reversed(PAYLOADS))  # only the first answers get issues of their own: those that differ most

    def refuse(request: Request) -> Reply:
        if request.json["event"] not in PAYLOADS:  # that of the fixture may come late
            return Reply()
        payload = left.pop() if left else PAYLOADS[0]
        header = "".join(character for character in payload if " " <= character <= "~")
        return Reply(400, payload.encode(), {"X-Told": header})

    receiver.respond = refuse
    events = [name for payload in PAYLOADS for name in (payload, "Fine", "Fine")]
    batch = [{"type": "track", "event": event, "userId": "u"} for event in events]
    assert hookline.post("/v1/batch", {"batch": batch}).status == 200

    def issues() -> list[dict[str, Any]]:  # on a busy machine there is another one, of answers that came too late
        return [each for each in hookline.api("GET", "issues").json["items"] if each["outcome"] == "refused"]

    wait_until(lambda: sum(each["events"] for each in issues()) == len(PAYLOADS), what="all refused, and in issues")
    sign_in(page, hookline)
    expect(page.locator("table.events").get_by_text("failed").first).to_be_visible()
    assert_inert(page)
    letter = hookline.api("GET", "dead-letters").json["items"][0]
    shown = {f"/events/{letter['messageId']}": "table.attempts", "/issues": "table.issues"}
    shown |= {f"/issues/{issue['id']}": "[data-part=sample]" for issue in issues()}
    shown |= {f"/destinations{rest}": "#light[data-state=good]" for rest in ("", "/crm", "/crm/tester", "/crm/filters")}
    for path, part in shown.items():
        page.goto(path)
        expect(page.locator(part)).to_be_visible()
        assert_inert(page)
    for tab in ("attempts", "dead-letters"):
        page.goto(f"/destinations/crm/{tab}?outcome=refused")
        for _ in range(5):
            assert_inert(page)
            with page.expect_navigation():
                page.get_by_role("link", name="Next page").click()
    page.goto("/destinations/crm/attempts?outcome=refused")
    page.get_by_role("button", name="Request", exact=True).first.click()
    expect(page.locator(".answer")).to_contain_text("x-told", ignore_case=True)
    assert_inert(page)
    page.goto("/destinations/crm/dead-letters")
    page.locator("a.row").first.click()
    expect(page.locator("json-tree")).to_be_visible()
    assert_inert(page)


def test_what_people_write_about_a_destination_is_text(page: Page, hookline: Hookline) -> None:
    """Its name, headers, filters and the reason of a pause, on every tab and in the notice that it opens."""
    bad = PAYLOADS[1]
    filters = [{"if": f"event = {json.dumps(payload)}", "do": "drop"} for payload in PAYLOADS[:40]]
    made = webhook("worse", "https://a.example/<b>", name=bad, headers={"X-Note": bad}, filters=filters)
    assert hookline.api("POST", "destinations", made).status == 201
    hookline.api("POST", "destinations/worse/pause", {"reason": PAYLOADS[0]})
    hookline.api("POST", "replays", {"destination": "worse", "event": PAYLOADS[2]})
    sign_in(page, hookline)
    for tab in ("settings", "filters", "tester", "replay", "notices", "delivery"):
        page.goto(f"/destinations/worse/{tab}")
        expect(page.locator(".destination-head")).to_contain_text(PAYLOADS[0])
        assert_inert(page)
    page.goto("/replays")
    expect(page.locator("table.list")).to_contain_text(PAYLOADS[2])
    assert_inert(page)
    page.goto("/notices")
    expect(page.locator(".notices")).to_contain_text(PAYLOADS[0])
    assert_inert(page)
