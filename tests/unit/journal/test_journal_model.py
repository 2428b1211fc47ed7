"""A model of the journal, a plain list, against the real one under appends, crashes, erasures and retention."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hookline.journal.conformance import a_record, records_of
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.local.segment import list_segments, segment_name
from hookline.journal.record import Record

SEGMENT_BYTES = 64 * 1024


class JournalMachine(RuleBasedStateMachine):
    """``expected[i]`` is the record at offset i, None where it was erased; below ``start`` retention took it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="journal-model-"))
        self.runner = asyncio.Runner()
        self.expected: list[Record | None] = []
        self.start = 0
        self.number = 0

    @initialize()
    def open(self) -> None:
        self.appender = LocalAppender(
            self.folder, retention_seconds=1e6, retention_bytes=2 * SEGMENT_BYTES, segment_bytes=SEGMENT_BYTES
        )
        self.reader = LocalReader(self.folder)

    @rule(calls=st.lists(st.integers(1, 20), min_size=1, max_size=4), size=st.sampled_from([0, 100, 3_000]))
    def append(self, calls: list[int], size: int) -> None:
        """Concurrent calls; all are answered."""

        async def run() -> None:
            batches = [[self._record(size) for _ in range(count)] for count in calls]
            await asyncio.gather(*(self.appender.append(batch) for batch in batches))
            self.expected.extend(record for batch in batches for record in batch)

        self.runner.run(run())

    @rule(choices=st.lists(st.integers(0, 1 << 16), min_size=1, max_size=5))
    def erase(self, choices: list[int]) -> None:
        if not self.expected:
            return
        offsets = {choice % len(self.expected) for choice in choices}
        kept = {offset for offset in offsets if offset >= self.start}
        assert self.appender.erase(0, sorted(offsets)) == len(kept)
        for offset in kept:
            self.expected[offset] = None

    @rule()
    def retain(self) -> None:
        self.appender.retain(1_000)
        segments = list_segments(self.folder / "0")
        assert len(segments) <= 3
        self.start = segments[0]

    @rule()
    def reopen(self) -> None:
        self._close()
        self.open()
        assert self.appender.recovered == ()

    @rule(size=st.sampled_from([10, 3_000]), seed=st.integers(0, 1 << 32))
    def crash(self, size: int, seed: int) -> None:
        """A write that no one was answered for reaches the disk in part: any of its bytes may be there or not."""
        end = self._data_end()
        random_bytes = random.Random(seed)
        torn = bytes(random_bytes.choice((0, random_bytes.randrange(256))) for _ in range(size))
        self._close()
        path = self.folder / "0" / segment_name(list_segments(self.folder / "0")[-1])
        room = path.stat().st_size - end
        with path.open("r+b") as file:
            file.seek(end)
            file.write(torn[:room])
        self.open()
        assert sum(recovery.damaged_records for recovery in self.appender.recovered) == 0

    @rule(at=st.integers(0, 1 << 16))
    def read_from_anywhere(self, at: int) -> None:
        offset = self.start + at % (len(self.expected) - self.start + 1)
        self._check(records_of(list(self.reader.read(0, offset))), offset)

    @rule(at=st.integers(0, 1 << 16))
    def look_up(self, at: int) -> None:
        if self.start < len(self.expected):
            offset = self.start + at % (len(self.expected) - self.start)
            record = self.reader.get(0, offset)
            assert record is not None
            self._check([record], offset, one=True)
            wanted = self.expected[offset]
            if wanted is not None:
                assert list(self.reader.find(0, wanted.fingerprint, 0, len(self.expected))) == [offset]

    @invariant()
    def what_is_read_is_what_was_acknowledged(self) -> None:
        if not hasattr(self, "reader"):
            return
        assert (self.reader.start(0), self.reader.end(0)) == (self.start, len(self.expected))
        self._check(records_of(list(self.reader.read(0, self.start))), self.start)
        backwards = list(self.reader.read_backwards(0, len(self.expected)))
        self._check(records_of(backwards[::-1]), self.start)

    def teardown(self) -> None:
        self._close()
        self.runner.close()
        shutil.rmtree(self.folder)

    def _record(self, size: int) -> Record:
        self.number += 1
        return a_record(self.number, body=self.number.to_bytes(4, "big") + b"x" * size)

    def _check(self, records: list[Record], first: int, one: bool = False) -> None:
        expected = self.expected[first : first + 1] if one else self.expected[first:]
        assert len(records) == len(expected)
        for record, wanted in zip(records, expected, strict=True):
            if wanted is None:
                assert record.erased
                assert not record.body.strip(b"\0")
            else:
                assert record == wanted

    def _data_end(self) -> int:
        """Where the data of the last segment ends, found by the reader's own eyes."""
        groups = list(self.reader.locate(0, range(self.start, len(self.expected))))
        last_segment = list_segments(self.folder / "0")[-1]
        inside = [group for group, _ in groups if group.segment_first_offset == last_segment]
        return inside[-1].position + inside[-1].header.size_bytes if inside else 24

    def _close(self) -> None:
        self.reader.close()
        self.runner.run(self.appender.close())


TestJournalModel = JournalMachine.TestCase
TestJournalModel.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
