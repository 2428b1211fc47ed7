"""``/events``: the live debugger. The page is drawn once; its script follows the event stream of the admin API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import msgspec
from litestar import Request, Response, get

from hookline.control.event_log import FATES
from hookline.control.services import FromServices, Services
from hookline.journal.record import MessageType
from hookline.outcomes.urgency import urgency
from hookline.web.rendering import MARKS
from hookline.web.screen import screen
from hookline.web.snippets import collect_url

SOURCES_SHOWN = 200
"""Sources to pick from; with more of them the others are named in the address."""
FILTERS = ("text", "type", "event", "userId", "source", "fate")
FILTER_CHARACTERS_MAX = 1_000
FILTER_WORDS = {"waiting": "queued: next", "parked": "queued: held back"}
"""Two statuses with one word can be picked apart here."""


class DebuggerPage(NamedTuple):
    """What the script begins with; ``marks`` and ``keys`` (write key by source) are JSON."""

    asked: Mapping[str, str]
    types: Sequence[tuple[str, str]]
    sources: Sequence[tuple[str, str]]
    fates: Sequence[tuple[str, str]]
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
    ranked = sorted(FATES, key=urgency)
    marks = [dict(zip(("fate", "kind", "shape", "word"), (fate, *MARKS[fate]), strict=True)) for fate in ranked]
    return DebuggerPage(
        asked=asked,
        types=[(each, each) for each in get_args(MessageType)],
        sources=named,
        fates=[(fate, FILTER_WORDS.get(fate, MARKS[fate][2])) for fate in ranked],
        marks=msgspec.json.encode(marks).decode(),
        keys=msgspec.json.encode({each.id: each.write_keys[0] for each in sources if each.write_keys}).decode(),
        collect=collect_url(services.settings),
    )
