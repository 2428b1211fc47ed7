"""Destinations whose requests are made by a mapping: what becomes of the webhooks of a run's destinations."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from msgspec.structs import replace

from hookline.connections.model import Destination, WebhookSettings
from hookline.journal.record import Record
from hookline.kinds.model import KindSettings, Request

SHARES = (0.0, 0.0, 1.0, 1.0, 1.0, 0.6)
"""How often a destination has a mapping, in runs with any: never, always, or another kind with each change."""
CONDITIONAL = 0.4
"""How many of these make their second request of orders only."""
ORDERS = 'event = "Order"'
ORDER = b'"event":"Order"'
BODY = {name: {"@path": f"$.{name}"} for name in ("messageId", "event", "properties")}
SUCCESSES = (None, {"if": "body.ok = true"}, {"refused": "status = 422", "retry": "status = 503"})
"""How a request knows what its answer means: by the status alone, or by what it reads of the answer."""

ITEMS = (
    {"path": "body.items", "entries": "each", "status": "status"},
    {"path": "body.failed", "index": "at", "status": "status"},
)
"""How it knows of a batch what became of each event (``scheduler._whole_answer``)."""
GATHERED = 0.6
"""How many requests carry several events."""


def mapped(plain: Destination, seed: int, rng: random.Random) -> Destination:
    """Return a destination with a request in the place of each webhook, if it has a mapping from now on."""
    fixed = random.Random(f"{seed}/mapping/{plain.id}")
    settings = plain.settings
    assert isinstance(settings, WebhookSettings)
    if rng.random() >= fixed.choice(SHARES):
        return plain
    requests = [
        {"name": f"r{number}", "url": webhook.url, **_written(rng, settings.shared_secret)}
        for number, webhook in enumerate(settings.webhooks)
    ]
    if len(requests) > 1 and fixed.random() < CONDITIONAL:
        requests[1]["if"] = ORDERS
    return replace(
        plain,
        kind="http",
        settings=KindSettings({"secrets": {"key": settings.shared_secret}} if settings.shared_secret else {}),
        mapping=tuple(msgspec.convert(each, Request) for each in requests),
        delivery=replace(plain.delivery, fan_out="any"),
    )


def requests_of(destination: Destination, record: Record) -> int:
    """Return how many requests an event becomes, all of which must be accepted; 0 for a webhook."""
    return sum(each.condition is None or ORDER in record.body for each in destination.mapping or ())


def _written(rng: random.Random, secret: str | None) -> dict[str, Any]:
    """Return what a request of a mapping is made of."""
    made: dict[str, Any] = {}
    if secret:
        made["headers"] = {"X-Key": {"@template": "{{settings.secrets.key}}"}}
    if rng.random() < 0.5:
        made["body"] = BODY
    success: dict[str, Any] | None = rng.choice(SUCCESSES)
    if rng.random() < GATHERED:
        made["batch"] = _batch(rng)
        success = {**(success or {}), "items": [rng.choice(ITEMS)]}
    if success is not None:
        made["success"] = success
    return made


def _batch(rng: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"size": rng.choice((2, 3, 5)), "wait": rng.choice((0.0, 0.2, 0.8)), "bytes": 1_024}
    made["format"] = rng.choice(("array", "lines", "object"))
    if made["format"] == "object":
        made["field"] = "events"
    return made
