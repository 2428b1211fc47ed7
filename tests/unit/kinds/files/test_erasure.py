"""Somebody's rows leave the files when a delete message asks for it, once and for all, and a manifest says so."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import duckdb
import pytest

from hookline.kinds.sink import SinkFailed, Verdict
from tests.unit.kinds.files.place import NOON_MS, all_files, event, folder_sink, manifests, offsets_in
from tests.unit.kinds.files.test_sink import killed_at

FORMATS = ["ndjson", "parquet"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_person_leaves_the_files(tmp_path: Path, format: str) -> None:
    """Files that hold the person are written anew, others are not touched, and the manifest counts rows and files."""
    sink = folder_sink(tmp_path, format=format)
    sink.write([event(offset, user="anna" if offset % 2 else "bert") for offset in range(10)])
    sink.write([event(offset, user="bert") for offset in range(10, 20)])
    untouched = [path for path in all_files(tmp_path) if "000000000010" in path]
    before = Path(untouched[0]).stat().st_ino
    (verdict,) = sink.write([event(20, type="delete", user="anna")])
    assert verdict == Verdict(True, remark="5 rows erased, 1 file written anew")
    assert offsets_in(all_files(tmp_path)) == [(0, o) for o in [*range(0, 10, 2), *range(10, 20)]]
    assert Path(untouched[0]).stat().st_ino == before
    evidence = manifests(tmp_path)[-1]
    assert evidence["rowsErased"] == 5
    assert len(evidence["erased"]) == 1
    assert evidence["requests"] == [{"partition": 0, "offset": 20, "messageId": "m0-20"}]
    assert evidence["at"]


def test_no_word_of_the_person_is_left(tmp_path: Path) -> None:
    """Neither files, nor manifests, nor notes hold the id in clear."""
    sink = folder_sink(tmp_path, compression="none")
    sink.write([event(1, user="anna-from-accounts"), event(2)])
    sink.write([event(3, type="delete", user="anna-from-accounts")])
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"anna-from-accounts" not in path.read_bytes(), path


def test_a_row_is_theirs_by_any_of_its_ids(tmp_path: Path) -> None:
    """A request may be for an anonymous id, and an alias names a person twice."""
    sink = folder_sink(tmp_path)
    sink.write(
        [
            event(1, user=None, anonymousId="anna"),
            event(2, user="new", previousId="anna", type="alias"),
            event(3, user="bert", anonymousId="a2"),
        ]
    )
    sink.write([event(4, type="delete", user="anna")])
    assert offsets_in(all_files(tmp_path)) == [(0, 3)]


@pytest.mark.parametrize("format", FORMATS)
def test_what_a_person_did_before_they_were_known_goes_too(tmp_path: Path, format: str) -> None:
    """The message has the user's id alone; rows of files and of the same write show which other ids are theirs."""
    sink = folder_sink(tmp_path, format=format)
    sink.write([event(1, user=None, anonymousId="a1"), event(2, user=None, anonymousId="a2")])
    sink.write([event(3, user="anna", anonymousId="a1", type="identify"), event(4, user="bert", anonymousId="b1")])
    sink.write(
        [
            event(5, user=None, anonymousId="a1"),
            event(6, user="anna", previousId="a2", type="alias"),
            event(7, user=None, anonymousId="b1"),
            event(8, type="delete", user="anna"),
            event(9, user=None, anonymousId="a1"),
        ]
    )
    assert offsets_in(all_files(tmp_path)) == [(0, 4), (0, 7), (0, 9)]
    assert manifests(tmp_path)[-1]["rowsErased"] == 5


def test_a_device_that_two_people_share(tmp_path: Path) -> None:
    """Its anonymous rows go with the first of them, the rows that name the other one stay."""
    sink = folder_sink(tmp_path)
    sink.write([event(1, user=None, anonymousId="a1"), event(2, user="anna", anonymousId="a1")])
    sink.write([event(3, user="bert", anonymousId="a1"), event(4, type="delete", user="anna")])
    assert offsets_in(all_files(tmp_path)) == [(0, 3)]


@pytest.mark.parametrize("format", FORMATS)
def test_offsets_decide_where_clocks_do_not_agree(tmp_path: Path, format: str) -> None:
    """A row before the message goes though the clock was ahead, one behind it stays though the clock was late; times
    decide about rows of other partitions."""
    sink = folder_sink(tmp_path, format=format)
    ahead_ms, late_ms = NOON_MS + 3_600_000, NOON_MS - 3_600_000
    sink.write([event(1, user="anna", at_ms=ahead_ms, anonymousId="a1"), event(5, user="anna", at_ms=late_ms)])
    sink.write(
        [event(n, partition=1, user=None, at_ms=at_ms, anonymousId="a1") for n, at_ms in ((1, ahead_ms), (9, late_ms))]
    )
    sink.write(
        [
            event(2, user="anna", at_ms=ahead_ms),
            event(3, type="delete", user="anna", at_ms=NOON_MS),
            event(4, user="anna", at_ms=late_ms),
        ]
    )
    assert offsets_in(all_files(tmp_path)) == [(0, 4), (0, 5), (1, 1)]


