"""Where a lane stands in a partition."""

from __future__ import annotations

from hookline.replays.offset_set import OffsetSet


class LaneCursor:
    """Say where a lane stands in one partition: with the shared reader, or at a position of its own.

    ``end`` and ``source`` are set for a backfill: the part of the stream that a source connected a moment ago had
    before the shared reader knew of it. A replay's cursor has an end, and ``positions`` when it is of single events.
    """

    __slots__ = ("attached", "end", "frozen", "next_offset", "partition", "positions", "source")

    def __init__(
        self,
        partition: int,
        next_offset: int,
        attached: bool,
        end: int | None = None,
        source: str | None = None,
        positions: OffsetSet | None = None,
    ) -> None:
        self.partition = partition
        self.next_offset = next_offset
        self.attached = attached
        self.end = end
        self.source = source
        self.positions = positions
        self.frozen = False

    def attach(self) -> None:
        """Follow the shared reader from now on."""
        self.attached = True

    def detach(self, offset: int) -> None:
        """Stand at a position of its own."""
        self.attached = False
        self.next_offset = offset

    def advance(self, offset: int) -> None:
        """Go on behind what was taken, passed over or lost."""
        self.next_offset = offset

    def end_at(self, offset: int) -> None:
        """Read no further than this."""
        self.end = offset
