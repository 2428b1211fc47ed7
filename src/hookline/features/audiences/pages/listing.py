"""The lists of audiences and of computed traits: searched and sorted, all of it in the address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookline.api.listing import id_number
from hookline.api.services import Services
from hookline.connections.definitions.model import Definition
from hookline.features.audiences.pages.progress import DefinitionProgress, DefinitionSection, progress_of
from hookline.web.lists import Label, address, destination_label

ROWS = 50
SYNCED_SHOWN = 3
SORTS = ("name", "people", "synced")
"""What a list can be sorted by; with a minus before it the other way round."""
FROM_LARGE = ("people", "synced")
"""Sorted by these, the largest and the newest come first."""


class DefinitionRow(NamedTuple):
    """One of the list, with the first few destinations that it is synced to."""

    definition: Definition
    href: str
    progress: DefinitionProgress
    synced_to: Sequence[Label]
    synced_to_more: int


class SortLink(NamedTuple):
    """A column's head: where it leads, and how the list is sorted by it now (``ascending``, ``descending``, empty)."""

    href: str
    sorted: str


class DefinitionList(NamedTuple):
    """One page of the list; ``total`` counts all there are, ``first`` and ``after`` are addresses, or empty."""

    rows: Sequence[DefinitionRow]
    search: str
    sort: str
    total: int
    matching: int
    first: str
    after: str
    sorts: dict[str, SortLink]


async def definition_list(
    services: Services, section: DefinitionSection, search: str, sort: str, after: str
) -> DefinitionList:
    """Gather the page behind the first ``after`` rows; what cannot be sorted by is sorted by name."""
    column = sort.removeprefix("-")
    column, sort = (column, sort) if column in SORTS else ("name", "")
    every: list[Definition] = [stored.object for stored in services.store.in_force(section.kind)]
    wanted = search.strip().casefold()
    matching = [each for each in every if not wanted or wanted in each.id.casefold() or wanted in each.name.casefold()]
    matching.sort(key=lambda each: (each.name.casefold(), each.id))
    start = id_number(after) or 0
    is_turned = sort.startswith("-")
    if column == "name":
        matching = matching[::-1] if is_turned else matching
        shown = matching[start : start + ROWS]
        rows = list(zip(shown, await progress_of(services, shown), strict=True))
    else:  # of everything it has to be known then
        rows = list(zip(matching, await progress_of(services, matching), strict=True))
        rows.sort(key=lambda row: _rank(column, row[1]), reverse=not is_turned)
        rows = rows[start : start + ROWS]
    asked = {"search": search, "sort": sort}
    more = start + ROWS < len(matching)
    return DefinitionList(
        rows=[
            DefinitionRow(
                definition=definition,
                href=section.href(definition.id),
                progress=progress,
                synced_to=[destination_label(services.store, id) for id in definition.destinations[:SYNCED_SHOWN]],
                synced_to_more=max(0, len(definition.destinations) - SYNCED_SHOWN),
            )
            for definition, progress in rows
        ],
        search=search,
        sort=sort,
        total=len(every),
        matching=len(matching),
        first=address(section.path, asked) if start else "",
        after=address(section.path, asked, after=start + ROWS) if more else "",
        sorts={each: _link(section, search, each, column, is_turned) for each in SORTS},
    )


def _rank(column: str, progress: DefinitionProgress) -> tuple[bool, float | str]:
    if column == "people":
        return progress.people is not None, progress.people or 0
    return progress.sync is not None, "" if progress.sync is None else progress.sync.at


def _link(section: DefinitionSection, search: str, each: str, column: str, is_turned: bool) -> SortLink:
    turned = f"-{each}" if each == column and not is_turned else each
    href = address(section.path, {"search": search, "sort": "" if turned == "name" else turned})
    if each != column:
        return SortLink(href, "")
    return SortLink(href, "descending" if (each in FROM_LARGE) is not is_turned else "ascending")
