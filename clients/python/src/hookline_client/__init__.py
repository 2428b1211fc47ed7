"""Sends identify, track, page, screen, group and alias calls to Hookline: queued, batched, never in the way.

``init(write_key, options)`` and the calls below hold one client per process; ``Client`` objects may be many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookline_client.client import Client
from hookline_client.errors import HooklineError, InvalidCall, InvalidOption, NotQueued
from hookline_client.module import alias, client, close, flush, group, identify, init, page, screen, track
from hookline_client.options import Options
from hookline_client.receipts import FlushResult, Receipt, Stats
from hookline_client.version import VERSION as __version__

if TYPE_CHECKING:
    from hookline_client.aio import AsyncClient
    from hookline_client.serverless import flush_after

__all__ = [
    "AsyncClient",
    "Client",
    "FlushResult",
    "HooklineError",
    "InvalidCall",
    "InvalidOption",
    "NotQueued",
    "Options",
    "Receipt",
    "Stats",
    "__version__",
    "alias",
    "client",
    "close",
    "flush",
    "flush_after",
    "group",
    "identify",
    "init",
    "page",
    "screen",
    "track",
]

# What is imported when it is asked for: asyncio takes longer to import than all of this library.
_LATER = {"AsyncClient": "hookline_client.aio", "flush_after": "hookline_client.serverless"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)