@pytest.mark.parametrize("format", FORMATS)
def test_who_comes_back_stays(tmp_path: Path, format: str) -> None:
    """What was received after the message is kept, in the same write and in files, and what came before is not."""
    sink = folder_sink(tmp_path, format=format)
    sink.write([event(1, user="anna"), event(9, user="anna")])
    sink.write([event(4, user="anna"), event(5, type="delete", user="anna"), event(6, user="anna")])
    assert offsets_in(all_files(tmp_path)) == [(0, 6), (0, 9)]
    assert manifests(tmp_path)[-1]["rowsErased"] == 2


def test_a_repeated_message_asks_for_nothing(tmp_path: Path) -> None:
    """The same message again is accepted, and nothing is written for it."""
    sink = folder_sink(tmp_path)
    sink.write([event(1, user="anna"), event(2, type="delete", user="anna")])
    before = manifests(tmp_path)
    (verdict,) = folder_sink(tmp_path).write([event(2, type="delete", user="anna")])
    assert verdict == Verdict(True, remark="erased by an earlier try; its manifest says how many rows")
    assert manifests(tmp_path) == before


def test_a_file_that_is_too_large_keeps_the_request_waiting(tmp_path: Path) -> None:
    """It may hold the person: nothing is accepted and nothing changed until the file is as it was written."""
    folder_sink(tmp_path, compression="gzip").write([event(1, user="anna", name="A"), event(2, user="anna", name="B")])
    first, second = map(Path, all_files(tmp_path))
    before = second.read_bytes()
    second.write_bytes(gzip.compress(b"{}\n" * 1_000_000))
    untouched = first.read_bytes()
    for _ in range(2):
        with pytest.raises(SinkFailed, match=f"{second.name} is larger than anything"):
            folder_sink(tmp_path).write([event(3, type="delete", user="anna")])
        assert first.read_bytes() == untouched
        assert len(manifests(tmp_path)) == 1
    second.write_bytes(before)
    (verdict,) = folder_sink(tmp_path).write([event(3, type="delete", user="anna")])
    assert verdict.remark == "2 rows erased, 2 files written anew"


def test_messages_of_one_write_have_one_count(tmp_path: Path) -> None:
    """Also of rows that were never written; events have no remark."""
    sink = folder_sink(tmp_path)
    found = sink.write([event(1, user="anna"), event(2, type="delete", user="anna"), event(3, type="delete", user="b")])
    said = "1 row erased, 0 files written anew, for 2 delete messages together"
    assert [each.remark for each in found] == ["", said, said]
    assert sink.write([event(4, type="delete", user="nobody")])[0].remark == "no rows were there"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("point", ["files.erasure_noted", "files.erased_one", "files.all_written", "files.committed"])
def test_a_kill_in_an_erasure_forgets_nobody(tmp_path: Path, point: str, format: str) -> None:
    """Killed there and asked again: the person is gone, others are all there, and the evidence counts every row."""
    folder_sink(tmp_path, format=format).write(
        [event(o, name=f"e{o % 3}", user="u1" if o % 2 else "u2") for o in range(30)]
    )
    killed_at(point, tmp_path, 30, 30, "u1", format=format)
    folder_sink(tmp_path, format=format).write([event(30, type="delete", user="u1")])
    assert offsets_in(all_files(tmp_path)) == [(0, offset) for offset in range(0, 30, 2)]
    evidence = [manifest for manifest in manifests(tmp_path) if manifest.get("requests")]
    assert [each["rowsErased"] for each in evidence] == [15]
    assert len(evidence[0]["erased"]) == 3


@pytest.mark.parametrize("id", ["a1", "a" * 30_000])
@pytest.mark.parametrize("point", ["files.erasure_noted", "files.erased_one", "files.all_written", "files.committed"])
def test_a_kill_in_an_erasure_forgets_no_anonymous_id(tmp_path: Path, point: str, id: str) -> None:
    """Also when the rows that showed whose it is are gone; the note stays small, and at the end there is none."""
    folder_sink(tmp_path).write(
        [event(1, user=None, anonymousId=id), event(2, name="Logged In", anonymousId=id), event(3, user="u2")]
    )
    killed_at(point, tmp_path, 5, 5, "u1")
    assert sum(note.stat().st_size for note in (tmp_path / "_hookline/pending").glob("erasure-*")) < 1_000
    # Once the message is carried out, only what was written with it comes again.
    before = [] if point == "files.committed" else [event(4, user=None, anonymousId=id)]
    folder_sink(tmp_path).write([*before, event(5, type="delete", user="u1")])
    assert offsets_in(all_files(tmp_path)) == [(0, 3)]
    assert manifests(tmp_path)[-1]["rowsErased"] == 2 + len(before)
    assert not list((tmp_path / "_hookline/pending").glob("erasure-*"))


@pytest.mark.parametrize("format", FORMATS)
def test_duckdb_reads_on_after_everybody_left_a_file(tmp_path: Path, format: str) -> None:
    """A file without rows stays readable beside others."""
    sink = folder_sink(tmp_path, format=format)
    sink.write([event(1, user="anna", name="Only Anna")])
    sink.write([event(2, user="bert"), event(3, type="delete", user="anna")])
    reader = "read_parquet" if format == "parquet" else "read_ndjson"
    rows = duckdb.sql(f"SELECT event, userId FROM {reader}('{tmp_path}/**/*{all_files(tmp_path)[0][-4:]}')")
    assert rows.fetchall() == [("Order Completed", "bert")]
    assert json.dumps(manifests(tmp_path)).count("only_anna") == 2
