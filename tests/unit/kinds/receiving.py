"""What a destination of a kind really sends, as parsed requests, and what its judge makes of the answers.

Calls go the way of the product: record, fields, plan, request bytes. ``StandIn`` is a network whose receiver is a
function of the parsed request, for tests with a whole deliver role.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from hookline.connections.check import check_destination
from hookline.connections.file import check
from hookline.connections.kinds import plan_of
from hookline.connections.model import Destination
from hookline.connections.receiver_url import ReceiverUrl
from hookline.deliver.lanes.lane import Target
from hookline.deliver.send.port import Answer, Route
from hookline.deliver.send.request import MappedTemplate, mapped_templates
from hookline.events.timestamps import iso
from hookline.events.view import fields_of
from hookline.journal.record import Record, fingerprint
from hookline.kinds.answers import Verdict
from hookline.kinds.catalog import kind_of
from hookline.kinds.mapping import MappingFailed
from hookline.kinds.requests import event_fields
from hookline.kinds.settings import schema_problems, secrets_in
from tests.unit.deliver.rig import Network, Rig, source

RECEIVED_MS = 1_795_521_600_123
RECEIVED = iso(RECEIVED_MS)
ROUNDS_MAX = 400
"""Seconds of the rig's clock in which a test's deliveries end."""


class Sent(NamedTuple):
    """One request as its receiver parses it."""

    method: str
    host: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=True))


class Made(NamedTuple):
    """A request with what judges its answers; ``events``: of how many."""

    sent: Sent
    template: MappedTemplate
    events: int

    def judged(self, answer: Answer) -> list[Verdict]:
        return list(self.template.judged(answer, self.events))


Receiver = Callable[[Sent], Answer]


def answer(status: int, body: Any = b"", **headers: str) -> Answer:
    """An answer as the deliver role has it; a body that is no bytes is written as JSON."""
    lines = [f"HTTP/1.1 {status} -", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(status, "\r\n".join(lines) + "\r\n\r\n", data)


def destination_of(kind: str, settings: dict[str, Any], **fields: Any) -> Destination:
    """A destination that passes the check."""
    made = msgspec.convert(
        {"id": kind, "name": kind, "kind": kind, "sources": ["website"], "settings": settings, **fields}, Destination
    )
    assert list(check_destination("d", made)) == []
    return made


def problems(kind: str, settings: dict[str, Any]) -> list[tuple[str, str]]:
    """What the check says of settings: paths and sentences."""
    made = msgspec.convert({"id": "d", "name": "d", "kind": kind, "settings": settings}, Destination)
    return [(each.path, each.message) for each in check_destination("d", made)]


def record_of(call: dict[str, Any], number: int = 0) -> Record:
    """A call as the collection edge stores it."""
    message_id = call.get("messageId", f"message-{number}")
    user = call.get("userId") or call.get("anonymousId", "")
    return Record(
        1,
        False,
        RECEIVED_MS,
        "website",
        call["type"],
        message_id,
        fingerprint("website", message_id),
        user,
        call.get("timestamp", RECEIVED),
        "deletion" if call["type"] == "delete" else "sdk",
        json.dumps(call).encode(),
    )


def made_of(destination: Destination, *calls: dict[str, Any]) -> list[Made]:
    """The requests that calls become, those of a batch in one; raise MappingFailed for an event that becomes none."""
    plan = plan_of(destination)
    secrets = [secret for _, secret in secrets_in(destination.kind, destination.settings)]  # type: ignore[arg-type]
    templates = mapped_templates(destination, plan, secrets, "Hookline")
    single: list[Made] = []
    gathered: dict[tuple[int, str, bytes], list[bytes]] = {}
    for number, call in enumerate(calls):
        record = record_of(call, number)
        fields = event_fields(fields_of(record), plan.settings, RECEIVED)
        for index in plan.matching(fields):
            request = plan.requests[index]
            rendered = request.render(fields, lambda: b"{}")
            if request.batch is None:
                data = templates[index].write(rendered.target, rendered.headers, rendered.body, record.message_id)
                single.append(Made(parsed(data), templates[index], 1))
            else:
                gathered.setdefault((index, rendered.target, rendered.headers), []).append(rendered.body)
    for (index, target, headers), items in gathered.items():
        request = plan.requests[index]
        assert request.batch is not None
        assert len(items) <= request.batch.size
        data = templates[index].write(target, headers, request.join(items), None)
        single.append(Made(parsed(data), templates[index], len(items)))
    return single


def only(destination: Destination, *calls: dict[str, Any]) -> Made:
    """The one request that calls become."""
    (made,) = made_of(destination, *calls)
    return made


def refusal(destination: Destination, call: dict[str, Any]) -> str:
    """What the dead letter of an event says that becomes no request."""
    try:
        made_of(destination, call)
    except MappingFailed as error:
        return error.sentence
    raise AssertionError("the event becomes a request")


def parsed(data: bytes) -> Sent:
    """Read a request as a strict server does."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, version = first.split(" ")
    assert version == "HTTP/1.1"
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        assert name.lower() not in headers, f"{name} twice"
        headers[name.lower()] = value
    if "content-length" in headers:
        assert int(headers["content-length"]) == len(body)
    path, _, query = target.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    assert len({name for name, _ in pairs}) == len(pairs), "a parameter twice"
    return Sent(method, headers["host"], unquote(path), dict(pairs), headers, body)


