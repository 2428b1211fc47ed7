"""What tests of kinds share: what a destination sends for events, and what it makes of an API's answers.

Everything is the product's own: records are rendered, mapped, gathered and split as a lane does it, and answers are
judged by the kind's rules. Only the API is a stand-in: a test reads the requests as its documentation says it does.
``receiving`` has a whole deliver role in front of one.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from hookline.connections.check import check_destination
from hookline.connections.file import check_text
from hookline.connections.kinds import plan_of
from hookline.connections.model import Destination
from hookline.deliver.lanes.mapped import _parcels, are_refused_together, failure_of
from hookline.deliver.send.port import Answer
from hookline.deliver.send.request import MappedTemplate, mapped_templates
from hookline.events.body import render_plain
from hookline.events.timestamps import iso
from hookline.events.view import fields_of, integrations_of
from hookline.journal.record import Record, fingerprint
from hookline.kinds.catalog import kind_of
from hookline.kinds.model import KindSettings
from hookline.kinds.requests import event_fields
from hookline.kinds.settings import schema_of, schema_problems, secrets_in

Json = Any
RECEIVED_MS = 1_795_521_605_250
TIMESTAMP = "2026-11-24T12:00:00.123Z"
TYPES = ("identify", "track", "page", "screen", "group", "alias", "delete")

CALLS: dict[str, dict[str, Json]] = {
    "identify": {"userId": "u1", "anonymousId": "a1", "traits": {"email": "ada@example.com", "age": 36}},
    "track": {"userId": "u1", "event": "Order Completed", "properties": {"total": 99.5, "tags": ["new"]}},
    "page": {"userId": "u1", "name": "Pricing", "category": "Docs", "properties": {"url": "https://example.com/p"}},
    "screen": {"anonymousId": "a1", "name": "Cart", "properties": {"items": 2}},
    "group": {"userId": "u1", "groupId": "g1", "traits": {"name": "Acme", "employees": 12}},
    "alias": {"userId": "u1", "previousId": "a1"},
    "delete": {"userId": "u1"},
}
"""One call of each type."""


class Sent(NamedTuple):
    """One request as a receiver reads it; ``events`` are the messageIds that it is for."""

    name: str
    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    events: tuple[str, ...]

    @property
    def json(self) -> Json:
        """Return the body as JSON."""
        return json.loads(self.body)

    @property
    def lines(self) -> list[Json]:
        """Return the body as lines of JSON, each with its end."""
        assert self.body.endswith(b"\n")
        return [json.loads(line) for line in self.body[:-1].split(b"\n")]

    @property
    def credentials(self) -> tuple[str, str]:
        """Return user name and password of Basic authentication."""
        scheme, _, value = self.headers["authorization"].partition(" ")
        assert scheme == "Basic"
        name, _, password = base64.b64decode(value).decode().partition(":")
        return name, password


class StandIn:
    """A destination of a kind, with what it would send and what it makes of answers."""

    def __init__(self, kind: str, mapping: Json = None, **settings: Json) -> None:
        fields = {"id": "there", "name": "There", "kind": kind, "settings": settings}
        self.destination = msgspec.convert(fields | ({} if mapping is None else {"mapping": mapping}), Destination)
        problems = check_destination("", self.destination)
        assert not problems, problems
        self.plan = plan_of(self.destination)

    @cached_property
    def templates(self) -> list[MappedTemplate]:
        """Return what writes the requests."""
        settings = self.destination.settings
        assert isinstance(settings, KindSettings)
        secrets = [secret for _, secret in secrets_in(self.destination.kind, settings)]
        return mapped_templates(self.destination, self.plan, secrets, "Hookline")

    def sends(self, *records: Record) -> list[Sent]:
        """Return the requests for some events that were queued together."""
        single: list[Sent] = []
        gathered: dict[tuple[int, str, bytes], list[tuple[Any, bytes]]] = {}
        for record in records:
            chosen = integrations_of(record) if self.plan.asks_integrations else None
            fields = event_fields(fields_of(record), self.plan.settings, iso(record.received_at), chosen)
            for index in self.plan.matching(fields):
                request = self.plan.requests[index]
                made = request.render(fields, lambda record=record: render_plain(record))  # type: ignore[misc]
                if request.batch is None:
                    data = self.templates[index].write(made.target, made.headers, made.body, record.message_id)
                    single.append(self._read(index, data, (record.message_id,)))
                else:
                    gathered.setdefault((index, made.target, made.headers), []).append((record.message_id, made.body))
        for (index, target, headers), items in gathered.items():
            request = self.plan.requests[index]
            for parcel in _parcels(request, target, headers, items):
                data = self.templates[index].write(target, headers, request.join(parcel.items), None)
                single.append(self._read(index, data, tuple(map(str, parcel.tokens))))
        return single

    def one(self, *records: Record) -> Sent:
        """Return the only request for some events."""
        (sent,) = self.sends(*records)
        return sent

    def _read(self, index: int, data: bytes, events: tuple[str, ...]) -> Sent:
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, version = first.split(" ")
        assert version == "HTTP/1.1"
        pairs = [line.split(": ", 1) for line in lines]
        headers = {name.lower(): value for name, value in pairs}
        assert len(headers) == len(pairs), "a header stands twice"
        assert int(headers.get("content-length", "0")) == len(body)
        scheme = self.templates[index].receiver.scheme
        name = self.plan.requests[index].name
        return Sent(name, method, f"{scheme}://{headers['host']}{target}", headers, body, events)

    def after(
        self, status: int, body: Json = b"", count: int = 1, name: str | None = None, headers: Mapping[str, str] = {}
    ) -> list[str]:
        """Return what becomes of each of ``count`` events of a request that is answered so.

        ``accepted``, ``retry`` and ``refused`` with the words of the receiver behind it; ``blames`` for a failure that
        is the receiver's and not the event's; ``halved`` where a batch goes again in halves.
        """
        names = [request.name for request in self.plan.requests]
        template = self.templates[names.index(name) if name is not None else 0]
        head = "".join([f"HTTP/1.1 {status} X\r\n", *(f"{key}: {value}\r\n" for key, value in headers.items())])
        answer = Answer(status, head, body if isinstance(body, bytes) else json.dumps(body).encode())
        verdicts = template.judged(answer, count)
        if count > 1 and are_refused_together(verdicts, status):
            return ["halved"] * count
        found = []
        for verdict in verdicts:
            failure = failure_of(verdict, answer)
            if failure is None:
                found.append("accepted")
                continue
            word = "retry" if verdict.retry else "refused" if failure.of_event else "blames"
            wait = f" after {failure.retry_after.decode()}" if failure.retry_after else ""
            found.append(f"{word} {failure.status}{wait}: {failure.error}"[:200])
        return found

    @property
    def problems(self) -> list[str]:
        """Return what is wrong with the schema of the settings."""
        return list(schema_problems(schema_of(self.destination.kind)))


def call(type: str, message_id: str = "m-1", *, envelope: Json = None, **fields: Json) -> Record:
    """Return a call as the collection edge stores it; fields that are None are left out of ``CALLS``."""
    merged = {"type": type, **CALLS[type], "messageId": message_id, "timestamp": TIMESTAMP, **fields}
    caller = {name: value for name, value in merged.items() if value is not None}
    return Record(
        1,
        False,
        RECEIVED_MS,
        "site",
        type,
        message_id,
        fingerprint("site", message_id),
        str(caller.get("userId") or caller.get("anonymousId")),
        TIMESTAMP,
        "sdk",
        json.dumps(caller).encode(),
        None if envelope is None else json.dumps(envelope).encode(),
    )


def calls(*types: str) -> list[Record]:
    """Return one call of each of some types, by default of every type."""
    return [call(type, f"m-{type}") for type in types or TYPES]


def guide_problems(kind: str, monkeypatch: Any) -> list[Any]:
    """Return what the check of configurations says to the examples in a kind's guide; there is at least one."""
    found = kind_of(kind)
    assert found is not None
    blocks = re.findall(r"^```yaml\n(.*?)^```$", found.guide, re.MULTILINE | re.DOTALL)
    assert blocks, "the guide has no example"
    problems: list[Any] = []
    for block in blocks:
        for name in re.findall(r"env:(\w+)", block):
            monkeypatch.setenv(name, "secret-for-the-check")
        problems += check_text("sources: [{id: site, name: Site, writeKeys: [wk_site]}]\n" + block)
        assert f"kind: {kind}" in block
    return problems


def guide_facts(kind: str) -> str:
    """Return a kind's guide after looking for what every guide of an API says."""
    found = kind_of(kind)
    assert found is not None
    assert "stand-in" in found.guide, "say what the kind was tried against"
    for name, rule in found.manifest.settings["properties"].items():
        assert {"title", "description"} <= rule.keys(), f"{name} is not explained"
    assert found.icon.startswith("<svg ")
    assert "<script" not in found.icon
    return found.guide


def sizes(items: Iterable[Json]) -> list[int]:
    """Return how many bytes each value takes as JSON."""
    return [len(msgspec.json.encode(item)) for item in items]
