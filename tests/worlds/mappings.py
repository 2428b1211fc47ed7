"""Destinations whose requests are made by a mapping: what becomes of the webhooks of a run's destinations."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from msgspec.structs import replace

from hookline.connections.model import Destination, WebhookSettings
from hookline.kinds.model import KindSettings, Request

SHARE = 0.6
"""How many destinations have a mapping, in runs with any."""
BODY = {name: {"@path": f"$.{name}"} for name in ("messageId", "event", "properties")}
SUCCESSES = (None, {"if": "body.ok = true"}, {"refused": "status = 422", "retry": "status = 503"})
"""How a request knows what its answer means: by the status alone, or by what it reads of the answer."""


def mapped(plain: Destination, seed: int, rng: random.Random) -> Destination:
    """Return a destination as it is with a mapping, if it is one of those that have one; it stays one."""
    fixed = random.Random(f"{seed}/mapping/{plain.id}")
    assert isinstance(plain.settings, WebhookSettings)
    if fixed.random() >= SHARE:
        return plain
    requests = [_request(plain, rng)]
    secret = plain.settings.shared_secret
    return replace(
        plain,
        kind="http",
        settings=KindSettings({"secrets": {"key": secret}} if secret else {}),
        mapping=tuple(msgspec.convert(each, Request) for each in requests),
        delivery=replace(plain.delivery, fan_out="any"),
    )


def requests_of(destination: Destination) -> int:
    """Return how many requests an event becomes, all of which must be accepted; 0 for a webhook."""
    return len(destination.mapping or ())


def _request(plain: Destination, rng: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"name": "r0", "url": f"https://{plain.id}.example.com/0"}
    if plain.settings.shared_secret:
        made["headers"] = {"X-Key": {"@template": "{{settings.secrets.key}}"}}
    if rng.random() < 0.5:
        made["body"] = BODY
    success = rng.choice(SUCCESSES)
    if success is not None:
        made["success"] = success
    return made
