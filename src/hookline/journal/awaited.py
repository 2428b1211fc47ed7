"""Waiting for an append that tells by a callback: the same for every backend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from hookline.journal.record import Record

Done = Callable[[BaseException | None], None]
"""Called once: with None when everything is durable, else with the error."""


async def awaited(append_soon: Callable[[Sequence[Record], Done], None], records: Sequence[Record]) -> None:
    """Append and return once it is durable; raise what went wrong."""
    stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: BaseException | None) -> None:
        if stored.done():
            return  # the caller was cancelled
        if error is None:
            stored.set_result(None)
        else:
            stored.set_exception(error)

    append_soon(records, done)
    await stored
