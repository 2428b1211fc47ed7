"""Addresses of pages with their filters: what is empty is left out, so that the same list has one address."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

DOTS = (".", "..")
"""Browsers take these for steps in an address, written in any way."""


def address(path: str, query: Mapping[str, object], **changed: object) -> str:
    """Return the path with a query, some of its values changed."""
    values = {name: str(value) for name, value in {**query, **changed}.items() if value not in (None, "")}
    return f"{path}?{urlencode(values)}" if values else path


def destination_href(id: str, tab: str = "") -> str:
    """Return the page of a destination, or one of its tabs."""
    return f"/destinations/{quote(id, safe='')}" + (f"/{tab}" if tab else "")


def event_href(message_id: str, source: str) -> str:
    """Return the page of one event."""
    return f"/events/{quote(message_id, safe='')}?source={quote(source, safe='')}"


def person_href(user_id: str | None, anonymous_id: str | None = None) -> str:
    """Return the page of a person, by user id where there is one."""
    kind, id = ("user", user_id) if user_id is not None else ("anonymous", anonymous_id or "")
    if id in DOTS:
        return address("/people", {"userId" if kind == "user" else "anonymousId": id})
    return f"/people/{kind}/{quote(id, safe='')}"
