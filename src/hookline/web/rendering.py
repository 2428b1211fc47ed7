"""Templates into answers. Event content is hostile: everything is escaped, and nothing here ever marks text as safe."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from litestar import Response

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent
STATIC_FOLDER = FOLDER / "static"

NUMBER_SPACE = "\u202f"
"""Between groups of three digits: narrow, and no line break."""

MARKS = {
    "delivered": ("good", "●", "delivered"),
    "waiting": ("wait", "◔", "waiting"),
    "parked": ("wait", "◔", "parked"),
    "retrying": ("warn", "▲", "retrying"),
    "failed": ("dead", "■", "failed"),
    "expired": ("dead", "■", "expired"),
    "expired_by_retention": ("dead", "■", "expired by retention"),
    "rejected": ("dead", "■", "rejected"),
    "filtered": ("off", "○", "filtered"),
    "not_routed": ("off", "○", "not routed"),
    "duplicate": ("off", "○", "duplicate"),
    "suppressed": ("off", "○", "suppressed"),
    "discarded": ("off", "○", "discarded"),
    "erased": ("off", "○", "erased"),
}
"""Colour, shape and word of each fate: never colour alone."""


def page(template: str, status: int = 200, headers: dict[str, str] | None = None, **values: object) -> Response[str]:
    """Render a template as an HTML answer."""
    text = _environment().get_template(template).render(**values)
    return Response(text, status_code=status, media_type="text/html", headers=headers)


def redirect(path: str) -> Response[str]:
    """Send the browser to another page of ours."""
    return Response("", status_code=303, media_type="text/html", headers={"Location": path})


def number(value: float) -> str:
    """``1234567`` with narrow spaces between groups."""
    return f"{value:,.0f}".replace(",", NUMBER_SPACE)


@cache
def static_version(name: str) -> str:
    """Part of an asset's address, so that it may be cached for ever."""
    return sha256((STATIC_FOLDER / name).read_bytes()).hexdigest()[:12]


def static_url(name: str) -> str:
    """The address of an asset."""
    return f"/static/{name}?v={static_version(name)}"


def iso_seconds(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601, for ``<time>``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@cache
def _environment() -> Environment:
    # Imported at the first page, not at the start: a role that nobody looks at stays lighter.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(number=number, iso=iso_seconds)
    environment.globals.update(static=static_url, marks=MARKS)
    return environment
