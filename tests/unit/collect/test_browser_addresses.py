"""Events of browsers get ``context.ip``: the caller's address, behind trusted proxies that of who asked them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hookline.events.body import render_plain
from hookline.settings import Collect, Networks, Settings
from tests.unit.collect.wire import KEY, OTHER_KEY, TRACK, Running, sized

ORIGIN = {"Origin": "https://shop.example"}
ITEM = {**TRACK, "type": "track"}
SEGMENT = {"context": {"library": {"name": "analytics.js", "version": "next-1.84.3"}}}
SERVER = {"context": {"library": {"name": "analytics-node", "version": "1"}}}


@pytest.fixture
def trusting(start: Callable[..., Running]) -> Running:
    return start(settings=Settings(collect=Collect(trusted_proxies=Networks(["127.0.0.0/8", "10.0.0.0/8"]))))


def _ips(edge: Running) -> list[Any]:
    """``context.ip`` of each event as a receiver gets it."""
    bodies = [json.loads(render_plain(record)) for record in edge.memory.records]
    edge.memory.records.clear()
    return [body.get("context", {}).get("ip", "none") for body in bodies]


@pytest.mark.parametrize(
    ("headers", "key", "event", "ip"),
    [
        (ORIGIN, KEY, {}, "127.0.0.1"),
        ({"Origin": "null"}, OTHER_KEY, SERVER, "127.0.0.1"),
        ({}, KEY, SEGMENT, "127.0.0.1"),
        ({}, KEY, {"context": {"library": {"name": "RudderLabs JavaScript SDK"}}}, "127.0.0.1"),
        ({}, KEY, SERVER, "none"),
        ({}, KEY, {"context": {"library": "analytics.js"}}, "none"),
        ({}, OTHER_KEY, SEGMENT, "none"),
        (ORIGIN, KEY, {"context": {"ip": "203.0.113.9"}}, "203.0.113.9"),
        (ORIGIN, KEY, {"context": {"ip": None}}, None),
        (ORIGIN, KEY, {"context": "none"}, "127.0.0.1"),
        ({**ORIGIN, "X_IP_Policy": "remove"}, KEY, {}, "none"),
        ({**ORIGIN, "X_IP_Policy": "keep"}, KEY, {}, "127.0.0.1"),
        ({**ORIGIN, "X_Forwarded_For": "203.0.113.7"}, KEY, {}, "127.0.0.1"),
    ],
)
def test_the_address_is_added_to_what_browsers_send(
    edge: Running, headers: dict[str, str], key: str, event: dict[str, Any], ip: str | None
) -> None:
    """With an Origin, or a browser's library at a website's source, unless it has one; alone and in a batch alike."""
    assert edge.post("/v1/track", {**ITEM, **event}, key=key, **headers).status == 200
    assert edge.post("/v1/batch", {"batch": [{**ITEM, **event}] * 2}, key=key, **headers).json["accepted"] == 2
    assert edge.memory.records[0].body == json.dumps({**ITEM, **event}).encode()
    assert _ips(edge) == [ip] * 3


@pytest.mark.parametrize(
    ("forwarded", "ip"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("198.51.100.1, 203.0.113.7, 10.0.0.2", "203.0.113.7"),
        ("2001:db8::7", "2001:db8::7"),
        ('","x":"', "127.0.0.1"),
        ('fe80::1%"', "fe80::1"),
        ("203.0.113.7, unknown", "127.0.0.1"),
        ("10.0.0.9," * 300 + "203.0.113.7", "203.0.113.7"),
    ],
)
def test_trusted_proxies_say_who_asked_them(trusting: Running, forwarded: str, ip: str) -> None:
    """The nearest address that is no proxy's, and never what somebody made up; twice, as heads are remembered."""
    for _ in range(2):
        trusting.post("/v1/track", ITEM, X_Forwarded_For=forwarded, **ORIGIN)
    assert _ips(trusting) == [ip, ip]


@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        ({"context": {"app": {"name": "x"}}}, {"ip": "127.0.0.1", "app": {"name": "x"}}),
        ({"context": {"ip": "203.0.113.9"}}, {"ip": "203.0.113.9"}),
        ({"context": {"ip": None}}, {"ip": None}),
        ({"context": {}, "integrations": {"All": True}}, {"ip": "127.0.0.1"}),
        ({"context": "x"}, {"ip": "127.0.0.1"}),
        (SEGMENT, {"ip": "127.0.0.1", **SEGMENT["context"]}),
    ],
)
def test_a_batchs_own_context_stays(edge: Running, envelope: dict[str, Any], expected: dict[str, Any]) -> None:
    """The address joins what all events share, and gives way to an address there."""
    edge.post("/v1/batch", {"batch": [ITEM], **envelope}, **ORIGIN)
    (record,) = edge.memory.records
    assert json.loads(render_plain(record))["context"] == expected
    assert ("integrations" in json.loads(record.envelope or b"{}")) == ("integrations" in envelope)


def test_a_batch_without_an_origin_is_known_by_its_library(edge: Running) -> None:
    """Named by the batch or by its first event."""
    edge.post("/v1/batch", {"batch": [ITEM], **SEGMENT})
    edge.post("/v1/batch", {"batch": [{**ITEM, **SEGMENT}]})
    edge.post("/v1/batch", {"batch": [ITEM], **SERVER})
    assert _ips(edge) == ["127.0.0.1", "127.0.0.1", "none"]


def test_what_is_no_browsers_sdk_gets_none(edge: Running) -> None:
    """A pixel is fetched by who shows a mail, and Jitsu's path for servers says what it is for."""
    edge.get(f"/v1/pixel/track?writeKey={KEY}&userId=u&event=e", **ORIGIN)
    edge.post("/api/s/s2s/track", ITEM, **ORIGIN)
    edge.post("/api/s/track", ITEM, **ORIGIN)
    assert _ips(edge) == ["none", "none", "127.0.0.1"]


def test_an_event_of_the_largest_size_is_still_taken(edge: Running) -> None:
    """What is added does not count against the caller's limit."""
    assert edge.post("/v1/track", sized(32_768), **ORIGIN).status == 200
    assert _ips(edge) == ["127.0.0.1"]
