"""The client for asyncio: the same calls, which only queue, and coroutines for what waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, cast

from hookline_client.client import FLUSH_SECONDS
from hookline_client.errors import InvalidOption
from hookline_client.options import resolve
from hookline_client.receipts import FlushResult
from hookline_client.session import Session
from hookline_client.session_verbs import SessionVerbs

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hookline_client.option_values import OptionValues

T = TypeVar("T")

CONSUMERS = ("background", "lib_curl", "fork_curl", "file")
"""Those whose calls only queue or append. A call of ``socket`` sends, which would stop the loop."""


class AsyncClient(SessionVerbs):
    """``Client`` for asyncio: calls are plain functions that never wait, ``flush`` and ``close`` are awaited.

    It belongs to no loop: several may use it, and threads. ``on_full="block"`` is refused, because a call would stop
    the loop; whoever must not lose an event awaits ``flush`` when a call returns None. ``debug`` logs, and does not
    wait. Handlers are called on the thread that sends.
    """

    def __init__(
        self, write_key: str | None = None, options: OptionValues | None = None, **more: Unpack[OptionValues]
    ) -> None:
        resolved = resolve(write_key, {**(options or {}), **more})
        if resolved.on_full == "block":
            raise InvalidOption("invalid_option", "on_full='block' would stop the loop; await flush() for room instead")
        if isinstance(resolved.consumer, str) and resolved.consumer not in CONSUMERS:
            rule = f"an AsyncClient takes {' or '.join(CONSUMERS)}"
            raise InvalidOption("invalid_option", f"consumer={resolved.consumer!r} would stop the loop; {rule}")
        self._session = Session(resolved._replace(debug=False), logs=resolved.debug)

    async def flush(self, timeout: float | None = FLUSH_SECONDS) -> FlushResult:
        """Return when every event queued before is acknowledged or lost, or after ``timeout`` seconds, and say which.

        Cancelled, it tells nothing: the next flush does.
        """
        session = self._living
        waiting = await elsewhere(lambda: session.waiting(timeout))
        return session.ledger.take(waiting)

    async def close(self, timeout: float | None = None) -> FlushResult:
        """Flush, then end: later calls are dropped. ``timeout`` is ``exit_timeout`` when not given."""
        session = self._living
        await elsewhere(lambda: session.end(timeout))
        return session.ledger.take(session.waiting())

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(FLUSH_SECONDS)


async def elsewhere(work: Callable[[], T]) -> T:
    """Run what blocks on a thread of its own: the loop's executor may be full of others' work."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast(T, result))

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:  # noqa: BLE001 - raised where it is awaited
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:  # the loop was closed without waiting for this
            pass

    threading.Thread(target=run, name="hookline-client-flush", daemon=True).start()
    return await future
