"""Look people up: profiles, and one person's events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from hookline.api.calls import CallersTurns
from hookline.api.services import Services, part
from hookline.database.connection import Connection
from hookline.database.location import location_of
from hookline.database.migrate import HEADS, schema_number
from hookline.database.read_only import ReadOnly
from hookline.journal.opening import open_reader
from hookline.journal.port import Reader, SearchableReader
from hookline.journal.record import Record
from hookline.outcomes.progress import OFFSET_MASK, POSITION_SHIFT
from hookline.people.previews import PreviewLog
from hookline.people.store.people import Change, Identity, People, Person, changes_of
from hookline.people.store.search import PeopleSearch
from hookline.people.sync.results import SyncResults, SyncStates
from hookline.people.timeline import Ownership, Timeline, of_anonymous_id, of_person, of_user_id
from hookline.settings import Settings

T = TypeVar("T")


class ProfileReader:
    """Used on the log's thread only, within ``ProfileLog.read``."""

    def __init__(self, connection: Connection, journal: Reader) -> None:
        self.people = People(connection)
        self.search = PeopleSearch(connection)
        self.results = SyncResults(connection)
        self.previews = PreviewLog(connection)
        self._connection = connection
        self.sync_states = SyncStates(connection)
        self._journal = journal

    def membership_changes(self, person: Person, audience: str | None = None) -> list[Change]:
        """Return when the person came to and went from an audience, or all of them; newest first."""
        return changes_of(self._connection, person, audience)

    def record(self, position: int) -> Record | None:
        """Return the record at a position, None when the journal has it no more."""
        found = self._journal.get(position >> POSITION_SHIFT, position & OFFSET_MASK)
        return None if found is None or found.erased else found


class ProfileLog:
    """Before the first audience or computed trait there is nothing to read."""

    def __init__(self, settings: Settings) -> None:
        self._data_path = settings.data_path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="profile-log")
        self._turns = CallersTurns()
        self._database = ReadOnly(location_of(settings, "profiles"))
        self._journal: Reader | None = None

    async def read(self, work: Callable[[ProfileReader], T]) -> T | None:
        """Return what some work comes to, None while there are no profiles."""
        async with self._turns.mine():
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._read(work))

    def close(self) -> None:
        """Stop reading; idempotent."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._database.close()
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _read(self, work: Callable[[ProfileReader], T]) -> T | None:
        connection = self._database.open()
        if connection is None or (schema_number(connection, "profiles") or 0) < HEADS["profiles"]:
            return None  # made, or brought to the schema of this version, in a moment
        if self._journal is None:
            self._journal = open_reader(self._data_path / "journal")
        return work(ProfileReader(connection, self._journal))


R = TypeVar("R")


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
            return FoundPerson(person, of_person(self.connection, person, asked))
        return FoundPerson(None, of_user_id(asked.id) if asked.kind == "user" else of_anonymous_id(asked.id))


class PersonLog:
    """Before the first audience or computed trait it knows what a person did, and nothing else."""

    def __init__(self, settings: Settings) -> None:
        self._data_path = settings.data_path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="person-log")
        self._turns = CallersTurns()
        self._database = ReadOnly(location_of(settings, "profiles"))
        self._journal: SearchableReader | None = None

    async def read(self, work: Callable[[PersonReader], R]) -> R:
        """Return what some work comes to."""
        async with self._turns.mine():
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._read(work))

    def close(self) -> None:
        """Stop reading; idempotent."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._database.close()
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _read(self, work: Callable[[PersonReader], R]) -> R:
        if self._journal is None:
            self._journal = open_reader(self._data_path / "journal")
        connection = self._database.open()
        profiles = None if connection is None else ProfileReader(connection, self._journal)
        return work(PersonReader(Timeline(self._journal, self._data_path / "index"), profiles, connection))


@part
def profile_log(services: Services) -> ProfileLog:
    """Return what reads people, audiences and traits."""
    return ProfileLog(services.settings)


@part
def person_log(services: Services) -> PersonLog:
    """Return what reads one person's events."""
    return PersonLog(services.settings)
