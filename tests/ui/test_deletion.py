"""The pages of deletion requests: asked for with a confirmation, followed as it goes on, printed as evidence."""

from __future__ import annotations

import json
from datetime import date

from playwright.sync_api import Page, expect

from tests.service.harness import Hookline
from tests.ui.conftest import CONTRAST
from tests.ui.test_screens import sticks_out

BACK_MS = 360_000


def test_a_person_is_deleted_from_the_page(overview: Page, hookline: Hookline) -> None:
    """The button waits for the word; the request's page says by itself when it is done, without the id; the list has
    it; its JSON is a file and says the same; printed, it is the report alone, with times that stay true.
    The list of events says of the erased event what is kept of it."""
    hookline.track(userId="to-be-forgotten")
    overview.goto("/deletion-requests")
    overview.get_by_role("button", name="Delete or suppress…").click()
    dialog = overview.get_by_role("dialog")
    dialog.get_by_label("User id").fill("to-be-forgotten")
    ask = dialog.get_by_role("button", name="Create request")
    expect(ask).to_be_disabled()
    dialog.get_by_label("Type confirm to continue").fill("confirm")
    ask.click()
    overview.wait_for_url("**/deletion-requests/dr*")
    main = overview.locator("main")
    # A receiver that an earlier test made fail is asked again within a minute.
    expect(main).to_contain_text("done", timeout=BACK_MS)
    expect(main.locator("[data-part=people] tbody .mark")).to_have_text("● delivered")
    expect(main).to_contain_text("overwritten in place")
    expect(main).not_to_contain_text("to-be-forgotten")
    with overview.expect_download() as download:
        main.get_by_role("link", name="Download JSON").click()
    id = overview.url.rpartition("/")[2]
    assert download.value.suggested_filename == f"deletion-request-{id}.json"
    (source,) = json.loads(download.value.path().read_text())["people"][0]["sources"]
    assert [each["status"] for each in source["destinations"]] == ["delivered"]
    assert overview.evaluate(CONTRAST) == []
    assert not sticks_out(overview)
    overview.emulate_media(media="print")
    expect(overview.locator(".rail")).to_be_hidden()
    expect(overview.get_by_role("button")).to_have_count(0)
    expect(main).to_be_visible()
    for at in main.locator("time").all():
        expect(at).to_contain_text(str(date.today().year))
    overview.emulate_media(media="screen")
    overview.goto("/events?status=erased")
    row = overview.locator("event-list [role=option]").first
    expect(row).to_contain_text("content erased")
    row.click()
    expect(overview.locator("event-detail")).to_contain_text("A deletion request erased this event.")
    overview.goto(f"/deletion-requests/{id}")
    overview.locator(".crumb").click()
    row = overview.get_by_role("row").filter(has_text="erase and suppress").first
    expect(row).to_contain_text("1 person")


def test_the_page_says_where_to_delete_by_hand(overview: Page, hookline: Hookline) -> None:
    """A kind without a delete message is named at the top, and its row says that nothing was sent and what to do."""
    settings = {"webhookUrl": "https://hooks.slack.com/services/T000/B000/XXXX", "events": ["Never"]}
    made = {"id": "team-chat", "name": "Team", "kind": "slack", "sources": ["site"], "settings": settings}
    assert hookline.api("PUT", "destinations/team-chat", made).status < 300
    try:
        hookline.track(userId="to-be-deleted-by-hand")
        asked = hookline.api("POST", "deletion-requests", {"userId": "to-be-deleted-by-hand", "action": "delete"}).json
        overview.goto(f"/deletion-requests/{asked['id']}")
        main = overview.locator("main")
        expect(main).to_contain_text("Delete by hand", timeout=BACK_MS)
        row = main.get_by_role("row").filter(has=overview.get_by_role("link", name="Team", exact=True))
        expect(row).to_contain_text("nothing sent Slack has no delete message, so nothing was sent.")
        expect(row).to_contain_text("Delete the person in Slack by hand")
        assert overview.evaluate(CONTRAST) == []
        overview.set_viewport_size({"width": 390, "height": 844})
        assert not sticks_out(overview)
    finally:
        hookline.api("DELETE", "destinations/team-chat")
