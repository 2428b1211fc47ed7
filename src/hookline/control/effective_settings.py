"""``/api/v1/settings``: every setting as the running server has it, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from litestar import get

from hookline.connections.secrets import mask
from hookline.control.listing import Listing
from hookline.control.services import FromServices
from hookline.settings import SECRET_KEYS, Bytes, Seconds, Settings, keys, value_of

URL_KEYS = ("database.url", "journal.url")
UNKNOWN = "unknown"
UNITS: dict[object, tuple[tuple[str, float], ...]] = {
    Seconds: (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)),
    Bytes: (("TB", 1024**4), ("GB", 1024**3), ("MB", 1024**2), ("KB", 1024), ("B", 1)),
}


class EffectiveSetting(msgspec.Struct, frozen=True):
    """One setting; ``source`` is ``flag``, ``env NAME``, ``file PATH`` or ``default``."""

    key: str
    value: Any
    source: str


def effective_settings(settings: Settings, origins: Mapping[str, str]) -> list[EffectiveSetting]:
    """All of them in the order of the reference, secrets masked."""
    return [EffectiveSetting(key, shown(key, value_of(settings, key)), origins.get(key, UNKNOWN)) for key in keys()]


def shown(key: str, value: object) -> object:
    """A setting's value as people may see it."""
    if key in SECRET_KEYS and value is not None:
        return mask(str(value))
    if key in URL_KEYS and (password := urlsplit(str(value)).password):
        return str(value).replace(f":{password}@", f":{mask('')}@", 1)
    return list(value) if isinstance(value, tuple) else value


def written(key: str, value: object) -> str:
    """A setting's value as a settings file has it."""
    value, kind = shown(key, value), keys()[key]
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float) and kind in UNITS:
        return _in_units(value, UNITS[kind])
    return str(value)


def _in_units(value: float, units: tuple[tuple[str, float], ...]) -> str:
    """The value in the largest unit that gives a whole number."""
    for name, size in units:
        if value and value % size == 0:
            return f"{value // size:.0f}{name}"
    return f"{value:g}{units[-1][0]}"


@get("/settings", needs="owner")
async def list_settings(services: FromServices) -> Listing[EffectiveSetting]:
    """Return every setting with its origin; how the running server was started, not what the file says now."""
    return Listing(effective_settings(services.settings, services.origins))
