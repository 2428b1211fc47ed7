"""What is remembered is bounded by its bytes, whatever strangers make up."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from hookline.events.body import render_canonical, render_ordinary
from hookline.journal.record import FORMAT_VERSION, Record
from hookline.kinds.files.rows import clean, hash_of
from hookline.kinds.postgres.names import ColumnNames
from hookline.kinds.postgres.rows import Batch, RowMaker
from hookline.kinds.sink import SinkEvent
from hookline.privacy.suppressions import Suppressed
from hookline.remembered import Remembered

KEPT_BYTES_MAX = 6 * 1024 * 1024
LONG_TEXTS = 1_500
LONG_TEXT_CHARACTERS = 30_000
TIMESTAMP = "2026-11-22T10:00:00.000Z"


def _kept_bytes(work: Callable[[], object]) -> int:
    """Return how much memory is held longer than the work takes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_what_is_remembered_is_not_found_twice() -> None:
    """A second question is answered from memory, also after others."""
    asked: list[str] = []
    remembered = Remembered(lambda key: asked.append(key) or len(key), bytes_max=10_000)  # type: ignore[func-returns-value]
    assert [remembered[key] for key in ("a", "bb", "a", "bb")] == [1, 2, 1, 2]
    assert asked == ["a", "bb"]


def test_past_its_bytes_all_is_forgotten() -> None:
    """Then it is asked anew, and what is held never passes the bound."""
    remembered = Remembered(lambda key: key, bytes_max=10_000)
    for number in range(1_000):
        assert remembered[f"{number:0100}"] == f"{number:0100}"
        assert remembered.held_bytes <= 10_000
    assert 0 < len(remembered) < 100


def test_what_is_long_is_not_remembered() -> None:
    """One long key does not drive out what is asked often."""
    remembered = Remembered(len, bytes_max=10_000, entry_bytes_max=500)
    assert (remembered["often"], remembered["x" * 5_000]) == (5, 5_000)
    assert list(remembered) == ["often"]


def test_the_last_of_what_is_long_is_remembered() -> None:
    """The events of a batch have the same long context, one after the other."""
    found: list[str] = []
    remembered = Remembered(lambda key: found.append(key) or len(key), bytes_max=10_000, entry_bytes_max=500)
    for key in ("x" * 5_000, "x" * 5_000, "y" * 5_000, "often", "y" * 5_000, "x" * 5_000):
        assert remembered[key] == len(key)
    assert found == ["x" * 5_000, "y" * 5_000, "often", "x" * 5_000]


def test_ids_asked_about_suppression_are_bounded() -> None:
    """1,500 ids of 30,000 characters cost no 45 MB once somebody is suppressed."""
    suppressed = Suppressed.of([b"x" * 32], b"k" * 32)
    kept = _kept_bytes(lambda: [f"{number:0{LONG_TEXT_CHARACTERS}}" in suppressed for number in range(LONG_TEXTS)])
    assert kept < KEPT_BYTES_MAX


def test_long_numbers_are_bounded() -> None:
    """1,500 events with a number of 30,000 digits cost no 44 MB."""

    def render() -> None:
        for number in range(LONG_TEXTS):
            render_ordinary([_track(b'{"userId":"u","event":"e","properties":{"n":0.%0*d}}' % (30_000, number))])

    assert _kept_bytes(render) < KEPT_BYTES_MAX


def test_envelopes_are_bounded() -> None:
    """A hundred envelopes of 30 KB, each a thousand objects once decoded, cost no 64 MB."""
    inner = b",".join([b"[{},[]]"] * 3_500)

    def render() -> None:
        for number in range(100):
            render_canonical(_track(b'{"userId":"u","event":"e"}', b'{"context":{"a":%d,"b":[%b]}}' % (number, inner)))

    assert _kept_bytes(render) < KEPT_BYTES_MAX


def _track(body: bytes, envelope: bytes | None = None) -> Record:
    return Record(FORMAT_VERSION, False, 0, "web", "track", "m1", b"", "u", TIMESTAMP, "sdk", body, envelope)


def _made_up_ids() -> object:
    for number in range(LONG_TEXTS):
        hash_of(f"{number}{'x' * LONG_TEXT_CHARACTERS}")
        clean(f"{number}{'x' * LONG_TEXT_CHARACTERS}")
    return None


def _made_up_keys() -> object:
    names = ColumnNames("")
    for number in range(300):
        inner = names.inner(f"k{number}")
        for key in range(300):
            assert inner[f"k{key}"] == f"k{number}_k{key}"
        assert names[f"{number}{'x' * LONG_TEXT_CHARACTERS}"]
    return names


def _made_up_names() -> object:
    rows = RowMaker("")
    for number in range(300):
        name = f"{number}{'x' * LONG_TEXT_CHARACTERS}"
        fields = {"type": "track", "messageId": "m", "source": name, "event": name, "receivedAt": "", "timestamp": ""}
        assert rows.add(Batch(), SinkEvent(0, number, 0, fields, b"")).accepted
    return rows


@pytest.mark.parametrize("work", [_made_up_ids, _made_up_keys, _made_up_names])
def test_sinks_remember_no_more_than_their_bytes(work: Callable[[], object]) -> None:
    """Ids, names of events and names of properties are what senders make up, objects in objects too."""
    held: list[object] = []
    assert _kept_bytes(lambda: held.append(work())) < KEPT_BYTES_MAX
