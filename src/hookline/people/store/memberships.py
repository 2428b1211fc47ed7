"""The history of membership: when somebody became a member of an audience, or ceased to be one, and in which sync.

What holds now is in ``members``, with since when; what held before is written to ``membership_changes`` when it ends.
Of a person under several numbers the histories are laid over each other: a member is who is one under any of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hookline.database.connection import Connection
from hookline.database.upsert import replacing
from hookline.people.store.people import Person

CHANGES_MAX = 50
"""Of one person and audience, beside what holds now; the oldest go first."""


class Change(NamedTuple):
    """Somebody became, or ceased to be, a member; the sync is None where it came before syncs were written down."""

    audience: str
    at_ms: int
    member: bool
    sync: int | None


class Held(NamedTuple):
    """What a sync left for a number: from which instant on, a member or not, and the sync."""

    definition: int
    person: int
    at_ms: int
    member: bool
    sync: int | None


def changes_of(connection: Connection, person: Person, audience: str | None = None) -> list[Change]:
    """Return the changes of one person, newest first; in one audience or in all there are."""
    numbers = ",".join(str(each) for each in person.numbers)
    query = (
        "SELECT d.name, m.person, m.since, CASE m.value WHEN 'true' THEN 1 ELSE 0 END, m.since_sync"
        f" FROM definitions d CROSS JOIN members m WHERE m.definition = d.id AND m.person IN ({numbers})"
        " AND d.kind = 'audience' AND d.name = coalesce(?, d.name)"
        " UNION ALL SELECT d.name, c.person, c.at, c.member, c.sync FROM definitions d CROSS JOIN membership_changes c"
        f" WHERE c.definition = d.id AND c.person IN ({numbers})"
        " AND d.kind = 'audience' AND d.name = coalesce(?, d.name)"
        # At one instant who comes is before who goes: a merge moves a membership from one number to another.
        " ORDER BY 3, 4 DESC"
    )
    held: dict[str, set[int]] = {}
    found: list[Change] = []
    for name, number, at_ms, is_member, sync in connection.execute(query, (audience, audience)):
        under = held.setdefault(name, set())
        was = bool(under)
        (under.add if is_member else under.discard)(number)
        if bool(under) != was:
            found.append(Change(name, at_ms, bool(under), sync))
    return found[::-1]


def keep(connection: Connection, ended: Iterable[Held]) -> None:
    """Write down what held until now, and drop what is too old beside it; within a transaction."""
    rows = list(ended)
    query = replacing("membership_changes", ("definition", "person", "at"), ("member", "sync"))
    connection.executemany(query, [(*each[:3], int(each.member), each.sync) for each in rows])
    connection.executemany(
        "DELETE FROM membership_changes WHERE definition = ? AND person = ? AND at <="
        " (SELECT at FROM membership_changes WHERE definition = ? AND person = ?"
        f" ORDER BY at DESC LIMIT 1 OFFSET {CHANGES_MAX})",
        [(each.definition, each.person) * 2 for each in rows],
    )
