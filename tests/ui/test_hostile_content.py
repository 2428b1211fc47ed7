"""Event content is hostile: nothing that comes in through the collection API or from a receiver becomes markup."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.service.harness import Hookline, Receiver, webhook
from tests.ui.conftest import sign_in

RUN = "window.ran=1;alert(1)"
PAYLOADS = (
    f"<script>{RUN}</script>",
    f"<img src=x onerror='{RUN}'>",
    f'"><svg onload="{RUN}">',
    f"'><details open ontoggle={RUN}>",
    f"javascript:{RUN}",
    f"</title><script>{RUN}</script>",
    f"</pre></code><iframe srcdoc='<script>parent.{RUN}</script>'>",
    f"<a href='javascript:{RUN}'>click</a>",
    f'" onmouseover="{RUN}" x="',
    f"' autofocus onfocus='{RUN}",
    f"<math><mtext><table><mglyph><style><img src=x onerror={RUN}>",
    f"<meta http-equiv=refresh content='0;url=javascript:{RUN}'>",
    f"<form action='javascript:{RUN}'><input type=submit autofocus>",
    "<base href='//evil.example/'><script src='x.js'></script>",
    "<link rel=stylesheet href='//evil.example/x.css'>",
    "<style>@import '//evil.example/x.css';body{background:url(//evil.example/y)}</style>",
    "{{7*7}}${7*7}<%= 7*7 %>{% raw %}",
    "\u202eevil\u2066\u0007\u001b[31m",
    f"\ufeff<ſcript>{RUN}</ſcript>",
    f"<!--><script>{RUN}</script>-->",
)

# Elements and attributes our templates never put inside the content.
FOREIGN = "main :is(script, img, iframe, style, link, base, meta, form, input, svg, math, object, embed)"
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
    for payload in PAYLOADS:
        body = {
            "event": payload,
            "messageId": f"id-{payload}",
            "userId": payload,
            "properties": {payload: payload, "nested": [{payload: [payload]}]},
            "context": {"page": {"url": payload}},
        }
        assert hookline.post("/v1/track", body).status == 200
    expect(page.locator("table.events tbody tr")).to_have_count(len(PAYLOADS))
    expect(page.locator("table.events tbody tr").first).to_contain_text(PAYLOADS[-1])
    expect(page.locator("table.events tbody tr").last).to_contain_text(PAYLOADS[0])
    assert_inert(page)
    for payload in PAYLOADS[::3]:  # they share one template; what differs was on the list
        page.goto(f"/events/{quote('id-' + payload, safe='')}")
        expect(page.locator("h2.big")).to_be_visible()
        assert_inert(page)


def test_what_a_receiver_answers(page: Page, hookline: Hookline, receiver: Receiver) -> None:
    """A refusal whose body is markup is shown as the text it is."""
    receiver.reply_with(400, body=PAYLOADS[0].encode() + PAYLOADS[1].encode())
    sign_in(page, hookline)
    message_id = hookline.track("Refused")
    hookline.wait_fate(message_id, "crm", "failed")
    expect(page.locator("tr", has_text="Refused").get_by_text("failed")).to_be_visible()
    assert_inert(page)
    page.goto(f"/events/{message_id}")
    expect(page.locator("table.attempts")).to_contain_text("400")
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
    expect(page.locator("code", has_text=key).first).to_be_visible()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    assert_inert(page)
