"""Reading previews: how far each is, and what it came to."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from hookline.database.connection import Connection
from hookline.profiles.preview_wishes import PreviewId

PreviewState = Literal["reading", "counting", "done", "failed"]
OPEN = ("reading", "counting")


class Sampled(NamedTuple):
    """Somebody who was found: the person's number and, for a computed trait, the value."""

    person: int
    value: object


class Preview(NamedTuple):
    """A preview: ``progress`` from 0 to 1; people looked at and found so far; for a failed one what to do."""

    id: PreviewId
    state: PreviewState
    progress: float
    people: int | None
    members: int | None
    detail: str | None
    sample: tuple[Sampled, ...]


class PreviewLog:
    """Reads with a connection of the caller's; the profiles role goes on writing meanwhile."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, id: PreviewId) -> Preview | None:
        """One preview, None when it is gone."""
        query = "SELECT id, state, progress, people, members, detail FROM previews WHERE id = ?"
        row = self._connection.execute(query, (id,)).fetchone()
        if row is None:
            return None
        query = "SELECT person, value FROM preview_sample WHERE preview = ? ORDER BY person"
        rows = self._connection.execute(query, (id,))
        sample = tuple(Sampled(person, msgspec.json.decode(value)) for person, value in rows)
        id, state, progress, people, members, detail = row
        return Preview(id, state, progress, people, members, detail, sample)

    def open(self) -> int:
        """How many are under way."""
        ((count,),) = self._connection.execute("SELECT count(*) FROM previews WHERE state IN (?, ?)", OPEN).fetchall()
        return int(count)
