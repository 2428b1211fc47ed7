"""Erasures in a run: a user's events are deleted, and what control does for that."""

from __future__ import annotations

from dataclasses import dataclass

from hookline.database.connect import connect
from hookline.database.location import location_of
from hookline.outcomes.reader import DeliverReader
from hookline.privacy.shared_erased import CHANGES
from hookline.privacy.suppressions import PrivacyStore
from hookline.replays.offset_set import OffsetSet, encode_offset_sets
from hookline.simulation.scheduler import Crashed, SimulatedClock
from tests.worlds.arrivals import Arrivals
from tests.worlds.ledger import Ledger, Place
from tests.worlds.machine import Machine
from tests.worlds.watch import Watch


@dataclass
class AskedErasure:
    """One request; ``number`` is 0 until the journal is overwritten and deliver is asked."""

    places: list[Place]
    at_ms: int
    number: int = 0

    @property
    def offsets(self) -> dict[int, OffsetSet]:
        """The places by partition."""
        partitions = sorted({partition for partition, _ in self.places})
        return {each: OffsetSet(sorted(o for p, o in self.places if p == each)) for each in partitions}


class Erasing:
    """Deletes users' events as control does, and tells those who check."""

    def __init__(
        self, clock: SimulatedClock, machine: Machine, ledger: Ledger, watch: Watch, arrivals: Arrivals
    ) -> None:
        self._clock = clock
        self._machine = machine
        self._ledger = ledger
        self._watch = watch
        self._arrivals = arrivals
        self._open: list[AskedErasure] = []
        self._asked = 0
        self._opened: PrivacyStore | None = None

    def ask(self, user: str) -> None:
        """Ask that all is erased that the journal has of a user; nobody sends it again."""
        self._arrivals.forget(user)
        events = self._ledger.events.items()
        places = [at for at, event in events if event.record.user_key == user and at not in self._ledger.erasing]
        if places:
            self._ledger.erasing.update(places)
            self._watch.pace.forget(set(places))
            self._open.append(AskedErasure(places, self._clock.steady_ms()))
            self.look()

    def look(self) -> None:
        """What control does once a second: have the journal overwritten, ask deliver, and read its answer."""
        for erasure in list(self._open):
            if not erasure.number and self._overwrites(erasure):
                self._asked += 1
                erasure.number = self._asked
                self._ask_deliver(erasure)
            elif erasure.number and self._is_answered(erasure):
                self._end(erasure)

    @property
    def at_rest(self) -> bool:
        """Whether all requests are answered."""
        return not self._open

    def close(self) -> None:
        """Let go of files."""
        if self._opened is not None:
            self._opened.close()

    def _overwrites(self, erasure: AskedErasure) -> bool:
        """Return whether the journal has nothing of it any more; what the disk refused is tried with the next look."""
        try:
            for partition, offsets in erasure.offsets.items():
                self._machine.erase(partition, list(offsets))
        except Crashed:
            self._machine.open_journal()  # collect is back at once, and finishes it from what it meant to do
            return False
        except OSError:
            return False
        return True

    def _ask_deliver(self, erasure: AskedErasure) -> None:
        with self._store.change(CHANGES) as execute:
            execute(
                "INSERT INTO deletion_requests (id, at, author, action, state, updated_at, round, places)"
                " VALUES (?, ?, 'simulation', 'delete', 'clearing', ?, 1, ?)",
                (erasure.number, erasure.at_ms, erasure.at_ms, encode_offset_sets(erasure.offsets)),
            )

    def _is_answered(self, erasure: AskedErasure) -> bool:
        path = self._machine.settings.data_path / "deliver.db"
        connection = connect(path, read_only=True)
        try:
            return DeliverReader.on(connection).erased(erasure.number, erasure.at_ms, 1) is not None
        finally:
            connection.close()  # a power cut changes the file under whoever has it open

    def _end(self, erasure: AskedErasure) -> None:
        self._open.remove(erasure)
        with self._store.change(CHANGES) as execute:
            execute("UPDATE deletion_requests SET state = 'done' WHERE id = ?", (erasure.number,))
        self._ledger.erased.update(dict.fromkeys(erasure.places, self._clock.seconds))
        self._watch.erased(set(erasure.places))

    @property
    def _store(self) -> PrivacyStore:
        """Made with the first request, as runs without any have none."""
        if self._opened is None:
            self._opened = PrivacyStore(location_of(self._machine.settings, "privacy"))
        return self._opened
