"""The values of settings as people see them: secrets masked, times and sizes in units."""

from __future__ import annotations

from urllib.parse import urlsplit

from hookline.rate_limit import RateLimit
from hookline.secret_references import mask
from hookline.settings import SECRET_KEYS, Bytes, Seconds, keys

URL_KEYS = ("database.url", "journal.url", "tracing.endpoint")
UNITS: dict[object, tuple[tuple[str, float], ...]] = {
    Seconds: (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)),
    Bytes: (("TB", 1024**4), ("GB", 1024**3), ("MB", 1024**2), ("KB", 1024), ("B", 1)),
}


def shown(key: str, value: object) -> object:
    """A setting's value as people may see it."""
    if key in SECRET_KEYS and value is not None:
        return mask(str(value))
    if key in URL_KEYS and (password := urlsplit(str(value)).password):
        return str(value).replace(f":{password}@", f":{mask('')}@", 1)
    if isinstance(value, RateLimit):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def written(key: str, value: object) -> str:
    """A setting's value as a settings file has it."""
    value, kind = shown(key, value), keys().get(key)
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
