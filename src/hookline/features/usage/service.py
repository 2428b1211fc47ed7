"""Count usage: events by source and day."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Literal, NamedTuple

from hookline.api.services import Services, deliver_reader, part
from hookline.outcomes.reader import DeliverReader

By = Literal["day", "month"]
EPOCH = date(1970, 1, 1)


class UsageCount(NamedTuple):
    """The events of one source in one period, and how many of them filters kept from every destination."""

    period: str
    source: str
    events: int
    filtered: int


class UsageLog:
    """Sums what deliver counted over days and months."""

    def __init__(self, deliver: DeliverReader) -> None:
        self._deliver = deliver

    def counts(self, first: date, last: date, by: By, source: str | None) -> list[UsageCount]:
        """Return the counts of these days by period and source, newest period first."""
        rows = self._deliver.usage((first - EPOCH).days, (last - EPOCH).days, source)
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
        rows = self._deliver.usage_by("day", (first - EPOCH).days, (last - EPOCH).days)
        return {EPOCH + timedelta(days=day): (events, filtered) for day, events, filtered in rows}

    def of_sources(self, first: date, last: date) -> dict[str, tuple[int, int]]:
        """Events and filtered ones of all these days, by source."""
        rows = self._deliver.usage_by("source", (first - EPOCH).days, (last - EPOCH).days)
        return {source: (events, filtered) for source, events, filtered in rows}


@part
def usage_log(services: Services) -> UsageLog:
    """Return what counts events by day."""
    return UsageLog(deliver_reader(services))
