"""Destinations that are added to a definition: they alone are told what the others were told, in a sync of its own.

While one is under way, no other sync of the definition is; until it is done, syncs go to the destinations that were
there before. So every destination knows of everybody what ``members.sent`` says, and none is told anything twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from hookline.people.definitions.definition import CompiledDefinition, Key
from hookline.people.store.store import ProfileStore

PEOPLE_PER_STEP = 500

Destinations = tuple[str, ...]
Told = list[tuple[int, str, str]]
"""Person, user id and value."""


class FirstSync(NamedTuple):
    """The sync of some destinations alone: its number and time, and up to which person it has come."""

    ready: CompiledDefinition
    definition: int
    number: int
    at_ms: int
    to: Destinations
    person: int


class FirstSyncs:
    """Used from the thread of the one writer, between the steps of syncs."""

    def __init__(self, store: ProfileStore) -> None:
        self._store = store
        self._ready: dict[int, CompiledDefinition] = {}
        self._told: dict[int, Destinations] = {}

    def follow(self, definitions: Sequence[CompiledDefinition], numbers: Mapping[Key, int]) -> None:
        """Go by these definitions; within a transaction."""
        execute = self._store.connection.execute
        told = dict(execute("SELECT id, told FROM definitions").fetchall())
        self._ready = {numbers[ready.key]: ready for ready in definitions}
        for definition, ready in self._ready.items():
            known, wanted = told[definition], ready.destinations
            self._told[definition] = wanted if known is None else _those(_read(known), wanted)
            if known != (written := _written(self._told[definition])):
                execute("UPDATE definitions SET told = ? WHERE id = ?", (written, definition))

    def in_step(self, definition: int) -> Destinations:
        """Return the destinations that know what the definition's last sync told."""
        return self._told[definition]

    def is_due(self, definition: int) -> bool:
        """Return whether destinations of the definition have to be told what the others know."""
        return not set(self._ready[definition].destinations) <= set(self._told[definition])

    def next(self, now_ms: int, but: int | None) -> tuple[FirstSync, Told] | None:
        """Return an introduction that is due, and the next people of it, none when it is through; not of the definition
        ``but``, whose people are being looked at."""
        for definition in self._ready:
            if definition != but and self.is_due(definition):
                introduction = self._introduction(definition, now_ms)
                return introduction, self._people(introduction)
        return None

    def told(self, introduction: FirstSync, people: Sequence[int]) -> None:
        """These people's messages are in the journal; without any, the destinations are as far as the others."""
        execute, definition = self._store.connection.execute, introduction.definition
        if people:
            execute("UPDATE introductions SET person = ? WHERE definition = ?", (people[-1], definition))
            return
        told = self._told[definition] + introduction.to
        with self._store.transaction():
            execute("DELETE FROM introductions WHERE definition = ?", (definition,))
            query = "UPDATE definitions SET told = ?, number = ? WHERE id = ?"
            execute(query, (_written(told), introduction.number, definition))
        self._told[definition] = told

    def _introduction(self, definition: int, now_ms: int) -> FirstSync:
        """Return the one under way, or one that begins; those that were added since it began come after it."""
        execute, ready = self._store.connection.execute, self._ready[definition]
        query = "SELECT destinations, at, person FROM introductions WHERE definition = ?"
        row = execute(query, (definition,)).fetchone()
        if row is None:
            missing = tuple(each for each in ready.destinations if each not in self._told[definition])
            row = _written(missing), now_ms, 0
            execute("INSERT INTO introductions VALUES (?, ?, ?, ?)", (definition, *row))
        destinations, at_ms, person = row
        ((number,),) = execute("SELECT number + 1 FROM definitions WHERE id = ?", (definition,)).fetchall()
        return FirstSync(ready, definition, number, at_ms, _those(_read(destinations), ready.destinations), person)

    def _people(self, introduction: FirstSync) -> Told:
        if not introduction.to:  # taken out again meanwhile
            return []
        query = (
            "SELECT m.person, p.user_id, m.sent FROM members m JOIN persons p ON p.id = m.person"
            " WHERE m.definition = ? AND m.person > ? AND m.sent <> ? AND p.user_id IS NOT NULL"
            " ORDER BY m.person LIMIT ?"
        )
        values = (introduction.definition, introduction.person, introduction.ready.empty, PEOPLE_PER_STEP)
        return self._store.connection.execute(query, values).fetchall()


def _those(destinations: Destinations, of: Destinations) -> Destinations:
    return tuple(each for each in destinations if each in of)


def _written(destinations: Destinations) -> str:
    return msgspec.json.encode(destinations).decode()


def _read(written: str) -> Destinations:
    return msgspec.json.decode(written, type=Destinations)
