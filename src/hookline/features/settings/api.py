"""``/api/v1/settings``: every setting as the running server has it, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import get

from hookline.api.handlers import FromServices
from hookline.api.listing import Listing
from hookline.setting_text import shown
from hookline.settings import Settings, keys, value_of

UNKNOWN = "unknown"


class EffectiveSetting(msgspec.Struct, frozen=True):
    """One setting; ``source`` is ``flag``, ``env NAME``, ``file PATH`` or ``default``."""

    key: str
    value: Any
    source: str


def effective_settings(settings: Settings, origins: Mapping[str, str]) -> list[EffectiveSetting]:
    """Return all of them in the order of the reference, secrets masked."""
    return [EffectiveSetting(key, shown(key, value_of(settings, key)), origins.get(key, UNKNOWN)) for key in keys()]


@get("/settings", needs="owner")
async def list_settings(services: FromServices) -> Listing[EffectiveSetting]:
    """List the settings of the running server with their origins, secrets masked."""
    return Listing(effective_settings(services.settings, services.origins))
