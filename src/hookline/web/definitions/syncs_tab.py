"""The syncs of a definition, newest first, with a chart where there are several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookline.connections.definitions.model import Definition
from hookline.control.listing import id_number
from hookline.control.services import Services
from hookline.people.sync.results import EndedSync
from hookline.web.address import address
from hookline.web.chart_view import ChartView, Line, chart
from hookline.web.definitions.progress import SyncRow, sync_row
from hookline.web.definitions.section import section_of

ROWS = 50
CHART_FROM = 5
"""Fewer syncs are seen at a glance in the table."""
CHART_SYNCS = 200


class SyncsTab(NamedTuple):
    """One page of the list; ``chart`` shows the newest, whatever the page."""

    rows: Sequence[SyncRow]
    chart: ChartView | None
    first: str
    after: str


async def syncs_tab(services: Services, definition: Definition, after: str) -> SyncsTab:
    """Return the page of the list after a sync's number."""
    section = section_of(definition)
    key, before = section.key(definition.id), id_number(after)
    found = await services.profiles.read(
        lambda reader: (reader.results.syncs(key, CHART_SYNCS), reader.results.syncs(key, ROWS + 1, before))
    )
    newest, page = found or ([], [])
    path = section.href(definition.id, "syncs")
    return SyncsTab(
        rows=[sync_row(each) for each in page[:ROWS]],
        chart=_chart(definition, newest) if len(newest) >= CHART_FROM else None,
        first=path if before is not None else "",
        after=address(path, {}, after=page[ROWS - 1].number) if len(page) > ROWS else "",
    )


def _chart(definition: Definition, newest: Sequence[EndedSync]) -> ChartView:
    syncs = newest[::-1]
    times = [each.at_ms / 1000 for each in syncs]
    came, went = change_words(definition)
    lines = [
        (Line(came, "good"), [float(each.came) for each in syncs]),
        (Line(went, "off"), [float(each.went) for each in syncs]),
    ]
    return chart("syncs", "People changed per sync", "", times, lines, sum)


def change_words(definition: Definition) -> tuple[str, str]:
    """Return what it means that a value came, and that it went."""
    return ("joined", "left") if section_of(definition).kind == "audience" else ("changed", "lost the value")
