"""What profiles know of the people of deletion requests, and what came of taking them out; nothing where nobody has
ever asked for profiles. Reads the database of people and never writes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hookline.database.location import location_of
from hookline.database.read_only import ReadOnly
from hookline.people.store.people import People
from hookline.privacy.model import DeletionRequest
from hookline.privacy.search import IDENTITIES_MAX
from hookline.settings import Settings


class ErasedProfiles:
    """For one thread."""

    def __init__(self, settings: Settings) -> None:
        self._database = ReadOnly(location_of(settings, "profiles"))

    @property
    def exist(self) -> bool:
        """Return whether there are profiles at all."""
        return self._database.open() is not None

    def ids_of(self, user_ids: Sequence[str]) -> dict[str, list[str]]:
        """By user id every id of the same person, before and after an alias."""
        connection = self._database.open()
        if connection is None:
            return {}
        found = {user_id: People(connection).by_user_id(user_id) for user_id in user_ids}
        return {
            user_id: [identity.id for identity in person.identities()[:IDENTITIES_MAX]]
            for user_id, person in found.items()
            if person is not None
        }

    def sources_of(self, user_ids: Sequence[str]) -> list[set[str]]:
        """For each user id the sources that gave the person traits, of events that are gone by now too."""
        connection = self._database.open()
        if connection is None:
            return [set() for _ in user_ids]
        found = [People(connection).by_user_id(user_id) for user_id in user_ids]
        return [set() if person is None else {trait.source for trait in person.traits().values()} for person in found]

    def answer(self, request: DeletionRequest) -> tuple[int, int] | None:
        """Return how many people and entries of theirs went in the round under way; None while they are still there."""
        connection = self._database.open()
        if connection is None:
            return 0, 0
        row = connection.execute(
            "SELECT people, entries FROM erasures"
            ' WHERE request = ? AND asked_at = ? AND "round" = ? AND done_at IS NOT NULL',
            (request.number, request.at_ms, request.round),
        ).fetchone()
        return None if row is None else (row[0], row[1])

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._database.close()
