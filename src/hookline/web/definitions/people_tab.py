"""The people of a definition as its last sync left them: members of an audience, or values of a computed trait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookline.connections.definitions.model import Definition
from hookline.control.listing import id_number
from hookline.control.profile_log import ProfileReader
from hookline.control.services import Services
from hookline.events.timestamps import iso
from hookline.people.sync.state import Held, empty_value
from hookline.web.address import address, person_href
from hookline.web.definitions.section import section_of

ROWS = 50


class PersonRow(NamedTuple):
    """One person with the value as JSON; ``until`` is empty when nothing ends by itself."""

    name: str
    is_anonymous: bool
    href: str
    why: str
    value: str
    since: str
    until: str
    told: bool


class PeopleTab(NamedTuple):
    """One page of the list, in the order in which people were first seen."""

    rows: Sequence[PersonRow]
    first: str
    after: str


async def people_tab(services: Services, definition: Definition, after: str) -> PeopleTab:
    """Return the page after the number of a person."""
    section = section_of(definition)
    above = id_number(after) or 0
    rows = await services.profiles.read(lambda reader: _rows(reader, definition, above)) or []
    path = section.href(definition.id, section.people)
    return PeopleTab(
        rows=[row for _, row in rows[:ROWS]],
        first=path if above else "",
        after=address(path, {}, after=rows[ROWS - 1][0]) if len(rows) > ROWS else "",
    )


def _rows(reader: ProfileReader, definition: Definition, above: int) -> list[tuple[int, PersonRow]]:
    key = section_of(definition).key(definition.id)
    found = reader.sync_states.held(key, empty_value(definition), ROWS + 1, above)
    return [(each.person, _row(reader, definition, each)) for each in found]


def _row(reader: ProfileReader, definition: Definition, held: Held) -> PersonRow:
    anonymous = None if held.user_id is not None else reader.people.person(held.person).anonymous_id()
    name = held.user_id or anonymous or ""
    return PersonRow(
        name=name,
        is_anonymous=held.user_id is None,
        href=person_href(held.user_id, anonymous),
        why=address(section_of(definition).href(definition.id, "why"), {"user": name}),
        value=held.value,
        since=iso(held.since_ms),
        until="" if held.until_ms is None else iso(held.until_ms),
        told=held.told,
    )
