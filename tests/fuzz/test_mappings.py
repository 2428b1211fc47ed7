"""Mappings of destinations, sound ones and altered ones, over events that were not made for them."""

from __future__ import annotations

import json
import re
import time
from functools import cache
from random import Random
from typing import Any

import msgspec

from hookline.connections.check import check_destination
from hookline.connections.kinds import plan_of
from hookline.connections.model import Destination
from hookline.deliver.event import Event
from hookline.deliver.send.request import mapped_templates
from hookline.events.timestamps import iso
from hookline.events.view import fields_of, integrations_of
from hookline.kinds.catalog import kinds
from hookline.kinds.mapping import MappingFailed
from hookline.kinds.mapping.bounds import CHARACTERS_MAX
from hookline.kinds.requests import CompiledRequest, event_fields
from tests.fuzz import events
from tests.fuzz.bare_edge import BareEdge
from tests.fuzz.cases import Cases
from tests.fuzz.mutations import altered, damaged, weighted
from tests.unit.kinds.mapping import cases as situations
from tests.unit.kinds.mapping.pairs import Pairs

CASES = 750
SETTINGS: dict[str, dict[str, Any]] = {
    "http": {"secrets": {"key": "s-1"}, "variables": {"host": "eu.example.com", "n": "1"}, "auth": {"type": "none"}},
    "amplitude": {"apiKey": "key-of-the-project", "secretKey": "secret-of-the-project"},
    "customer_io": {"siteId": "site-of-customer", "apiKey": "key-of-the-project"},
    "google_analytics_4": {"streamId": "G-ABC123DEF4", "apiSecret": "key-of-the-project"},
    "mixpanel": {"projectToken": "key-of-the-project"},
    "opensearch": {"url": "https://search.example.com", "index": "events", "deleteFrom": "none"},
    "posthog": {"apiKey": "key-of-the-project"},
    "rudderstack": {"dataPlaneUrl": "https://plane.example.com", "writeKey": "key-of-the-project"},
    "segment": {"writeKey": "key-of-the-project"},
    "slack": {"webhookUrl": "https://hooks.slack.com/services/T000/B000/XXXX"},
}
URLS = (
    *(
        "https://api.example.com/orders/{{userId}}",
        "http://example.com?a={{properties.half}}&b=1",
        "http://h/ä ö?{{event}}",
    ),
    *(
        "https://{{settings.variables.host}}/v1/{{ type }}/",
        "https://h.example.com/{{{properties.a}}}",
        "https://[::1]:99/",
    ),
    *({"@template": "https://h.example.com/x/{{messageId}}"}, "https://h.example.com/%zz/{{properties.dots}}/x"),
)
ODD_TEXTS = {
    "half": "a\ud83d",
    "smile": "\U0001f600",
    "dots": "..",
    "line": "a\r\nB: c",
    "latin": "\xe9\xa0",
    "empty": "",
}
ODD_PROPERTIES = {
    **ODD_TEXTS,
    "long": "x" * 9_000,
    "list": [1, "a", None, ["b"]],
    "big": 10**40,
    "zero": -0.0,
    "nothing": None,
    "object": {"a": {"b": "\ud83d"}},
}
CONDITIONS = (
    "true",
    "type = 'track'",
    "properties.a",
    "length(event) > 1 or userId != ''",
    "settings.variables.n = '1'",
)
RULES = (
    *({"if": "body.ok = true"}, {"refused": "status = 200", "retry": "contains(text, 'x')"}, {"if": "headers.a = '1'"}),
    {"items": [{"path": "body.errors", "index": "index", "error": "message"}]},
    {
        "items": [{"path": "body.items", "entries": "each", "status": "*.status", "error": "*.error"}],
        "others": "accepted",
    },
)
ANSWERS = (
    b"",
    b"[]",
    b'{"ok":true}',
    b'{"errors":[{"index":0,"message":"x"},{"index":"1"},3]}',
    b'{"items":[{"a":{"status":9}}]}',
)
SECONDS_MAX = 5.0
"""Far more than any case takes, and far less than what is not bounded."""
BODY_BYTES_MAX = 13 * CHARACTERS_MAX
"""What one resolve makes, each character escaped as two halves, and signs between the values."""
LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\x20-\x7e\xa0-\xff]*")


@cache
def kinds_with_requests() -> dict[str, Any]:
    """The requests that kinds come with, as somebody writes them."""
    found = {id: kind.manifest.requests for id, kind in kinds().items() if kind.manifest.requests is not None}
    assert found.keys() == SETTINGS.keys()
    return msgspec.to_builtins(found)  # type: ignore[no-any-return]


def document(random: Random, event: dict[str, Any]) -> Any:
    """A mapping that reads the event's properties, or a situation of the table."""
    if random.random() < 0.3:
        return random.choice(situations.CASES).document
    pairs = Pairs(random)
    made, given = pairs.pair()
    event["properties"].update(given)
    return {"@transform": {"apply": {"@path": "$.properties"}, "mapping": made}} if isinstance(made, dict) else made


