"""The tabs of the settings, each with what it takes to see it."""

from __future__ import annotations

from hookline.control.call import the_caller
from hookline.control.people.roles import Need

TABS: tuple[tuple[str, str, Need], ...] = (
    ("Versions", "/settings/versions", "viewer"),
    ("People", "/settings/people", "owner"),
    ("Tokens", "/settings/tokens", "owner"),
    ("Audit log", "/settings/audit-log", "owner"),
    ("Server", "/settings/server", "owner"),
    ("Your account", "/settings/account", "viewer"),
)


def tabs(here: str) -> list[tuple[str, str, bool]]:
    """Return the tabs that the caller may open, one of them the page's own."""
    caller = the_caller()
    return [(title, href, title == here) for title, href, need in TABS if caller.may(need)]
