"""Which records a replay sends: asked by its lane, by the count before it begins, and by ``why`` afterwards.

The connections in force now decide, as for any lane: sources, filters, and the caller's choice of destinations. Places
and duplicates are not asked about here.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hookline.connections.model import Destination
from hookline.events.untyped import read_number
from hookline.expressions.lexer import ExpressionError
from hookline.journal.record import Record
from hookline.kinds.catalog import published_name
from hookline.replays.model import ReplayRequest
from hookline.route.decision import refusal
from hookline.route.filters import Filters, filters_of

Predicate = Callable[[Record], bool]


def predicate_of(request: ReplayRequest, destination: Destination) -> Predicate:
    """Return the rule as one function. A source that the request names need not be connected to the destination, nor
    those of dead letters that somebody chose: a replay may have sent them."""
    sources = frozenset(destination.sources if request.source is None else (request.source,))
    is_of_any_source = request.source is None and request.dead_letters is not None
    name, id = published_name(destination.kind), destination.id
    since, until = request.since_ms or 0, request.until_ms or 1 << 62
    type_, event, user = request.type, request.event, request.user_id
    only_source = request.source
    filters = None if request.ignore_filters else _stopping_filters(destination)

    def sends(record: Record) -> bool:
        if record.erased or record.rejection is not None or not since <= record.received_at < until:
            return False
        if record.to is not None:
            if id not in record.to or only_source not in (None, record.source):
                return False
        elif record.source not in sources and not is_of_any_source:
            return False
        if type_ is not None and record.type != type_:
            return False
        if user is not None and record.user_key != user:
            return False
        if record.selection is not None and refusal(record.selection, name) is not None:
            return False
        if event is not None and event_name(record) != event:
            return False
        return filters is None or filters.passes(record)

    return sends


def event_name(record: Record) -> str:
    """Return a track call's event, a page's or screen's name; empty for other types and unreadable bodies."""
    try:
        named = _named.decode(record.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    found = named.event if record.type == "track" else named.name
    return found if isinstance(found, str) else ""


def _stopping_filters(destination: Destination) -> Filters | None:
    """Return the destination's filters if they keep events from being sent; what they take out is the sender's
    to do."""
    try:
        filters = filters_of(destination)
    except ExpressionError:  # deliver cannot use them either, and sends nothing until they are mended
        return None
    return filters if filters is not None and filters.stops else None


class _Named(msgspec.Struct):
    event: object = None
    name: object = None


_named = msgspec.json.Decoder(_Named, float_hook=read_number)
