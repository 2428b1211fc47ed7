"""``/api/v1/workers``: the deliver processes over all machines, and who delivers which partition."""

from __future__ import annotations

import asyncio

from litestar import get

from hookline.api.handlers import FromServices
from hookline.features.fleet.service import Fleet, fleet_log


@get("/workers", needs="viewer")
async def get_workers(services: FromServices) -> Fleet:
    """Return the deliver processes, the partitions of each, and how far behind each partition is."""
    return await asyncio.to_thread(fleet_log(services).look)
