"""Addresses of pages with their filters: what is empty is left out, so that the same list has one address."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode


def address(path: str, query: Mapping[str, object], **changed: object) -> str:
    """The path with a query, some of its values changed."""
    values = {name: str(value) for name, value in {**query, **changed}.items() if value not in (None, "")}
    return f"{path}?{urlencode(values)}" if values else path


def destination_href(id: str, tab: str = "") -> str:
    """The page of a destination, or one of its tabs."""
    return f"/destinations/{quote(id, safe='')}" + (f"/{tab}" if tab else "")


def event_href(message_id: str, source: str) -> str:
    """The page of one event."""
    return f"/events/{quote(message_id, safe='')}?source={quote(source, safe='')}"
