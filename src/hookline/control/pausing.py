"""``/api/v1/destinations/{id}/metrics``, ``pause`` and ``resume``: how a destination stands, and holding it back."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import msgspec
from litestar import Controller, get, post
from litestar.params import FromPath, RawBody

from hookline.connections.model import Pause
from hookline.control.destination_standing import DestinationStanding, standing_of
from hookline.control.journal_ends import journal_ends
from hookline.control.objects import AUTHOR, decode_body, refused_as_problem
from hookline.control.problem import not_found
from hookline.control.services import FromServices, Services


class PauseRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``pause``; ``reason`` is shown to whoever wonders."""

    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""


class ResumeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``resume``; without ``rate`` the receiver gets what has waited as fast as it takes it."""

    rate: Annotated[float, msgspec.Meta(ge=0.01, le=1_000_000)] | None = None


class Pausing(Controller):
    """A paused destination parks its events; nothing is lost, and they are sent when it is resumed."""

    path = "/destinations"

    @get("/{object_id:str}/metrics")
    async def get_destination_metrics(self, services: FromServices, object_id: FromPath[str]) -> DestinationStanding:
        """Return how a destination stands: the state of its lane, and what waits there since when."""
        return await _standing(services, object_id)

    @post("/{object_id:str}/pause", status_code=200)
    async def pause_destination(
        self, services: FromServices, object_id: FromPath[str], body: RawBody
    ) -> DestinationStanding:
        """Park a destination's events until it is resumed; what is in flight still ends."""
        asked = decode_body(body or b"{}", PauseRequest)
        pause = Pause(since=time.time_ns() // 1_000_000, reason=asked.reason)
        refused_as_problem(
            lambda: services.store.pause(object_id, pause, AUTHOR, lambda: journal_ends(services.settings))
        )
        return await _standing(services, object_id)

    @post("/{object_id:str}/resume", status_code=200)
    async def resume_destination(
        self, services: FromServices, object_id: FromPath[str], body: RawBody
    ) -> DestinationStanding:
        """Send what has waited, at most ``rate`` events per second, and what comes from now on."""
        asked = decode_body(body or b"{}", ResumeRequest)
        refused_as_problem(
            lambda: services.store.resume(object_id, asked.rate, AUTHOR, lambda: journal_ends(services.settings))
        )
        services.gone.resumed(object_id)
        return await _standing(services, object_id)


async def _standing(services: Services, object_id: str) -> DestinationStanding:
    stored = services.store.destination(object_id)
    if stored is None:
        raise not_found("destination", object_id)
    return await asyncio.to_thread(standing_of, services.settings.data_path, stored)
