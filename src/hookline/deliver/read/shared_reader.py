"""The one reader of a partition that all healthy lanes follow: a read of the journal serves them all."""

from __future__ import annotations

from collections.abc import Iterator

from hookline.deliver.lanes.lane import Lane
from hookline.index.duplicates import Duplicates
from hookline.journal.port import Follower, Group
from hookline.telemetry.log import logger


class SharedReader:
    """The one reader of a partition that all attached lanes follow, and the place duplicates are recognised."""

    def __init__(self, partition: int, journal: Follower, duplicates: Duplicates, next_offset: int) -> None:
        self.partition = partition
        self.duplicates = duplicates
        self.next_offset = next_offset
        self.by_source: dict[str, dict[Lane, int]] = {}
        """Attached lanes of each source, with the offset at which the source belongs to them."""
        self.by_destination: dict[str, Lane] = {}
        self.attached: set[Lane] = set()
        self.full: set[Lane] = set()
        self.frozen = False
        """Whether it reads no further: its partition is being given up."""
        self._journal = journal
        self._groups: Iterator[Group] = iter(())
        self._held: Group | None = None
        self._index_fails = False
        self._log = logger()

    @property
    def end(self) -> int:
        """Return the journal's end as it is now."""
        return self._journal.end(self.partition)

    @property
    def should_read(self) -> bool:
        """Return whether some attached lane is hungry; without lanes there is still the index to keep up."""
        return not self.frozen and (not self.attached or len(self.full) < len(self.attached))

    def next_group(self) -> Group | None:
        """Return the next group, or None at the journal's end."""
        if self._held is not None:
            held, self._held = self._held, None
            return held
        group = next(self._groups, None)
        if group is None and self._journal.end(self.partition) > self.next_offset:
            self._groups = self._journal.read(self.partition, self.next_offset)
            group = next(self._groups, None)
        return group

    def hold(self, group: Group) -> None:
        """Have this group, which could not be taken yet, be the next one again."""
        self._held = group

    def tell_index_failure(self) -> bool:
        """Return whether the index of duplicates has met a failure of the disk and not worked since; logged as it
        begins and ends, for repeats may go unnoticed meanwhile."""
        failure = self.duplicates.failure
        fails = failure is not None
        if fails and not self._index_fails:
            next_step = "free disk space, or repair the disk; it is tried again"
            self._log.error("duplicate_index_failed", partition=self.partition, error=failure, next_step=next_step)
        elif self._index_fails and not fails:
            self._log.info("duplicate_index_works_again", partition=self.partition)
        self._index_fails = fails
        return fails

    def attach(self, lane: Lane) -> None:
        """Let a lane follow from the next group on."""
        lane.cursors[self.partition].attach()
        self.attached.add(lane)
        if lane.full:
            self.full.add(lane)
        for source, starts in lane.starts.items():
            self.by_source.setdefault(source, {})[lane] = starts.get(self.partition, 0)
        self.by_destination[lane.destination.id] = lane

    def leave(self, lane: Lane) -> None:
        """Take a lane out; it is remembered at the next group."""
        lane.cursors[self.partition].detach(self.next_offset)
        self.attached.discard(lane)
        self.full.discard(lane)
        for source in lane.starts:
            lanes = self.by_source.get(source, {})
            lanes.pop(lane, None)
            if not lanes:
                self.by_source.pop(source, None)
        if self.by_destination.get(lane.destination.id) is lane:
            del self.by_destination[lane.destination.id]
