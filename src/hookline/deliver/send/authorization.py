"""How requests of a kind show who they come from: the header, or the token that is fetched for it."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence

from hookline.connections.kinds import auth_of, usual_settings
from hookline.connections.model import Destination
from hookline.kinds.headers import HEADERS_BYTES_MAX
from hookline.kinds.model import Auth, Json

_PLACE = re.compile(r"\{\{\s*settings\.([A-Za-z0-9_.]+)\s*\}\}")
_UNSENDABLE = re.compile(r"[^\x20-\x7e\xa0-\xff]")


def resolved_auth(destination: Destination) -> Auth | None:
    """Return the way that a destination's requests are authorized, its templates filled with its resolved settings;
    None for none. Raise ValueError for settings that name no known way."""
    auth = auth_of(destination)
    if auth is None or auth.type == "none":
        return None
    settings = usual_settings(destination)
    values = {name: _filled(getattr(auth, name), settings) for name in auth.__struct_fields__ if name != "type"}
    return Auth(type=auth.type, **values)


def authorization_of(destination: Destination) -> str | None:
    """Return the value of ``Authorization`` that every request carries, None where there is none, or none yet."""
    auth = resolved_auth(destination)
    if auth is None or auth.type == "oauth2":
        return None
    if auth.type in ("bearer", "apikey"):
        return f"{'Bearer' if auth.type == 'bearer' else 'ApiKey'} {auth.token}"
    return "Basic " + base64.b64encode(f"{auth.username}:{auth.password}".encode()).decode()


def check_static_lines(lines: Sequence[tuple[str, str]]) -> None:
    """Raise ValueError for a header that cannot be sent, without its value, which may be a secret."""
    for name, value in lines:
        if _UNSENDABLE.search(value) or len(value) > HEADERS_BYTES_MAX:
            raise ValueError(f"the value of header {name!r} cannot be sent: it is too long, or has control characters")


def _filled(template: str, settings: Mapping[str, Json]) -> str:
    def value(place: re.Match[str]) -> str:
        found: Json = settings
        for part in place[1].split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return found if isinstance(found, str) else ""

    return _PLACE.sub(value, template)
