"""AWS Lambda: a handler's events leave before the function is frozen, within the time that the invocation has left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hookline_client.client import Client
from hookline_client.serverless import SERVERLESS_FLUSH_SECONDS, flush_after

RESERVE_SECONDS = 0.5
"""What a flush leaves of the invocation's time for the answer."""

Handler = TypeVar("Handler", bound=Callable[[Any, Any], Any])


def flush_after_invocation(
    client: Client | None = None, timeout: float = SERVERLESS_FLUSH_SECONDS
) -> Callable[[Handler], Handler]:
    """Decorate a handler ``(event, context)``: when it ends, however it does, the client is flushed.

    ``client`` None is the one of ``init``. The flush takes ``timeout`` seconds at most, and never the last half second
    before the function's own timeout. What it could not send is tried again with the next invocation of this process.
    """

    def seconds_left(*arguments: Any, **named: Any) -> float:
        context = arguments[1] if len(arguments) > 1 else named.get("context")
        remaining = getattr(context, "get_remaining_time_in_millis", None)  # not there when tests call the handler
        return timeout if remaining is None else max(0.0, min(timeout, remaining() / 1000 - RESERVE_SECONDS))

    return flush_after(client, seconds_left)
