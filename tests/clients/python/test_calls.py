"""The library against a real Hookline: what is called arrives at the receiver."""

from __future__ import annotations

from collections.abc import Callable

import hookline_client
from hookline_client import Client
from tests.service.harness import WRITE_KEY, Hookline, Receiver, wait_until, webhook


def test_every_call_arrives_once(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """Six calls, six webhook requests with the messageIds that the calls returned."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    with Client(WRITE_KEY, endpoint=f"http://127.0.0.1:{hookline.collect_port}") as client:
        ids = {
            client.identify("u1", {"plan": "pro"}),
            client.track("u1", "Signed Up", {"plan": "pro"}),
            client.page("u1", "Home"),
            client.screen("u1", "Start", "Main"),
            client.group("u1", "g1", {"name": "Team"}),
            client.alias("a1", "u1"),
        }
        result = client.flush()
    assert result.ok
    assert result.accepted == len(ids) == 6
    wait_until(lambda: {request.message_id for request in receiver.requests} == ids, what="all at the receiver")


def test_the_client_of_the_process_sends(new_hookline: Callable[..., Hookline], receiver: Receiver) -> None:
    """PHP's way: init once, then calls with one mapping of camelCase names."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    hookline_client.init(WRITE_KEY, {"endpoint": f"http://127.0.0.1:{hookline.collect_port}"})
    sent = hookline_client.track({"userId": "u1", "event": "Bought", "properties": {"total": 3.5}})
    assert hookline_client.close(10.0).accepted == 1
    wait_until(lambda: [request.message_id for request in receiver.requests] == [sent])
    assert receiver.requests[0].json["properties"] == {"total": 3.5}
