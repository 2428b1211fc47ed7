"""The documentation as files, opened from the disk in a real browser: its search, its keys, both themes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.docs.pages import ROOT
from tests.ui.test_screens import barriers, sticks_out

FOUND_FIRST = {
    "rotate a secret": "Rotate a secret",
    "receiver down": "A receiver is down",
    "docker": "Quick start with containers",
    "deliver.timeout": "deliver.timeout",
    "invalid_object": "invalid_object",
    "replay": "Replay a day",
    "gdpr": "Privacy",
    "tenants": "No tenants, no portal for your customers",
    "hookline dead-letters retry": "hookline dead-letters retry",
    "verify signature": "Verify a request",
}
LOOKED_AT = ("index", "how-to/replay-a-day", "reference/settings")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the site on the disk."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    subprocess.run([sys.executable, ROOT / "scripts" / "docs_site.py", folder], check=True, timeout=120)
    return folder.as_uri()


@pytest.fixture
def reader(browser: Browser, site: str) -> Iterator[Page]:
    """A page of the site; what it asks for is on the disk, and no script of it fails."""
    problems: list[str] = []
    page = browser.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: request.url.startswith(site) or problems.append(request.url))
    yield page
    page.close()
    assert problems == []


def test_the_search_finds_as_one_types(reader: Page, site: str) -> None:
    """What is looked for comes first, keys lead to it, and the part of the page is shown."""
    reader.goto(f"{site}/how-to/replay-a-day.html")
    reader.keyboard.press("/")
    field, results = reader.get_by_role("searchbox"), reader.locator("[data-docs-search] .found b")
    expect(field).to_be_focused()
    for text, first in FOUND_FIRST.items():
        field.fill(text)
        expect(results.first).to_have_text(first)
    field.fill("xyzzy")
    expect(reader.locator("[data-docs-search] [role=status]")).to_have_text("Nothing found")
    field.fill("deliver.timeout")
    expect(results.first).to_have_text("deliver.timeout")
    assert barriers(reader) == []
    reader.keyboard.press("ArrowDown")
    reader.keyboard.press("Enter")
    reader.wait_for_url("**/reference/settings.html#deliver.timeout")
    expect(reader.locator("tr:target")).to_contain_text("deliver.timeout")


def test_pages_are_for_everybody_in_both_themes(reader: Page, site: str) -> None:
    """Nothing sticks out, contrast is AA, and axe finds no barrier, on a wide screen and on a phone."""
    found = []
    for path in LOOKED_AT:
        reader.goto(f"{site}/{path}.html")
        for scheme, width in (("light", 1280), ("dark", 390)):
            reader.emulate_media(color_scheme=scheme)
            reader.set_viewport_size({"width": width, "height": 900})
            found += [f"{path} {scheme}: {text}" for text in barriers(reader)]
            found += [f"{path} {width}: sticks out"] if sticks_out(reader) else []
    assert found == []
