"""Turn templates into answers: whole pages with the rail, or only their live parts. Event content is hostile:
everything is escaped, and nothing here ever marks text as safe.

Both come from the same address and the same template; the script asks with the header ``X-Parts``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from gzip import compress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from litestar import Request, Response

from hookline.api.calls import PARTS_HEADER, current_caller, the_call
from hookline.api.listing import CURSOR_CHARACTERS_MAX
from hookline.api.services import COUNTED_MAX, Services
from hookline.cli.launch import command_line
from hookline.events.timestamps import split_at_times
from hookline.journal.record import SYNC_SOURCE
from hookline.web.lists import Label, destination_label, event_href, person_href, source_label

if TYPE_CHECKING:
    from jinja2 import Environment
    from litestar.types import ControllerRouterHandler

    from hookline.connections.store import Store


class Station(NamedTuple):
    """One stop on the way, with its count."""

    name: str
    value: str
    note: str
    state: str


class Stop(NamedTuple):
    """One entry; ``icon`` is the path of its 24 × 24 drawing."""

    id: str
    title: str
    href: str
    letter: str
    icon: str
    tally: Callable[[Services], int] | None = None
    """What is counted beside the title, where that asks for somebody; it must cost nothing."""


class Screens(NamedTuple):
    """The pages of a feature, its entries in the rail, and the page of the documentation about each.

    ``docs`` names it (``web.docs``) by template, or by entry of the rail for all screens that belong there.
    """

    handlers: tuple[ControllerRouterHandler, ...]
    rail: tuple[Stop, ...] = ()
    docs: Mapping[str, str] = {}


def show_rail(stops: Iterable[Stop], doc_of: Callable[[str, str], object]) -> None:
    """Have every page show these entries, in this order, and link to what documents it.

    ``doc_of`` is asked with the page's template and its entry.
    """
    from jinja2 import pass_context

    environment = _environment()
    environment.globals["rail"] = tuple(stops)
    environment.globals["docs_page"] = pass_context(lambda context: doc_of(context.name, context.get("here", "")))


QUERY_CHARACTERS_MAX = 1_000
GZIP_LEVEL = 3
"""A page of 100 KB becomes a tenth of that in about a millisecond."""


def screen(request: Request[Any, Any, Any], template: str, here: str, **values: object) -> Response[Any]:
    """Render a screen; ``here`` is the rail's entry it belongs to."""
    layout = "parts.html" if _wants_parts(request) else "app.html"
    text = render(template, {"layout": layout, "here": here, "tallies": _tallies(request), **values})
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return html(text)
    # Secrets beside what an address holds are no oracle here: other sites' requests come without the strict cookie.
    headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return Response(compress(text.encode(), GZIP_LEVEL, mtime=0), media_type="text/html", headers=headers)


def _tallies(request: Request[Any, Any, Any]) -> dict[str, int]:
    services, rail = request.app.state["services"], _environment().globals["rail"]
    found = {stop.id: stop.tally(services) for stop in rail if stop.tally is not None}  # type: ignore[attr-defined]
    return {id: count for id, count in found.items() if count}


def unknown(request: Request[Any, Any, Any], here: str, heading: str, title: str, id: str, hint: str) -> Response[str]:
    """Say that an address names nothing; the page watches and moves on when it does."""
    if _wants_parts(request):
        return html("", 204)
    values = {"heading": heading, "title": title, "id": id, "hint": hint, "tallies": _tallies(request)}
    return html(render("unknown.html", {"layout": "app.html", "here": here, **values}), 404)


