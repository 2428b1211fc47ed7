"""Choose who is refused while the journal's bytes are spent on what receivers still wait for.

Retention makes room by what nobody waits for, and by what only paused or failing destinations do. Where that is not
enough, sources that stored more than their fair share of the last hours are answered 503 first, and all of them only
once a reserve beyond ``retention.bytes`` is spent too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from hookline.beats import Bell
from hookline.database.location import location_of
from hookline.database.sqlite import engine as sqlite
from hookline.journal.port import BoundedBytes, JournalFull, Needed
from hookline.outcomes.reader import DeliverReader
from hookline.settings import Settings
from hookline.telemetry.log import logger
from hookline.whole_file import try_to_write_whole

NEAR_SHARE = 0.8
"""Of the bytes: from here on it is looked what of them is waited for, and a notice says so."""
RESERVE_SHARE = 0.1
"""Beyond the bytes: for sources within their fair share."""
POLL_SECONDS = 0.25
QUIET_SECONDS = 1.0
"""The same while nobody is connected: who connects ends the wait."""
FLOOD_SHARE = 0.01
"""Of the bytes: once they are near, it is looked anew as soon as so much more came. The reserve is the others', however
fast one source floods."""
FLOOD_POLL_SECONDS = 0.02
"""From one look for a flood to the next; what is looked at is a few numbers."""
SLOTS = 16
"""The window is counted in so many parts."""
SOURCES_MAX = 1_000
"""In one part, those that stored most."""
FILE = "stored-bytes.json"


class Slot(msgspec.Struct, array_like=True):
    """Hold what was stored in a part of the window that began at ``at_ms``, by source."""

    at_ms: int
    stored: dict[str, int]


class StoredBytes:
    """About how much each source stored within the window, kept in a file."""

    def __init__(self, path: Path, window_ms: int) -> None:
        self._path = path
        self._slot_ms = max(1, window_ms // SLOTS)
        self._slots: deque[Slot] = deque(_read(path), maxlen=SLOTS)

    def add(self, taken: Mapping[str, int], now_ms: int) -> None:
        """Count what was stored since the last time."""
        if not self._slots or now_ms - self._slots[-1].at_ms >= self._slot_ms:
            self._slots.append(Slot(now_ms, {}))
        stored = self._slots[-1].stored
        for source, count in taken.items():
            if source in stored or len(stored) < SOURCES_MAX:
                stored[source] = stored.get(source, 0) + count
        while now_ms - self._slots[0].at_ms > self._slot_ms * SLOTS:
            self._slots.popleft()

    def above_share(self) -> frozenset[str]:
        """Return the sources that stored more than an equal share of all that was stored."""
        total: Counter[str] = Counter()
        for slot in self._slots:
            total.update(slot.stored)
        share = total.total() / max(1, len(total))
        return frozenset(source for source, count in total.items() if count > share)

    def save(self) -> None:
        """Write it down; what a disk refuses is counted anew."""
        try_to_write_whole(self._path, msgspec.json.encode(list(self._slots)))


class Verdict(NamedTuple):
    """Name who is refused: nobody, the ``sources`` above their share, or everybody."""

    sources: frozenset[str] = frozenset()
    everybody: bool = False

    def refuses(self, source: str) -> bool:
        """Return whether events of this source are answered 503."""
        return self.everybody or source in self.sources


class Budget:
    """Looks several times a second; while there is room a look adds up a few numbers."""

    def __init__(self, settings: Settings, journal: BoundedBytes) -> None:
        self._journal = journal
        self._bytes_max = settings.retention.bytes
        self._window_ms = int(settings.deliver.retry_window * 1000)
        self._deliver = DeliverReader(location_of(settings, "deliver"))
        self._stored = StoredBytes(settings.data_path / "run" / FILE, self._window_ms)
        self.bell = Bell()
        self.insisted_bytes = 0
        """How much working lanes wait for and do not let go, as far as it was looked for."""
        self.since_ms: dict[str, int] = {}
        """Since when sources are refused, by the service's own clock; ``*`` is everybody."""
        self._is_stuck = False
        self._log = logger()

    @property
    def stored_bytes(self) -> int:
        """Return what the journal takes."""
        return self._journal.stored_bytes()

    def is_near(self) -> bool:
        """Return whether so much is stored that it matters what of it is waited for."""
        return self.stored_bytes >= self._bytes_max * NEAR_SHARE

    async def wait(self, is_quiet: bool = False) -> None:
        """Return when it is time to look: after a while, or when a flood has brought much since the last look."""
        if is_quiet:
            await self.bell.rest(QUIET_SECONDS)
            return
        pauses = round(POLL_SECONDS / FLOOD_POLL_SECONDS) if self.is_near() else 1
        for _ in range(pauses):
            await self.bell.rest(POLL_SECONDS / pauses)
            if sum(self._journal.taken_bytes.values()) >= self._bytes_max * FLOOD_SHARE:
                return

    def look(self, now_ms: int, needed: Needed | None) -> Verdict | None:
        """Drop what may go, if room is needed; return who is refused from now on, None for nobody. ``needed`` is asked
        for when ``is_near``."""
        taken, self._journal.taken_bytes = self._journal.taken_bytes, Counter[str]()
        self._stored.add(taken, now_ms)
        if needed is None:
            self.insisted_bytes = 0
            return self._note(None, now_ms)
        self.retain(now_ms, needed)
        with suppress(JournalFull):  # a disk that reads nothing leaves it as it was
            self.insisted_bytes = self._journal.insisted_bytes(needed)
        if self.insisted_bytes <= self._bytes_max:
            return self._note(None, now_ms)
        everybody = self.insisted_bytes > self._bytes_max * (1 + RESERVE_SHARE)
        return self._note(Verdict(self._stored.above_share(), everybody), now_ms)

    def needed(self, now_ms: int) -> Needed:
        """Return what lanes wait for, read where it may have to be waited for; all there is while that cannot
        be read."""
        working: dict[int, int] = {}
        held: dict[int, int] = {}
        try:
            for partition, waited in self._deliver.first_needed().items():
                working[partition], held[partition] = waited.working, waited.held
        except sqlite.Error:
            working, held = {}, {}
        return Needed(working, held, now_ms - self._window_ms)

    def retain(self, now_ms: int, needed: Needed) -> None:
        """Drop what is too old, or too much; what a full disk does not let go is tried again with the next look."""
        try:
            freed = self._journal.retain(now_ms, needed)
        except JournalFull as error:
            if not self._is_stuck:
                next_step = "free some disk space, a few kilobytes are enough: it is tried again all the time"
                self._log.error("retention_stuck", reason=str(error), next_step=next_step)
            self._is_stuck = True
            return
        self._is_stuck = False
        if freed:
            self._log.info("retention_dropped", bytes=freed)

    def save(self) -> None:
        """Write down who stored how much."""
        self._stored.save()

    def close(self) -> None:
        """Close the database; idempotent."""
        self._deliver.close()

    def _note(self, verdict: Verdict | None, now_ms: int) -> Verdict | None:
        names = frozenset() if verdict is None else verdict.sources | ({"*"} if verdict.everybody else frozenset())
        for name in names - self.since_ms.keys():
            self._log.error("events_refused", source=name, next_step="see docs/how-to/disk-is-filling.md")
        for name in self.since_ms.keys() - names:
            self._log.info("events_taken_again", source=name)
        self.since_ms = {name: self.since_ms.get(name, now_ms) for name in sorted(names)}
        return verdict


def _read(path: Path) -> list[Slot]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Slot])
    except (OSError, msgspec.DecodeError):
        return []
