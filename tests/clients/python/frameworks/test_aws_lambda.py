"""The Lambda example, called as the runtime calls it: import, call, and frozen right after the answer."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from hookline_client import Client
from hookline_client.frameworks.aws_lambda import flush_after_invocation
from tests.clients.python.frameworks.conftest import Shop

RUNTIME = """
import importlib, json, os, sys
handler = getattr(importlib.import_module("lambda_function"), "handler")
class Context:
    aws_request_id = "r-1"
    def get_remaining_time_in_millis(self):
        return 20_000
answers = [handler({"user": user}, Context()) for user in ("ann", "bob")]
print(json.dumps(answers), flush=True)
os._exit(0)  # frozen, and never thawed
"""


def test_events_have_left_when_the_handler_returns(
    shop: Shop, bodies_of: Callable[[list[str]], list[dict[str, Any]]]
) -> None:
    """The process ends without a word right after its second invocation; both events arrive."""
    answers = json.loads(shop.run("-c", RUNTIME))
    first, second = bodies_of([answer["sent"] for answer in answers])
    assert (first["userId"], second["userId"]) == ("ann", "bob")
    assert first["properties"] == {"request": "r-1"}


def test_a_service_that_hangs_leaves_time_for_the_answer() -> None:
    """With 600 ms of the invocation left the flush takes no more than 100 of them, and the handler's answer stands."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Client("wk", endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=60.0)

        @flush_after_invocation(client, timeout=60.0)
        def handler(event: dict[str, Any], context: Any) -> str:
            client.track("u1", "Test")
            return "done"

        began = time.monotonic()
        assert handler({}, SimpleNamespace(get_remaining_time_in_millis=lambda: 600)) == "done"
        assert time.monotonic() - began < 30
        client.close(0.0)


def test_a_handler_may_be_called_by_names() -> None:
    """As other decorators and tests do, and with names of its own."""
    client = Client("wk", enabled=False)
    handler = flush_after_invocation(client)(lambda event, context: event)
    assert handler(event={"a": 1}, context=SimpleNamespace(get_remaining_time_in_millis=lambda: 600)) == {"a": 1}
    assert flush_after_invocation(client)(lambda request, call=None: request)(request=1) == 1


def test_outside_of_lambda_the_handler_works() -> None:
    """A test calls it with None for the context."""
    client = Client("wk", enabled=False)
    assert flush_after_invocation(client)(lambda event, context: event)({"a": 1}, None) == {"a": 1}
