"""One person at a time, for those who ask control: reads journal, index and people on a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from hookline.control.profile_log import ProfileReader
from hookline.database.connection import Connection
from hookline.database.location import location_of
from hookline.database.read_only import ReadOnly
from hookline.journal.opening import open_reader
from hookline.journal.port import SearchableReader
from hookline.people.store.people import Identity, Person
from hookline.people.timeline import Ownership, Timeline, of_anonymous_id, of_person, of_user_id
from hookline.settings import Settings

T = TypeVar("T")


class FoundPerson(NamedTuple):
    """Somebody who was asked for. ``person`` is None of whom profiles know nothing, ``owned`` then goes by the id."""

    person: Person | None
    owned: Ownership


class PersonReader(NamedTuple):
    """Used on the log's thread only, within ``PersonLog.read``; ``profiles`` is None before there are any."""

    timeline: Timeline
    profiles: ProfileReader | None
    connection: Connection | None

    def find(self, asked: Identity) -> FoundPerson:
        """Return the person of an id."""
        person = None
        if self.profiles is not None:
            people = self.profiles.people
            person = people.by_user_id(asked.id) if asked.kind == "user" else people.by_anonymous_id(asked.id)
        if person is not None and self.connection is not None:
            return FoundPerson(person, of_person(self.connection, person))
        return FoundPerson(None, of_user_id(asked.id) if asked.kind == "user" else of_anonymous_id(asked.id))


class PersonLog:
    """Before the first audience or computed trait it knows what a person did, and nothing else."""

    def __init__(self, settings: Settings) -> None:
        self._data_path = settings.data_path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="person-log")
        self._database = ReadOnly(location_of(settings, "profiles"))
        self._journal: SearchableReader | None = None

    async def read(self, work: Callable[[PersonReader], T]) -> T:
        """Return what some work comes to."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._read(work))

    def close(self) -> None:
        """Stop reading; idempotent."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._database.close()
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _read(self, work: Callable[[PersonReader], T]) -> T:
        if self._journal is None:
            self._journal = open_reader(self._data_path / "journal")
        connection = self._database.open()
        profiles = None if connection is None else ProfileReader(connection, self._journal)
        return work(PersonReader(Timeline(self._journal, self._data_path / "index"), profiles, connection))