def query_of(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Return the address's query, no value longer than anything that can be looked for, or than a cursor."""
    longest = {"after": CURSOR_CHARACTERS_MAX}
    return {name: str(value)[: longest.get(name, QUERY_CHARACTERS_MAX)] for name, value in request.query_params.items()}


def _wants_parts(request: Request[Any, Any, Any]) -> bool:
    return PARTS_HEADER in request.headers


FOLDER = Path(__file__).parent
STATIC_FOLDER = FOLDER / "static"
FEATURES = FOLDER.parent / "features"
"""A feature's templates stand with it; their names are unique among all."""

SOURCE_NAMES_MAX = 1_000
"""Names that a page hands to its script; beyond, the script shows ids."""

NUMBER_SPACE = "\u202f"
"""Between groups of three digits: narrow, and no line break."""

MARKS = {
    "delivered": ("good", "●", "delivered"),
    "queued": ("wait", "◔", "queued"),
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
"""Colour, shape and word of each status: never colour alone."""


def page(template: str, status: int = 200, headers: dict[str, str] | None = None, **values: object) -> Response[str]:
    """Render a template as an HTML answer."""
    return html(render(template, values), status, headers)


def html(text: str, status: int = 200, headers: dict[str, str] | None = None) -> Response[str]:
    """Return an HTML answer."""
    return Response(text, status_code=status, media_type="text/html", headers=headers)


def render(template: str, values: Mapping[str, object]) -> str:
    """Fill a template in."""
    return _environment().get_template(template).render({"me": current_caller(), **values})


def render_for_nobody(template: str, values: Mapping[str, object]) -> str:
    """Fill in a template that does not ask who looks at it."""
    return _environment().get_template(template).render({"me": None, **values})


def redirect(path: str) -> Response[str]:
    """Send the browser to another page of ours."""
    return Response("", status_code=303, media_type="text/html", headers={"Location": path})


def number(value: float) -> str:
    """``1234567`` with narrow spaces between groups."""
    return f"{value:,.0f}".replace(",", NUMBER_SPACE)


def counted(value: int) -> str:
    """Return a number that is only counted up to a bound, such as a destination's dead letters."""
    return number(value) if value < COUNTED_MAX else f"{number(COUNTED_MAX)}+"


def amount(value: float) -> str:
    """Return a number for a table: whole where it is large, three digits that count where it is small."""
    return number(value) if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def rate(per_second: float) -> str:
    """Write how often something happens in the unit that reads well: ``12.5/s``, ``40/min``."""
    return f"{amount(per_second)}/s" if per_second >= 1 else f"{amount(round(per_second * 60, 1))}/min"


def milliseconds(value: float) -> str:
    """Write a time in the unit that reads well: ``840 ms``, ``1.3 s``, ``2.5 min``."""
    if value < 1000:
        return f"{amount(value)} ms"
    return f"{value / 1000:.3g} s" if value < 60_000 else f"{amount(round(value / 60_000, 1))} min"


def outcome_word(name: str) -> str:
    """Return the words for the outcome of an attempt."""
    return name.replace("_", " ")


def json_text(value: object) -> str:
    """Return a value as JSON, for people; it is escaped like any other text."""
    return msgspec.json.encode(value).decode()


def size(value: float) -> str:
    """Bytes in the unit that leaves few digits (powers of 1024, as the settings write them)."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(value) < 1024:
            return f"{amount(value)} {unit}"
        value /= 1024
    return f"{amount(value)} TB"


def lasting(seconds: float) -> str:
    """Return a span of time in its largest whole unit."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length and seconds % length == 0:
            return f"{number(seconds / length)} {unit}"
    return f"{number(seconds)} seconds"


def header_lines(headers: Mapping[str, str]) -> str:
    """Headers as people write them, one per line."""
    return "\n".join(f"{name}: {value}" for name, value in headers.items())


@cache
def static_version(name: str) -> str:
    """Part of an asset's address, so that it may be cached for ever."""
    return sha256((STATIC_FOLDER / name).read_bytes()).hexdigest()[:12]


def static_url(name: str) -> str:
    """Return the address of an asset."""
    return f"/static/{name}?v={static_version(name)}"


def iso_seconds(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601, for ``<time>``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _of_the_call(label: Callable[[Store, str], Label]) -> Callable[[str], Label]:
    """Give templates a label by id alone: the environment outlives a service, and knows none."""
    return lambda id: label(the_call().services.store, id)


def _source_names() -> str:
    """Return the names of sources by id, for scripts that show events (static/elements.js)."""
    sources = the_call().services.store.sources()[:SOURCE_NAMES_MAX]
    return json_text({stored.object.id: stored.object.name for stored in sources})


def _command(words: str) -> str:
    """Return a line for a terminal on the machine of the server."""
    return command_line(words, the_call().services.settings)


@cache
def _environment() -> Environment:
    # Imported at the first page, not at the start: a role that nobody looks at stays lighter.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([FOLDER / "templates", *sorted(FEATURES.glob("*/templates"))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        number=number,
        amount=amount,
        milliseconds=milliseconds,
        rate=rate,
        outcome=outcome_word,
        counted=counted,
        size=size,
        lasting=lasting,
        iso=iso_seconds,
        tojson_text=json_text,
    )
    environment.globals.update(
        event_href=event_href,
        person_href=person_href,
        source_label=_of_the_call(source_label),
        source_names=_source_names,
        sync_source=SYNC_SOURCE,
        destination_label=_of_the_call(destination_label),
        static=static_url,
        command=_command,
        marks=MARKS,
        rail=(),
        header_lines=header_lines,
        split_at_times=split_at_times,
    )
    return environment
