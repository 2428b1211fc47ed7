"""The event that all libraries send: an order as shops track it, about 300 bytes."""

from __future__ import annotations

from typing import Any

EVENT = "Order Completed"


def properties(number: int) -> dict[str, Any]:
    """The properties of event ``number``."""
    return {
        "order_id": number,
        "total": 99.5,
        "currency": "EUR",
        "coupon": None,
        "products": [{"sku": "A-1", "price": 49.5, "quantity": 1}, {"sku": "B-2", "price": 25.0, "quantity": 2}],
    }
