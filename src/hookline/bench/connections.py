"""The connections of the measured services: sources, each with its write key, and destinations on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookline.bench.event import WRITE_KEY

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