def request(random: Random, event: dict[str, Any]) -> dict[str, Any]:
    """A request that somebody may have written for an API."""
    made: dict[str, Any] = {"name": f"r{random.randrange(9)}", "url": random.choice(URLS)}
    if random.random() < 0.5:
        made["method"] = random.choice(("GET", "PUT", "PATCH", "DELETE"))
    if random.random() < 0.4:
        made["if"] = random.choice(CONDITIONS)
    for name in ("query", "headers"):
        if random.random() < 0.4:
            made[name] = {f"X-{number}": _short(random, event) for number in range(random.choice((1, 2)))}
    match random.randrange(6):
        case 0:
            made["form"] = {"a": _short(random, event), "b[]": document(random, event)}
        case 1:
            made["form"] = document(random, event)
        case 2:
            made["raw"] = _short(random, event)
        case 3 | 4:
            made["body"] = document(random, event)
            if random.random() < 0.4:
                made["batch"] = {"format": random.choice(("array", "lines", "object")), "field": "events"}
                made["batch"]["with"] = weighted(random, {}, (document(random, event), None), 0.2)
    if random.random() < 0.3:
        made["success"] = random.choice(RULES)
    return made


def _short(random: Random, event: dict[str, Any]) -> Any:
    name = random.choice((*ODD_PROPERTIES, *random.sample([*event["properties"], "nowhere"], 1)))
    name += weighted(random, "", ("[0]", "[1]", ".length", ".a"), 0.3)
    path, template = {"@path": f"$.properties.{name}"}, {"@template": f"Hi {{{{properties.{name}}}}}!"}
    plain = (path, path, template, template, "text", 5, True)
    return weighted(random, random.choice(plain), (document(random, event),), 0.3)


def destination(random: Random, event: dict[str, Any]) -> dict[str, Any]:
    """A destination of some kind with its own requests, those of others, or made-up ones; often altered."""
    kind = weighted(random, "http", tuple(SETTINGS), 0.5)
    made: dict[str, Any] = {"id": "d", "name": "D", "kind": kind, "sources": ["web"], "settings": SETTINGS[kind]}
    if kind == "http" or random.random() < 0.5:
        mapping = kinds_with_requests()[kind] or [request(random, event) for _ in range(random.choice((1, 1, 2, 6)))]
        made["mapping"] = mapping
        if random.random() < 0.5:
            others = [each.document for each in random.choices(situations.CASES, k=3)]
            made["mapping"] = altered(random, mapping, [*others, random.choice(CONDITIONS), random.choice(URLS)])
    elif random.random() < 0.5:
        made["settings"] = altered(random, made["settings"])
    return made


def checked(given: dict[str, Any]) -> Destination | None:
    """The destination if it passes the check; else problems that lead to a place in it."""
    try:
        made = msgspec.json.decode(json.dumps(given), type=Destination)
    except msgspec.DecodeError:
        return None
    problems = check_destination("d", made)
    assert all(each.message and each.path.startswith("d.") for each in problems), problems
    return None if problems else made


def check_request(random: Random, compiled: CompiledRequest, fields: dict[str, Any], plain: bytes) -> None:
    """A request or the failure; nothing in it that would end a line or the request."""
    try:
        rendered = compiled.render(fields, lambda: plain)
    except MappingFailed:
        return
    assert re.fullmatch(r"[?/][\x21-\x7e]*", rendered.target)
    assert re.search(r"/\.\.?(/|$)", rendered.target.partition("?")[0]) is None
    assert all(LINE.fullmatch(line) for line in rendered.headers.split(b"\r\n")[:-1]), rendered.headers
    assert len(rendered.body) <= BODY_BYTES_MAX
    sent = rendered.body if compiled.batch is None else compiled.join([rendered.body] * 2)
    if compiled.has_body and compiled.content_type == "application/json":
        json.loads(sent, parse_constant=_no_constant, parse_int=float)
    if compiled.content_type == "application/x-ndjson":
        for line in sent.splitlines():
            json.loads(line, parse_constant=_no_constant, parse_int=float)
    if compiled.judge is not None:
        answer = random.choice(ANSWERS)
        body = damaged(random, answer) if random.random() < 0.5 else answer
        assert len(compiled.judge.each(random.choice((200, 400, 503)), "HTTP/1.1 200 OK\r\nA: 1", body, 2)) == 2


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def check_mapping(random: Random, edge: BareEdge) -> None:
    """Refused with a place, or requests and failures for any event, in time."""
    begun = time.process_time()
    event: dict[str, Any] = events.event(random)
    event["properties"] = {**event.get("properties", {}), **ODD_PROPERTIES}
    made = checked(destination(random, event))
    if made is None:
        return
    plan = plan_of(made)
    for template in mapped_templates(made, plan, (), "Hookline"):
        assert template.url
    for item in (json.dumps(event).encode(), events.odd_event(random)):
        record = edge.store(events.batch(random, [item]))
        if record is None:
            continue
        _, plain = Event(0, record).plain()
        fields = event_fields(fields_of(record, plain), plan.settings, iso(record.received_at), integrations_of(record))
        before = repr(fields)
        for index in plan.matching(fields):
            check_request(random, plan.requests[index], fields, plain)
        assert repr(fields) == before, "a mapping changed the event"
    assert time.process_time() - begun < SECONDS_MAX


def test_no_mapping_does_harm(cases: Cases) -> None:
    """Nothing but the documented refusals and failures, and no request that is not one."""
    edge = BareEdge()
    number = cases.run("mappings", CASES, lambda random: check_mapping(random, edge))
    print(f"{number} mappings")
