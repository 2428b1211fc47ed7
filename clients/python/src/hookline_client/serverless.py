"""For handlers whose process is stopped as soon as they return: flush before that."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from hookline_client import module
from hookline_client.aio import AsyncClient, elsewhere
from hookline_client.client import Client
from hookline_client.identifiers import reseed

SERVERLESS_FLUSH_SECONDS = 5.0

Handler = TypeVar("Handler", bound=Callable[..., Any])


def flush_after(
    client: Client | AsyncClient | None = None,
    timeout: float | Callable[..., float] = SERVERLESS_FLUSH_SECONDS,
) -> Callable[[Handler], Handler]:
    """Decorate a handler, a coroutine function too: when it ends, however it does, the client is flushed.

    ``client`` None is the one of ``init``. A flush that takes longer than ``timeout`` seconds is left at that: what
    waits is tried again when the next call comes to this process. ``timeout`` may be a function of the handler's
    arguments, called when the handler has ended.
    """

    def seconds(arguments: tuple[Any, ...], named: dict[str, Any]) -> float:
        return timeout(*arguments, **named) if callable(timeout) else timeout

    def decorate(handler: Handler) -> Handler:
        state = {"fresh": True}

        def begin() -> None:
            # A process may have been copied from a snapshot that was taken after the import.
            if state.pop("fresh", False):
                reseed()

        @functools.wraps(handler)
        def call(*arguments: Any, **named: Any) -> Any:
            begin()
            try:
                return handler(*arguments, **named)
            finally:
                _flush(client, seconds(arguments, named))

        @functools.wraps(handler)
        async def call_async(*arguments: Any, **named: Any) -> Any:
            begin()
            try:
                return await handler(*arguments, **named)
            finally:
                await _flush_async(client, seconds(arguments, named))

        if isinstance(client, AsyncClient) and not inspect.iscoroutinefunction(handler):
            raise TypeError("an AsyncClient is flushed after coroutine functions; give a Client for plain ones")
        return cast(Handler, call_async if inspect.iscoroutinefunction(handler) else call)

    return decorate


def _flush(client: Client | AsyncClient | None, timeout: float) -> None:
    if isinstance(client, Client):
        client.flush(timeout)
    elif client is None:
        module.flush(timeout)


async def _flush_async(client: Client | AsyncClient | None, timeout: float) -> None:
    if isinstance(client, AsyncClient):
        await client.flush(timeout)
    else:
        await elsewhere(lambda: _flush(client, timeout))
