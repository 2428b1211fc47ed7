"""The bytes of a history's row: what was written is read, of everybody or of some, and what goes leaves the rest."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.events.untyped import read_number
from hookline.people.definitions.feature import Entry
from hookline.people.store import history
from hookline.people.store.history import ENTRY_BYTES, pack_value, unpack, unpack_of, without, write

# Numbers whose bytes are found in times, marks and places too.
numbers = st.sampled_from([1, 2, 256, 0x01010101, 0xFFFFFFFF])
small = st.sampled_from([0, 1, 2, 256, 0x0101, 1 << 32, 0x0101010101010101])
values = st.one_of(st.none(), st.booleans(), st.floats(allow_nan=False), st.text(max_size=5).filter(str.isascii))
written = st.lists(st.tuples(numbers, st.builds(Entry, small, small, small, values)), max_size=12)
plain = written.map(lambda found: [(person, entry._replace(value=None)) for person, entry in found])
rows = st.one_of(st.tuples(written, st.just(True)), st.tuples(plain, st.just(False)))


@given(rows)
def test_what_is_written_is_read(row: tuple[list[tuple[int, Entry]], bool]) -> None:
    """In the order in which it was written, each entry with its person and its value."""
    found, has_values = row
    entries, lines = write(found, has_values)
    assert len(entries) == len(found) * ENTRY_BYTES
    assert unpack(entries, lines) == found


@pytest.mark.parametrize("text", ["x" * 512, "\u0436" * 512])
def test_an_ordinary_text_is_kept_to_its_512th_character(text: str) -> None:
    assert msgspec.json.decode(pack_value(text + "more")) == text


@pytest.mark.parametrize("text", ["\x01" * 512, "\U0001f600" * 512, "x" * 300 + "\x01" * 212, "\x01" * 150 + "x" * 362])
def test_a_text_has_a_bound_in_bytes(text: str) -> None:
    """As much of its beginning is kept as fits, and what was kept stays as it is when it is written again."""
    line = pack_value(text)
    cut = msgspec.json.decode(line)
    assert history.VALUE_BYTES_MAX - 6 < len(line.rstrip(b"\n")) <= history.VALUE_BYTES_MAX
    assert text.startswith(cut)
    assert pack_value(cut) == line


def test_numbers_that_msgspec_reads_slowly_are_read_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values are the same, and ordinary numbers are read as they were."""
    read: list[str] = []
    monkeypatch.setattr(
        history, "_decode_far", msgspec.json.Decoder(float_hook=lambda text: read.append(text) or read_number(text))
    )
    for value, text in ((1e300, ["1e300"]), (-2.5e-308, ["-2.5e-308"]), (19.99, []), (5.0, [])):
        found = [(1, Entry(1, 1, 1, value))]
        assert unpack(*write(found, True)) == unpack_of([1], *write(found, True)) == found
        assert read == 2 * text
        read.clear()


@given(rows, st.sets(numbers))
def test_some_are_read_alone(row: tuple[list[tuple[int, Entry]], bool], people: set[int]) -> None:
    """Exactly theirs, each person's in order, whatever other bytes look like their numbers."""
    found, has_values = row
    theirs = unpack_of(people, *write(found, has_values))
    for person in people:
        assert [each for each in theirs if each[0] == person] == [each for each in found if each[0] == person]
    assert {person for person, _ in theirs} <= people


@given(rows, st.sets(numbers), st.sets(small))
def test_what_goes_leaves_the_rest(
    row: tuple[list[tuple[int, Entry]], bool], people: set[int], positions: set[int]
) -> None:
    """Out go some people's entries at some places, with their values; all others stay as they were."""
    found, has_values = row
    left = without(people, *write(found, has_values), positions.__contains__)
    kept = [(person, entry) for person, entry in found if person not in people or entry.position not in positions]
    assert left == write(kept, has_values)
