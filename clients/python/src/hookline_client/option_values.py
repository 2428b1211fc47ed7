"""The options as they are given, for type checkers; ``Options`` has their defaults and meaning.

Nothing imports this when a program runs: making the type takes as long as making a client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from hookline_client.options import ConsumerFactory, ConsumerName, Policy
from hookline_client.transport import Transport


class OptionValues(TypedDict, total=False):
    """What ``Client``, ``AsyncClient`` and ``init`` take."""

    endpoint: str
    consumer: ConsumerName | ConsumerFactory
    size: int
    flush_at: int
    flush_after: float
    debug: bool
    ssl: bool
    error_handler: Callable[[str, str], object]
    max_queue_size: int
    batch_size: int
    timeout: float
    filename: str
    max_queue_bytes: int
    spool: str
    spool_bytes: int
    on_full: Policy
    block_timeout: float
    gzip: bool
    max_retries: int
    retry_seconds: float
    ca_file: str
    before_send: Callable[[dict[str, Any]], dict[str, Any] | None]
    before_send_failure: Literal["drop", "pass"]
    default_context: Mapping[str, Any]
    default_integrations: Mapping[str, Any]
    enabled: bool
    on_success: Callable[[Sequence[str]], object]
    receipts: bool
    strict: bool
    exit_timeout: float
    transport: Transport
