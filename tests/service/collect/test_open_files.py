"""No more clients connect than the files that the system lets the service have open."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from http.client import HTTPConnection

from tests.service.client import basic
from tests.service.harness import COMMAND, WRITE_KEY, Hookline, new_id

OPEN_FILES = 256
CLIENTS = 300
BATCHES = 24
EVENTS = 45
"""In a batch of nearly half a megabyte: all are more than the first segment of a journal takes."""


def test_clients_leave_the_journal_the_files_that_it_needs(new_hookline: Callable[..., Hookline]) -> None:
    """Connections that took the last descriptor ended collect, as a disk that fails does, once a segment was full."""
    limited = ("sh", "-c", f'ulimit -n {OPEN_FILES}; exec "$@"', "sh", *COMMAND)
    hookline = new_hookline(command=limited).start()
    collect, event = hookline.role("collect"), {"type": "track", "event": "Test", "userId": "u1", "text": "x" * 10_000}
    with ExitStack() as held:
        client = held.enter_context(closing(HTTPConnection("127.0.0.1", hookline.collect_port, timeout=60)))
        client.connect()
        for _ in range(CLIENTS):
            held.enter_context(socket.create_connection(("127.0.0.1", hookline.collect_port)))
        for _ in range(BATCHES):
            batch = [{**event, "messageId": new_id()} for _ in range(EVENTS)]
            client.request("POST", "/v1/batch", json.dumps({"batch": batch}), basic(WRITE_KEY))
            answer = client.getresponse()
            assert (answer.status, json.loads(answer.read())["accepted"]) == (200, EVENTS)
    assert hookline.role("collect") == collect
