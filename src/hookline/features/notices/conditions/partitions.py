"""Partitions that no deliver process has, where many share them: their events wait, and no other notice says so."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.features.fleet.fleet import FleetLog, FleetPartition
from hookline.features.notices.conditions.finding import Finding, Moment


class Partitions:
    """Looks at who owns what; costs one look at the database and at brokers in each turn, and nothing elsewhere."""

    kinds = ("partition_unowned",)

    def __init__(self, fleet: FleetLog, topic: str, unowned_seconds: float) -> None:
        self._fleet = fleet
        self._topic = topic
        self._unowned_ms = unowned_seconds * 1000
        self._since_ms: dict[int, int] = {}
        """By partition that nobody has: when that was first seen."""

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Return one for all partitions that have been nobody's for too long and have something to be read; None while
        brokers do not tell whether they have."""
        unowned = self._fleet.look().unowned  # also where this tells nothing: others go by what was seen
        if not self._unowned_ms:
            return ()
        self._since_ms = {each.partition: self._since_ms.get(each.partition, moment.now_ms) for each in unowned}
        if any(each.behind is None for each in unowned):
            return None
        waiting = [each.partition for each in unowned if each.behind and self._is_long(each, moment)]
        if not waiting:
            return ()
        named = ", ".join(map(str, waiting))
        detail = f"{'partition' if len(waiting) == 1 else 'partitions'} {named}"
        return [Finding("partition_unowned", self._topic, detail, len(waiting))]

    def close(self) -> None:
        """Nothing is held: what looks is closed by whoever made it."""

    def _is_long(self, partition: FleetPartition, moment: Moment) -> bool:
        return moment.now_ms - self._since_ms[partition.partition] >= self._unowned_ms