def check_kind(id: str) -> None:
    """Check that a kind is complete: its schema, guide and icon."""
    kind = kind_of(id)
    assert kind is not None
    assert list(schema_problems(kind.manifest.settings)) == []
    assert kind.icon.startswith("<svg")
    assert "<script" not in kind.icon
    for name, rule in kind.manifest.settings["properties"].items():
        assert {"title", "description"} <= rule.keys(), f"{name} has no title or description"
    assert "has not been tried against the live service" in kind.guide


def check_guide(id: str, folder: Path) -> int:
    """Check the destinations of the guide in a connections file; return how many there are."""
    kind = kind_of(id)
    assert kind is not None
    blocks = re.findall(r"^```yaml\n(.*?)^```$", kind.guide, re.MULTILINE | re.DOTALL)
    for number, block in enumerate(blocks):
        file = folder / f"{id}-{number}.yaml"
        file.write_text("sources:\n  - {id: website, name: Website, writeKeys: [wk_website]}\n" + block)
        assert check(file) == []
    return len(blocks)


class _Route(Route):
    def __init__(self, network: StandIn) -> None:
        self._network = network

    def send(self, target: Target, batch: Iterable[tuple[object, bytes]]) -> None:
        self.ask(target, batch, 0)

    def ask(self, target: Target, batch: Iterable[tuple[object, bytes]], body_bytes_max: int) -> None:
        self._network.asked += [(token, target, data) for token, data in batch]


class StandIn(Network):
    """The network of a rig, with a receiver behind it that answers by the documented API."""

    def __init__(self, receiver: Receiver) -> None:
        super().__init__()
        self.receiver = receiver
        self.asked: list[tuple[object, Target, bytes]] = []
        self.seen: list[Sent] = []

    def of(self, url: ReceiverUrl, pair: tuple[str, str] | None = None) -> Route:
        return _Route(self)

    def sweep(self, timeout_seconds: float) -> None:
        pass

    def answer_all(self, rig: Rig) -> None:
        """Answer what has been sent, and what is sent because of it."""
        for _ in range(1_000):
            if not self.asked:
                return
            token, target, data = self.asked.pop(0)
            self.seen.append(parsed(data))
            rig.role.engine.answered_whole(token, target, self.receiver(self.seen[-1]), 1)
            rig.turn()
        raise AssertionError("requests never end")


def deliver(rig: Rig, destination: Destination, receiver: Receiver, calls: Sequence[dict[str, Any]]) -> StandIn:
    """Let a whole deliver role send calls to a stand-in until nothing is left to do."""
    network = StandIn(receiver)
    rig.network = network
    rig.change(source(), destination)
    rig.start()
    records = [record_of(call, number) for number, call in enumerate(calls)]
    rig.append(*(msgspec.structs.replace(each, received_at=rig.clock.now_ms()) for each in records))
    rig.turn()
    for _ in range(ROUNDS_MAX):
        rig.pass_time(1.0)
        network.answer_all(rig)
        rig.checkpoint()  # what is tried again comes from there
        lanes = rig.role.engine.lanes.values()
        if network.seen and not network.asked and not any(lane.busy or lane.retry_count for lane in lanes):
            return network
    raise AssertionError("the role does not come to rest")
