"""Sealed runs: what goes in comes out, and what is not a whole run is refused."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from hookline.index.keys import keys_of, user_hash
from hookline.index.mem_table import ENTRIES_PER_PART, MemTable
from hookline.index.run import Run, RunDamaged, seal
from hookline.journal.record import Record, fingerprint
from tests.unit.index.journal_in_memory import record

SALT = 0x9E3779B1


def _recent(records: list[Record], first_offset: int = 0) -> MemTable:
    mem_table = MemTable(first_offset, len(records), salt=SALT)
    mem_table.add(records, keys_of(records), [record.received_at for record in records], set(range(len(records))))
    return mem_table


def _sealed(folder: Path, records: list[Record], first_offset: int = 0) -> Run:
    steps = seal(_recent(records, first_offset), folder)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            run: Run = stop.value
            return run


def test_every_entry_is_found(tmp_path: Path) -> None:
    """Each fingerprint gives its offsets, repeats and rejected ones too; a foreign one gives none."""
    chance = random.Random(1)
    records = [record(str(chance.randrange(3_000)), n, rejected=n % 7 == 0) for n in range(9_000)]
    run = _sealed(tmp_path, records, 500)
    offsets: dict[bytes, list[int]] = {}
    for offset, one in enumerate(records, 500):
        offsets.setdefault(one.fingerprint, []).append(offset)
    assert all(run.offsets(key) == expected for key, expected in offsets.items())
    assert run.offsets(fingerprint("website", "other")) == []
    assert (run.first_offset, run.next_offset, len(run)) == (500, 9_500, 9_000)
    assert run.path.stat().st_size == run.size_bytes


def test_candidates_are_the_first_and_the_last_before(tmp_path: Path) -> None:
    """A repeat is compared with two earlier records at most, and never with a rejected one."""
    run = _sealed(tmp_path, [record(m, rejected=m == "r") for m in "arabra"])
    key = fingerprint("website", "a")
    assert [run.candidates(key, before) for before in range(7)] == [(), (0,), (0,), (0, 2), (0, 2), (0, 2), (0, 5)]
    assert run.candidates(fingerprint("website", "r"), 6) == ()
    assert run.candidates(fingerprint("website", "other"), 6) == ()


def test_one_message_id_over_and_over(tmp_path: Path) -> None:
    """A storm of a single messageId is one chain of its own, as quick to look up as any."""
    count = ENTRIES_PER_PART * 3
    run = _sealed(tmp_path, [record("same") for _ in range(count)])
    key = fingerprint("website", "same")
    assert run.offsets(key) == list(range(count))
    assert run.candidates(key, count // 2) == (0, count // 2 - 1)


def test_a_users_records_are_found(tmp_path: Path) -> None:
    """Every record of a user, rejected or not, is listed; erased ones and records without a user are not."""
    records = [record(str(n), user=f"u{n % 5}", rejected=n % 3 == 0) for n in range(50)]
    records[10].erased, records[10].user_key = True, ""
    run = _sealed(tmp_path, records, 100)
    assert run.offsets_of_user(user_hash("u0")) == [100, 105, *range(115, 150, 5)]
    assert run.offsets_of_user(user_hash("u9")) == []


@pytest.mark.parametrize("damage", ["empty", "short", "long", "magic", "version", "count"])
def test_what_is_not_a_whole_run_is_refused(tmp_path: Path, damage: str) -> None:
    """Cut, lengthened, foreign and newer files are told apart from runs before anything is read from them."""
    path = _sealed(tmp_path, [record(str(n)) for n in range(20)]).path
    data = path.read_bytes()
    at = {"magic": 0, "version": 8, "count": 36}.get(damage, 0)
    changed = {"empty": b"", "short": data[:-1], "long": data + b"\0"}
    path.write_bytes(changed.get(damage, data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :]))
    with pytest.raises(RunDamaged):
        Run(path)


def test_an_unfinished_run_does_not_appear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the last step there is no file under the run's name, and giving up leaves nothing at all."""
    written = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda _descriptor: written.wait(10))  # a slow disk
    steps = seal(_recent([record(str(n)) for n in range(100)]), tmp_path)
    next(steps)
    assert [path.suffix for path in tmp_path.iterdir()] == [".tmp"]
    written.set()
    steps.close()
    assert list(tmp_path.iterdir()) == []
