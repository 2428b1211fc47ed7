"""The browser that shows the pages: Chromium as the distribution has it."""

from __future__ import annotations

import shutil

from playwright.sync_api import Browser, Playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first has no windows: it shows the same with little more than half the work."""


def launch(playwright: Playwright, wait_ms: float = 30_000, *options: str) -> Browser:
    """Start it, with further options of its own; SystemExit where there is none."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise SystemExit(f"the pages are shown in Chromium; install it (Debian: apt-get install {NAMES[0]})")
    return playwright.chromium.launch(executable_path=path, args=["--no-sandbox", *options], timeout=wait_ms)
