"""Hash chains: whole groups and single keys agree, crowded buckets and damaged files are survived."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.index.bloom_filters import rows_of
from hookline.index.chains import Chains, bucket_of, buckets_of
from hookline.index.keys import KEY_BYTES, keys_of, rejected
from hookline.index.mem_table import ENTRY_BYTES, MemTable
from hookline.index.run import Run, seal
from hookline.journal.record import fingerprint
from tests.unit.index.journal_in_memory import record

KEYS = st.lists(st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES), min_size=1, max_size=40)
MESSAGE_IDS = st.lists(st.tuples(st.integers(0, 9).map(str), st.integers(0, 9)), min_size=1, max_size=60)


@settings(deadline=None)
@given(KEYS, st.integers(0, 2**31 - 1).map(lambda number: 2 * number + 1), st.integers(0, 20))
def test_buckets_of_a_group_are_those_of_its_keys(keys: list[bytes], salt: int, bits: int) -> None:
    """The arithmetic on all keys at once gives what it gives for each."""
    assert buckets_of(b"".join(keys), salt, bits) == [bucket_of(key, salt, bits) for key in keys]


@settings(deadline=None)
@given(KEYS, st.integers(10, 24))
def test_rows_of_a_group_are_the_first_words_of_its_keys(keys: list[bytes], bits: int) -> None:
    """Each key is in three rows of the line that its first word names, the first two of them never the same."""
    rows = rows_of(b"".join(keys), 1 << bits)
    expected = []
    for first, second, third in [struct.unpack("=3I4x", key) for key in keys]:
        line = first % (1 << bits) // 16 * 16
        expected.append((line + first % 8, line + 8 + second % 8, line + third % 16))
    assert list(zip(*rows, strict=True)) == expected


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_what_comes_again_in_a_group_is_told(numbers: list[int]) -> None:
    """Exactly the keys that came before in their group are named."""
    rows = rows_of(b"".join([fingerprint("website", str(number)) for number in numbers]), 1 << 30)
    assert rows.again() == [at for at, number in enumerate(numbers) if number in numbers[:at]]


def _crowded(records_of: list[tuple[str, int]]) -> MemTable:
    """All records in two buckets, added in groups of seven; one in ten was rejected."""
    mem_table = MemTable(100, 1, salt=1)
    records = [record(message_id, rejected=chance == 0) for message_id, chance in records_of]
    for start in range(0, len(records), 7):
        group = records[start : start + 7]
        mem_table.add(group, keys_of(group), [record.received_at for record in group], set(range(len(group))))
    return mem_table


def _sealed(mem_table: MemTable, folder: Path) -> Run:
    steps = seal(mem_table, folder)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            run: Run = stop.value
            return run


def _expect(chains: Chains, records: list[tuple[str, int]]) -> None:
    for message_id in {message_id for message_id, _ in records}:
        key = fingerprint("website", message_id)
        every = [100 + at for at, (other, _) in enumerate(records) if other == message_id]
        real = [offset for offset in every if records[offset - 100][1] != 0]
        assert chains.offsets(key) == every
        for before in range(99, 101 + len(records)):
            below = [offset for offset in real if offset < before]
            assert chains.candidates(key, before) == tuple(sorted({*below[:1], *below[-1:]}))


@settings(max_examples=40, deadline=None)
@given(MESSAGE_IDS)
def test_crowded_buckets_mix_nothing_up(records: list[tuple[str, int]]) -> None:
    """With two buckets for everything, each key still has its own first, last and every offset."""
    _expect(_crowded(records), records)


@settings(max_examples=40, deadline=None)
@given(records=MESSAGE_IDS)
def test_a_run_answers_as_the_records_in_memory_did(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[str, int]]
) -> None:
    """Sealing changes no answer."""
    run = _sealed(_crowded(records), tmp_path_factory.mktemp("run"))
    _expect(run, records)
    keys = [(message_id, chance == 0) for message_id, chance in records]
    assert run.repeats(100, len(records)) == [at for at, key in enumerate(keys) if key in keys[:at]]


def test_a_damaged_link_ends_the_chain(tmp_path: Path) -> None:
    """A link that does not lead back is not followed, so that no damage makes a look-up endless."""
    run = _sealed(_crowded([("a", 1), ("b", 1), ("a", 1)]), tmp_path)
    data = bytearray(run.path.read_bytes())
    entries_at = len(data) - 3 * 4 - 4 * ENTRY_BYTES
    for number in (1, 2, 3):
        struct.pack_into("=I", data, entries_at + (number + 1) * ENTRY_BYTES - 4, 3)
    run.path.write_bytes(data)
    damaged = Run(run.path)
    assert damaged.offsets(fingerprint("website", "a")) in ([], [100, 102])
    assert damaged.offsets(fingerprint("website", "other")) == []


def test_a_rejected_record_goes_by_another_key() -> None:
    """The key of a rejected record is its fingerprint's halves exchanged; an erased one has none."""
    records = [record("a"), record("a", rejected=True), record("b")]
    records[2].erased = True
    key = fingerprint("website", "a")
    assert keys_of(records) == key + key[8:] + key[:8] + bytes(KEY_BYTES)
    assert rejected(rejected(key)) == key
