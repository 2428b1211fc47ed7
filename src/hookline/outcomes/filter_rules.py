"""Which filter decided about an event, and how it is named: the filters of any connections version, compiled once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from hookline.connections.state import decode_object
from hookline.expressions.lexer import ExpressionError
from hookline.journal.record import Record
from hookline.route.filters import Filters

KEPT = 64
"""Compiled filters kept from one look-up to the next."""

Query = Callable[[str, tuple[str | int, ...]], list[tuple[Any, ...]]]


class FilterRules:
    """Reads destinations as they were at a version, by ``query`` on control.db."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._kept: OrderedDict[tuple[str, int], Filters | None] = OrderedDict()

    def of(self, destination: str, record: Record) -> EventRules:
        """Return the rules for one event at one destination."""
        return EventRules(lambda version: self._at(destination, version), record)

    def _at(self, destination: str, version: int) -> Filters | None:
        key = (destination, version)
        filters = self._kept.pop(key) if key in self._kept else self._read(destination, version)
        self._kept[key] = filters
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return filters

    def _read(self, destination: str, version: int) -> Filters | None:
        rows = self._query(
            "SELECT document FROM objects WHERE kind = 'destination' AND id = ? AND since <= ?"
            " AND (until IS NULL OR until > ?)",
            (destination, version, version),
        )
        try:
            return Filters(decode_object("destination", rows[0][0]).filters) if rows else None
        except (msgspec.MsgspecError, ExpressionError):  # what deliver cannot use either decided nothing
            return None


class EventRules:
    """What the filters of a version do with one event."""

    def __init__(self, filters_at: Callable[[int], Filters | None], record: Record) -> None:
        self._filters_at = filters_at
        self._record = record

    @property
    def source(self) -> str | None:
        """Return the source that routes the event; None for one that is aimed at its destinations."""
        return self._record.source if self._record.to is None else None

    def stopping(self, version: int) -> str | None:
        """Return the filter that does not send the event, None when it is sent."""
        filters = self._filters_at(version)
        index = None if filters is None else filters.decide(self._record).stopped_by
        return None if filters is None or index is None else _named(filters.rule(index), version)

    def editing(self, version: int) -> str | None:
        """Return the filters that take something out of the body, None when it is sent as it came."""
        filters = self._filters_at(version)
        indexes = () if filters is None else filters.edited_by(self._record)
        return "; ".join(_named(filters.rule(index), version) for index in indexes) if filters and indexes else None


def _named(rule: str, version: int) -> str:
    return f"{rule} (connections version {version})"
