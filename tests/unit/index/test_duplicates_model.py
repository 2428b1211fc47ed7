"""The index against a naive reading of the whole journal, with restarts, re-reads and half-done work in between."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hookline.index import run
from hookline.index.duplicates import Duplicates
from hookline.index.lookup import find
from hookline.journal.record import Record, fingerprint
from tests.unit.index.journal_in_memory import JournalInMemory, record

WINDOW_SECONDS = 100
RUN_EVENTS = 12

_IDS = st.integers(0, 15).map(str)
_ITEMS = st.tuples(_IDS, st.sampled_from([0, 0, 0, 1, 30, 99, 150]), st.integers(0, 9))


def _let_the_thread_finish() -> None:
    """How far the index is may not depend on how fast its thread is, or a run could not be repeated."""
    for thread in run._threads:
        thread.submit(lambda: None).result()


class IndexModel(RuleBasedStateMachine):
    """Appends, reads, re-reads and restarts at random; every answer must be the naive one."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hookline-index-"))
        self.journal = JournalInMemory()
        self.seconds = 0
        self.index = self._open()

    def teardown(self) -> None:
        self.index.close()
        shutil.rmtree(self.folder)

    @rule(items=st.lists(_ITEMS, min_size=1, max_size=10))
    def append(self, items: list[tuple[str, int, int]]) -> None:
        """The journal grows; the reader has not seen it yet. Some items are rejected or already erased."""
        for message_id, pause, chance in items:
            self.seconds += pause
            new = record(message_id, self.seconds, rejected=chance == 0)
            if chance == 1:
                new.erased, new.fingerprint = True, bytes(16)
            self.journal.records.append(new)

    @precondition(lambda self: self.index.next_offset < len(self.journal.records))
    @rule(count=st.integers(1, 20))
    def read_on(self, count: int) -> None:
        """The reader takes the next group."""
        self._check(self.index.next_offset, count)

    @precondition(lambda self: self.index.next_offset > 0)
    @rule(data=st.data())
    def read_again(self, data: st.DataObject) -> None:
        """A catch-up reader, or the same one after a crash, takes offsets again, perhaps beyond the known ones."""
        self._check(data.draw(st.integers(0, self.index.next_offset - 1)), data.draw(st.integers(1, 30)))

    @rule(steps=st.integers(1, 12))
    def work(self, steps: int) -> None:
        """Some of the waiting work is done."""
        for _ in range(steps):
            self.index.work(0)
            _let_the_thread_finish()

    @rule(orderly=st.booleans(), data=st.data())
    def restart(self, orderly: bool, data: st.DataObject) -> None:
        """The process ends, with or without closing; the next one feeds itself up to some point."""
        if orderly:
            self.index.close()
        _let_the_thread_finish()
        position = self.index.next_offset
        self.index = self._open()
        until = data.draw(st.integers(self.index.next_offset, max(position, self.index.next_offset)))
        for group in self.journal.read(0, self.index.next_offset):
            if group.next_offset > until:
                break
            self.index.feed(group.records, group.first_offset)
            _let_the_thread_finish()

    @invariant()
    def every_offset_can_be_looked_up(self) -> None:
        """What runs do not cover the journal does, so that a look-up finds all offsets at any moment."""
        for message_id in ("0", "7"):
            key = fingerprint("website", message_id)
            expected = [offset for offset, one in enumerate(self.journal.records) if one.fingerprint == key]
            assert find(self.journal, self.folder, 0, key) == expected

    def _open(self) -> Duplicates:
        options = {"window_seconds": WINDOW_SECONDS, "bytes_max": 1 << 30, "run_events": RUN_EVENTS}
        return Duplicates(self.folder / "0", self.journal, 0, **options)  # type: ignore[arg-type]

    def _check(self, first: int, count: int) -> None:
        answers = dict(self.index.check(self.journal.records[first : first + count], first))
        _let_the_thread_finish()
        for index, one in enumerate(self.journal.records[first : first + count]):
            earlier = self._earlier(one, first + index)
            assert (index in answers) == bool(earlier), (first + index, answers, earlier)
            assert not earlier or answers[index] in earlier

    def _earlier(self, one: Record, offset: int) -> list[int]:
        if one.rejection is not None or one.erased:
            return []
        return [
            at
            for at, other in enumerate(self.journal.records[:offset])
            if other.fingerprint == one.fingerprint
            and other.rejection is None
            and not other.erased
            and one.received_at - other.received_at <= WINDOW_SECONDS * 1000
        ]


TestIndexModel = IndexModel.TestCase
TestIndexModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
