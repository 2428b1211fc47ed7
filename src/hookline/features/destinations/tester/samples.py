"""An event of each type to try a destination with, as an SDK would send it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

SampleType = Literal["identify", "track", "page", "screen", "group", "alias"]

_TRAITS = {"name": "Ada Lovelace", "email": "ada@example.com", "plan": "pro"}
_ORDER = {"orderId": "4711", "total": 99.9, "currency": "EUR", "products": [{"sku": "A-1", "quantity": 2}]}
_PAGE = {"url": "https://example.com/pricing", "path": "/pricing", "title": "Pricing", "referrer": ""}

_OWN: Mapping[SampleType, dict[str, Any]] = {
    "identify": {"traits": _TRAITS},
    "track": {"event": "Order Completed", "properties": _ORDER},
    "page": {"name": "Pricing", "properties": _PAGE},
    "screen": {"name": "Home", "properties": {"variation": "blue"}},
    "group": {"groupId": "acme", "traits": {"name": "Acme", "employees": 42}},
    "alias": {"previousId": "anonymous-1"},
}

assert set(_OWN) == set(get_args(SampleType))


def sample_event(type: SampleType, timestamp: str) -> bytes:
    """Return the event as JSON; its messageId is left to be made up."""
    shared = {"type": type, "userId": "test-user", "timestamp": timestamp}
    context = {"ip": "203.0.113.7", "locale": "en-GB", "library": {"name": "hookline-test", "version": "1"}}
    return msgspec.json.encode({**shared, **_OWN[type], "context": context})
