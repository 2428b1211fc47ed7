"""``/events``: the live debugger. The page is drawn once; its script follows the event stream of the admin API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import msgspec
from litestar import Request, Response, get

from hookline.control.services import FromServices, Services
from hookline.journal.record import MessageType
from hookline.outcomes.status import QUEUED_BECAUSE, DeliveryStatus, urgency
from hookline.web.rendering import MARKS
from hookline.web.screen import screen
from hookline.web.snippets import collect_url

SOURCES_SHOWN = 200
"""Sources to pick from; with more of them the others are named in the address."""
FILTERS = ("text", "type", "event", "userId", "source", "status")
FILTER_CHARACTERS_MAX = 1_000


class DebuggerPage(NamedTuple):
    """What the script begins with; ``marks`` and ``keys`` (write key by source) are JSON."""

    asked: Mapping[str, str]
    types: Sequence[tuple[str, str]]
    sources: Sequence[tuple[str, str]]
    statuses: Sequence[tuple[str, str]]
    marks: str
    keys: str
    collect: str


@get("/events", needs="viewer")
async def show_debugger(request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
    """Show the debugger with the filters of the address."""
    asked = {name: request.query_params.get(name, "")[:FILTER_CHARACTERS_MAX] for name in FILTERS}
    return screen(request, "debugger.html", "events", view=debugger_page(services, asked))


def debugger_page(services: Services, asked: Mapping[str, str]) -> DebuggerPage:
    """Return the debugger's choices."""
    sources = [stored.object for stored in services.store.sources()[:SOURCES_SHOWN]]
    named = [(source.id, source.name) for source in sources]
    if asked["source"] and asked["source"] not in dict(named):
        named.append((asked["source"], asked["source"]))
    ranked = sorted(DeliveryStatus, key=urgency)
    marks: list[dict[str, object]] = [
        {**dict(zip(("kind", "shape", "word"), MARKS[status], strict=True)), "status": status} for status in ranked
    ]
    marks[ranked.index(DeliveryStatus.QUEUED)]["reasons"] = QUEUED_BECAUSE
    return DebuggerPage(
        asked=asked,
        types=[(each, each) for each in get_args(MessageType)],
        sources=named,
        statuses=[(status.value, MARKS[status][2]) for status in ranked],
        marks=msgspec.json.encode(marks).decode(),
        keys=msgspec.json.encode({each.id: each.write_keys[0] for each in sources if each.write_keys}).decode(),
        collect=collect_url(services.settings),
    )
