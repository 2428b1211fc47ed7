"""The FastAPI example under uvicorn: a client as long-lived as the application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hookline_client.frameworks.fastapi import Hookline
from tests.clients.python.frameworks.conftest import Shop


def test_calls_arrive_when_the_application_ends(
    shop: Shop, bodies_of: Callable[[list[str]], list[dict[str, Any]]]
) -> None:
    """Asynchronous and plain endpoints track; nothing is flushed before the end, which flushes all."""
    shop.environment |= {"HOOKLINE_CLIENT_FLUSH_AFTER": "3600", "HOOKLINE_CLIENT_FLUSH_AT": "1000"}
    shop.serve("-m", "uvicorn", "--port", str(shop.port), "fastapi_app:app")
    first, _ = shop.get("/buy?item=hat", {"X-User": "ann", "Accept-Language": "*"})
    second, _ = shop.get("/buy-sync?item=cap", {"Cookie": "ajs_anonymous_id=a-9"})
    shop.stop()
    hat, cap = bodies_of(first["sent"] + second["sent"])
    assert (hat["userId"], hat["properties"]) == ("ann", {"item": "hat"})
    assert (cap["anonymousId"], cap["properties"]) == ("a-9", {"item": "cap"})
    assert hat["context"]["page"] == {"url": f"http://127.0.0.1:{shop.port}/buy", "path": "/buy"}
    assert "locale" not in hat["context"]


def test_without_its_lifespan_it_says_so() -> None:
    """A client that was never made is named, instead of an error about None."""
    with pytest.raises(RuntimeError, match="lifespan"):
        _ = Hookline().client
