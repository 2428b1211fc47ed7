"""Count usage: events by source and day."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Literal, NamedTuple

from hookline.api.services import Services, part
from hookline.database.location import DatabaseLocation, location_of
from hookline.database.read_only import ReadOnly

By = Literal["day", "month"]
EPOCH = date(1970, 1, 1)


class UsageCount(NamedTuple):
    """The events of one source in one period, and how many of them filters kept from every destination."""

    period: str
    source: str
    events: int
    filtered: int


class UsageLog:
    """Reads the table; before deliver's first start there is none, which is the same as empty."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._database = ReadOnly(location)

    def counts(self, first: date, last: date, by: By, source: str | None) -> list[UsageCount]:
        """Return the counts of these days by period and source, newest period first."""
        connection = self._database.open()
        if connection is None:
            return []
        rows = connection.execute(
            "SELECT day, source, events, filtered FROM usage"
            " WHERE day >= ?1 AND day <= ?2 AND (source = ?3 OR ?3 IS NULL)",
            ((first - EPOCH).days, (last - EPOCH).days, source),
        )
        sums: dict[tuple[str, str], list[int]] = {}
        for day, name, events, filtered in rows:
            period = (EPOCH + timedelta(days=day)).isoformat()
            found = sums.setdefault((period if by == "day" else period[:7], name), [0, 0])
            found[0] += events
            found[1] += filtered
        ordered = sorted(sorted(sums), key=lambda key: key[0], reverse=True)
        return [UsageCount(*key, *sums[key]) for key in ordered]

    def of_days(self, first: date, last: date) -> dict[date, tuple[int, int]]:
        """Events and filtered ones of all sources, by day; days without any are missing."""
        rows = self._sums("day", first, last)
        return {EPOCH + timedelta(days=day): (events, filtered) for day, events, filtered in rows}

    def of_sources(self, first: date, last: date) -> dict[str, tuple[int, int]]:
        """Events and filtered ones of all these days, by source."""
        return {source: (events, filtered) for source, events, filtered in self._sums("source", first, last)}

    def _sums(self, column: Literal["day", "source"], first: date, last: date) -> list[tuple[Any, int, int]]:
        connection = self._database.open()
        if connection is None:
            return []
        query = f"SELECT {column}, sum(events), sum(filtered) FROM usage WHERE day >= ? AND day <= ? GROUP BY {column}"
        return connection.execute(query, ((first - EPOCH).days, (last - EPOCH).days)).fetchall()

    def close(self) -> None:
        """Close the file; idempotent."""
        self._database.close()


@part
def usage_log(services: Services) -> UsageLog:
    """Return what counts events by day."""
    return UsageLog(location_of(services.settings, "deliver"))
