"""Make the events that the benchmark sends, 484-byte track calls with a number each, and note when each was accepted
and when it arrived.

A ledger holds a few counters and one time per number (seconds of the monotonic clock, 0 for never). The load
generator fills one, the receiver another; joined, they give losses, duplicates and latencies.
"""

from __future__ import annotations

import mmap
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WRITE_KEY = "wk_bench"
ID_PREFIX = b"bench-"
ID_DIGITS = 10

_UNTIL_USER = b'{"type":"track","event":"Order Completed","userId":"user-'
_FROM_USER = b'","anonymousId":"9f4b0ac2-6a43-4d2b-8d5a-7f2b7f0'
_FROM_ANONYMOUS = (
    b'","timestamp":"2026-11-20T07:00:00.123Z","properties":{"orderId":"o-20261120-0042","total":129.95,"currency":"EUR",'
    b'"coupon":"AUTUMN","products":[{"sku":"A-1001","quantity":2,"price":39.95},'
    b'{"sku":"B-2002","quantity":1,"price":50.05}]},'
    b'"context":{"library":{"name":"hookline-bench","version":"1"},"ip":"203.0.113.7","locale":"de-DE"},"messageId":"'
)
_HEAD = _UNTIL_USER + b"83115" + _FROM_USER + b"f3b11" + _FROM_ANONYMOUS
_TAIL = b'"}'

PEOPLE_MAX = 100_000
_STRIDE = 7_919
"""Somebody else's event follows: it shares no factor with the numbers of people that are asked for."""

EVENT_BYTES = len(_HEAD) + len(ID_PREFIX) + ID_DIGITS + len(_TAIL)


def authorization(write_key: str) -> bytes:
    """Return the header's value for a write key."""
    return b"Basic " + b64encode(f"{write_key}:".encode())


AUTHORIZATION = authorization(WRITE_KEY)


def event(number: int) -> bytes:
    """Return the event with this number."""
    return b"%b%b%010d%b" % (_HEAD, ID_PREFIX, number, _TAIL)


def write_key(source: int) -> str:
    """Return the write key of one of several sources."""
    return f"{WRITE_KEY}_{source}"


class Requests:
    """Builds whole HTTP requests of ``batch`` events each (0: one single track call).

    With several sources each request is the next one's: source ``first // events % sources``. The events are of one
    user, or in batches of so many ``people`` (at most PEOPLE_MAX) in turn, each with an anonymous id of their own.
    """

    def __init__(self, host: str, batch: int, sources: int = 1, people: int = 1) -> None:
        self.events = max(1, batch)
        self._people = people
        self._single = batch == 0
        length = EVENT_BYTES if self._single else len(b'{"batch":[]}') + batch * (EVENT_BYTES + 1) - 1
        keys = [AUTHORIZATION] if sources == 1 else [authorization(write_key(number)) for number in range(sources)]
        self._heads = [
            b"POST %b HTTP/1.1\r\nHost: %b\r\nAuthorization: %b\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % (b"/v1/track" if self._single else b"/v1/batch", host.encode(), key, length)
            for key in keys
        ]
        self._begin = _HEAD + ID_PREFIX if people == 1 else _UNTIL_USER
        self._between = _TAIL + b"," + self._begin

    def request(self, first: int) -> bytes:
        """Return the request with the events ``first`` to ``first + events - 1``."""
        head = self._heads[first // self.events % len(self._heads)]
        if self._single:
            return head + event(first)
        numbers = range(first, first + self.events)
        if self._people == 1:
            events = [b"%010d" % number for number in numbers]
        else:
            end, people = _FROM_ANONYMOUS + ID_PREFIX, self._people
            users = (number * _STRIDE % people for number in numbers)
            # Each on a device of their own: one that all share makes a deletion look at everybody.
            events = [
                b"%05d%b%05d%b%010d" % (user, _FROM_USER, user, end, number)
                for user, number in zip(users, numbers, strict=True)
            ]
        return b'%b{"batch":[%b%b%b]}' % (head, self._begin, self._between.join(events), _TAIL)


SECRET = "bench-shared-secret"

Connections = dict[str, Any]
"""What stands in a connections file."""


def source(name: str = "bench", write_key: str = WRITE_KEY) -> Connections:
    """Return a server source."""
    return {"id": name, "name": name, "type": "server", "enabled": True, "writeKeys": [write_key]}


def destination(
    name: str, port: int, sources: Sequence[str] = ("bench",), enabled: bool = True, host: str = "127.0.0.1"
) -> Connections:
    """Return a webhook destination with one URL on this machine, signed."""
    return {
        "id": name,
        "name": name,
        "kind": "webhook",
        "sources": list(sources),
        "enabled": enabled,
        "settings": {"webhooks": [{"url": f"http://{host}:{port}/hook"}], "sharedSecret": SECRET},
    }


def one_receiver(port: int) -> Connections:
    """Return one source whose events all go to one receiver."""
    return {"sources": [source()], "destinations": [destination("receiver", port)]}


COUNTERS = 8
COUNTER_BYTES = 8
HEADER_BYTES = COUNTERS * COUNTER_BYTES


class Ledger:
    """Times by event number, and counters; changes are seen by every process that opened the file."""

    def __init__(self, path: Path, capacity: int | None = None) -> None:
        if capacity is not None:
            with path.open("wb") as file:
                file.truncate(HEADER_BYTES + capacity * 8)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        view = memoryview(self._map)
        self.counters = view[:HEADER_BYTES].cast("Q")
        self.times = view[HEADER_BYTES:].cast("d")

    def reset(self) -> None:
        """Forget everything."""
        for index in range(COUNTERS):
            self.counters[index] = 0
        self._map[HEADER_BYTES:] = bytes(len(self._map) - HEADER_BYTES)
