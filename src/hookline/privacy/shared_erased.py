"""Follow the erasures, as deliver and profiles do, and what is erased of a journal that many machines share.

Never writes the privacy database.

While an erasure is under way control's word is followed; what was done while this machine or the database was away is
in the parts that the deliver processes noted. So its readers see an event as erased as soon as others do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation, location_of
from hookline.database.read_only import ChangeFeed, Followed, counted
from hookline.journal.port import JournalBackend
from hookline.outcomes.reader import DeliverReader
from hookline.privacy import identities
from hookline.privacy.identities import Identities
from hookline.replays.offset_set import OffsetSet, decode_offset_sets
from hookline.settings import Settings
from hookline.telemetry.log import logger

CHANGES = "erasures"
"""Their name in ``privacy_changes``."""
NUMBER = "SELECT next FROM privacy_changes WHERE name = ?"


class Erasure(NamedTuple):
    """One round of a request: what a role keeps about these positions is to go. The journal's bytes are gone."""

    request: int
    asked_ms: int
    round: int
    positions: dict[int, OffsetSet]

    @property
    def key(self) -> tuple[int, int, int]:
        """Return what a role answers by; the time tells requests of a lost database from those of the next one."""
        return self.request, self.asked_ms, self.round


class ErasureFeed(ChangeFeed[list[Erasure]]):
    """A view of the erasures that wait for the roles; for one thread.

    All methods raise DatabaseUnreadable, or DatabaseAway, when they cannot look.
    """

    def __init__(self, location: DatabaseLocation) -> None:
        super().__init__(location, "privacy", counted(NUMBER, CHANGES), _waiting)

    def ids(self, request: int) -> Identities:
        """Everybody's ids in a request; none once they are forgotten."""
        query = "SELECT identities FROM deletion_people WHERE request = ? AND identities IS NOT NULL"
        found: Identities = {}
        with self.reading() as connection:
            for (text,) in connection.execute(query, (request,)):
                identities.add(found, identities.from_text(text))
        return found


def _waiting(connection: Connection) -> list[Erasure]:
    query = "SELECT id, at, round, places FROM deletion_requests WHERE state = 'clearing' ORDER BY id"
    rows = connection.execute(query).fetchall()
    return [
        Erasure(id, at, round, decode_offset_sets(positions) if positions else {}) for id, at, round, positions in rows
    ]


SCHEMA_MIN = 7
"""The first schema of the deliver database that notes what was erased."""


class ErasedNotes:
    """Has readers of a data folder see records as erased that others have erased; for one thread at a time."""

    def __init__(self, journal: JournalBackend) -> None:
        self._journal = journal
        self._is_refused = False
        """Whether the disk took no note the last time."""

    def take(self, parts: Iterable[tuple[int, OffsetSet]]) -> bool:
        """Note these offsets, by partition; return whether the disk took them all. One that has no room is logged
        once."""
        try:
            for partition, positions in parts:
                self._journal.note_erased(partition, positions)
        except OSError as error:
            if not self._is_refused:
                next_step = "erased events are shown on this machine until its disk takes the note; free disk space"
                logger().error("erasures_not_noted", reason=str(error), next_step=next_step)
            self._is_refused = True
            return False
        self._is_refused = False
        return True


class SharedErased:
    """Has readers of this folder's journal see all erasures; for one thread at a time."""

    def __init__(self, settings: Settings, journal: JournalBackend) -> None:
        self._notes = ErasedNotes(journal)
        self._feed = ErasureFeed(location_of(settings, "privacy"))
        self._deliver = Followed(location_of(settings, "deliver"), "deliver", SCHEMA_MIN)
        self._under_way: list[Erasure] = []
        self._is_noted = False
        """Whether all of it was noted since something changed."""

    def follow(self) -> None:
        """Note what is new; costs next to nothing where nothing is. A disk that has no room is tried again with the
        next look. Raise DatabaseUnreadable, or DatabaseAway."""
        under_way = self._feed.poll()
        if under_way is not None:
            self._under_way = under_way
        elif self._is_noted:
            return
        self._is_noted = False
        done = list(self._done())
        self._is_noted = self._notes.take(
            [*(part for each in self._under_way for part in each.positions.items()), *done]
        )

    def close(self) -> None:
        """Let go of connections; idempotent."""
        self._feed.close()
        self._deliver.close()

    def _done(self) -> Iterator[tuple[int, OffsetSet]]:
        with self._deliver.reading() as connection:
            yield from DeliverReader.on(connection).erased_offsets()
