"""The values of settings as people see them: secrets found and masked, times and sizes in units."""

from __future__ import annotations

import re
from urllib.parse import unquote

from hookline.rate_limit import RateLimit
from hookline.secret_references import MASK, is_reference, mask
from hookline.settings import SECRET_KEYS, Bytes, Seconds, keys

URL_KEYS = ("database.url", "journal.url", "tracing.endpoint")
_SECRET_PARAMETER = re.compile(r"password|secret|token|scram_\w+_key", re.IGNORECASE)
"""Of a URL's query: ``password``, ``sslpassword`` and what else libpq takes; names of files are no secrets."""
UNITS: dict[object, tuple[tuple[str, float], ...]] = {
    Seconds: (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)),
    Bytes: (("TB", 1024**4), ("GB", 1024**3), ("MB", 1024**2), ("KB", 1024), ("B", 1)),
}


def shown(key: str, value: object) -> object:
    """Return a setting's value as people may see it."""
    if key in SECRET_KEYS and value is not None:
        return mask(str(value))
    if key in URL_KEYS and value is not None:
        return without_secrets(str(value), MASK)
    if isinstance(value, RateLimit):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def is_secret(key: str, value: object) -> bool:
    """Return whether the value is, or holds, a secret that is written out."""
    if value is None:
        return False
    if key in URL_KEYS:
        return without_secrets(str(value)) != value
    return key in SECRET_KEYS and (key == "control.admin_token" or not is_reference(str(value)))


def without_secrets(url: str, mark: str = "") -> str:
    """Return the URL with ``mark`` for every password in it, or without them."""
    scheme, _, rest = url.partition("://")
    # To libpq everything up to the first @ is user and password unless a slash comes before; what is cut too early here
    # would be shown, so in doubt it is cut late.
    address, question, query = rest.partition("?")
    if "@" not in address and "/" not in address:
        address, question, query = rest, "", ""
    user, at, place = address.rpartition("@")
    user, colon, password = user.partition(":")
    if password:
        user += colon + mark if mark else ""
    pairs = []
    for pair in query.split("&") if question else ():
        name, equals, value = pair.partition("=")
        if not (value and _SECRET_PARAMETER.search(unquote(name))):
            pairs.append(pair)
        elif mark:
            pairs.append(name + equals + mark)
    return f"{scheme}://{user}{at}{place}{'?' if pairs else ''}{'&'.join(pairs)}" if "://" in url else url


def written(key: str, value: object) -> str:
    """Return a setting's value as a settings file has it."""
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
    """Return the value in the largest unit that gives a whole number."""
    for name, size in units:
        if value and value % size == 0:
            return f"{value // size:.0f}{name}"
    return f"{value:g}{units[-1][0]}"
