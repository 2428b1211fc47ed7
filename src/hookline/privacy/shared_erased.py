"""What is erased of a journal that many machines share, for the folder of one that had no part in it.

While an erasure is under way control's word is followed; what was done while this machine or the database was away is
in the parts that the deliver processes noted. So its readers see an event as erased as soon as others do.
"""

from __future__ import annotations

from collections.abc import Iterator

from hookline.database.location import location_of
from hookline.database.read_only import Followed
from hookline.journal.port import JournalBackend
from hookline.privacy.erasure_feed import Erasure, ErasureFeed
from hookline.replays.offset_set import OffsetSet, decode_offset_sets
from hookline.settings import Settings

SCHEMA_MIN = 7
"""The first schema of the deliver database that notes what was erased."""


class SharedErased:
    """Has readers of this folder's journal see all erasures; for one thread at a time."""

    def __init__(self, settings: Settings, journal: JournalBackend) -> None:
        self._journal = journal
        self._feed = ErasureFeed(location_of(settings, "privacy"))
        self._deliver = Followed(location_of(settings, "deliver"), "deliver", SCHEMA_MIN)
        self._under_way: list[Erasure] = []
        self._is_read = False
        """Whether all of it was told since something changed."""

    def follow(self) -> None:
        """Note what is new; costs next to nothing where nothing is. Raise DatabaseUnreadable, or DatabaseAway."""
        under_way = self._feed.poll()
        if under_way is not None:
            self._under_way = under_way
        elif self._is_read:
            return
        self._is_read = False
        done = list(self._done())
        self._is_read = True
        for partition, places in (*(part for each in self._under_way for part in each.places.items()), *done):
            self._journal.note_erased(partition, places)

    def close(self) -> None:
        """Let go of connections; idempotent."""
        self._feed.close()
        self._deliver.close()

    def _done(self) -> Iterator[tuple[int, OffsetSet]]:
        with self._deliver.reading() as connection:
            for (blob,) in connection.execute("SELECT places FROM erased_parts"):
                yield from decode_offset_sets(blob).items()
