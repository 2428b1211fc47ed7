"""The spool on disk: boxes that outlive their process, and are adopted by exactly one other."""

from __future__ import annotations

import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from hookline_client.spool import box as box_module
from hookline_client.spool.box import Box
from hookline_client.spool.segment import Segment
from hookline_client.spool.spool import INFANT_SECONDS_MAX, Spool
from limits import file_size_limit
from open_files import open_files

LINES = [b'{"messageId":"m%d"}' % number for number in range(10)]


def drained(box: Box, lines_max: int = 3) -> list[bytes]:
    """Read and acknowledge everything."""
    lines: list[bytes] = []
    while batch := box.read(lines_max, 512_000):
        box.acknowledge(batch)
        lines += batch
    return lines


def abandoned(box: Box) -> str:
    """Let go of a box as kill -9 does: the files are closed, and nothing else is done."""
    box.forget()
    return box.folder


def test_events_come_back_in_order_until_they_are_acknowledged(tmp_path: Path) -> None:
    """Reading repeats until acknowledged; limits of count and bytes hold, but one event always comes."""
    box = Box.create(str(tmp_path))
    for line in LINES:
        box.append(line)
    assert box.read(3, 512_000) == box.read(3, 512_000) == LINES[:3]
    assert box.read(100, 2 * len(LINES[0]) + 2) == LINES[:2]
    assert box.read(100, 1) == LINES[:1]
    assert drained(box) == LINES
    assert box.waiting_bytes == 0


def test_nobody_else_may_read_a_spool(tmp_path: Path) -> None:
    """Folders and files belong to the user of the application alone."""
    spool = Spool(str(tmp_path / "spool"), "key", 10_000)
    spool.append(LINES[0])
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {0o700, 0o600}


def test_a_box_is_adopted_where_it_was_left(tmp_path: Path) -> None:
    """Whoever adopts a box of an ended process gets what was not acknowledged, and removes the folder at the end."""
    box = Box.create(str(tmp_path))
    for line in LINES:
        box.append(line)
    box.acknowledge(box.read(4, 512_000))
    adopted = Box.adopt(abandoned(box))
    assert adopted is not None
    assert drained(adopted) == LINES[4:]
    adopted.close()
    assert list(tmp_path.iterdir()) == []


def test_a_living_box_is_not_adopted(tmp_path: Path) -> None:
    """As long as its process lives, and as soon as another has adopted it, a box is left alone."""
    box = Box.create(str(tmp_path))
    box.append(LINES[0])
    assert Box.adopt(box.folder) is None
    first = Box.adopt(abandoned(box))
    assert first is not None
    assert Box.adopt(box.folder) is None


def test_full_segments_are_removed_once_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spool that is kept up with does not grow: only the segment that is written stays."""
    monkeypatch.setattr(box_module, "SEGMENT_BYTES", 40)
    box = Box.create(str(tmp_path))
    for line in LINES:
        box.append(line)
    assert len(list(Path(box.folder).glob("*.log"))) == 4
    assert drained(box) == LINES
    assert len(list(Path(box.folder).glob("*.log"))) == 1
    box.append(b"{}")
    assert drained(box) == [b"{}"]


def test_an_adopter_reads_over_several_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place in a later segment is found again, also when segments before it are gone."""
    monkeypatch.setattr(box_module, "SEGMENT_BYTES", 40)
    box = Box.create(str(tmp_path))
    for line in LINES:
        box.append(line)
    for _ in range(3):
        box.acknowledge(box.read(1, 512_000))
    adopted = Box.adopt(abandoned(box))
    assert adopted is not None
    assert drained(adopted) == LINES[3:]


@pytest.mark.parametrize("place", [b"", b"rubbish", b"0000000001 000000000099 00000000\n"])
def test_a_damaged_place_repeats_events(tmp_path: Path, place: bytes) -> None:
    """Without a place that can be trusted everything that is there is sent again: the service knows repeats."""
    box = Box.create(str(tmp_path))
    for line in LINES:
        box.append(line)
    box.acknowledge(box.read(4, 512_000))
    Path(abandoned(box), "place").write_bytes(place)
    adopted = Box.adopt(box.folder)
    assert adopted is not None
    assert drained(adopted) == LINES


def test_half_a_line_of_a_killed_process_is_left_out(tmp_path: Path) -> None:
    """A process killed in its write leaves a line without an end: the call never returned, nobody was promised it."""
    box = Box.create(str(tmp_path))
    box.append(LINES[0])
    with next(Path(abandoned(box)).glob("*.log")).open("ab") as segment:
        segment.write(b'{"messageId":')
    adopted = Box.adopt(box.folder)
    assert adopted is not None
    assert drained(adopted) == LINES[:1]
    adopted.close()
    assert list(tmp_path.iterdir()) == []


def test_a_box_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    """Every call tries again on a full disk: no folder is left by it, and no open file."""
    for _ in range(5):
        with file_size_limit(0), pytest.raises(OSError, match="too large"):
            Box.create(str(tmp_path))
    assert os.listdir(tmp_path) == []
    assert open_files(tmp_path) == []


def test_a_full_disk_leaves_whole_lines_only(tmp_path: Path) -> None:
    """An event that does not fit raises and leaves nothing behind; the next that fits is kept."""
    box = Box.create(str(tmp_path))
    with file_size_limit(100):
        box.append(b"a" * 60)
        with pytest.raises(OSError, match="too large"):
            box.append(b"b" * 60)
        box.append(b"c" * 30)
    assert [line[:1] for line in drained(box)] == [b"a", b"c"]


def test_a_call_that_fails_in_the_middle_of_another_takes_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler makes a call while its thread is in one, and the disk is full just then."""
    box = Box.create(str(tmp_path))
    box.append(LINES[0])
    write = os.write

    def interrupted(file: int, data: bytes) -> int:
        written_bytes = write(file, data)
        monkeypatch.setattr(os, "write", write)
        with file_size_limit(os.fstat(file).st_size), pytest.raises(OSError, match="too large"):
            box.append(LINES[2])
        return written_bytes

    monkeypatch.setattr(os, "write", interrupted)
    box.append(LINES[1])
    box.append(LINES[3])
    assert drained(box) == [LINES[0], LINES[1], LINES[3]]


def test_an_empty_box_goes_and_any_other_stays(tmp_path: Path) -> None:
    """Closing removes a box whose events are all acknowledged, and leaves any other to be adopted."""
    empty, left = Box.create(str(tmp_path)), Box.create(str(tmp_path))
    empty.append(LINES[0])
    drained(empty)
    left.append(LINES[1])
    empty.close()
    left.close()
    assert [path.name for path in tmp_path.iterdir()] == [os.path.basename(left.folder)]


def test_what_could_not_be_synced_is_synced_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of the client at the latest: the process may only have had no descriptor left."""
    box = Box.create(str(tmp_path))
    box.append(LINES[0])
    segment = Path(box.folder) / "0000000001.log"
    segment.rename(tmp_path / "away")
    segment.symlink_to(segment)  # which cannot be opened
    with pytest.raises(OSError, match="symbolic links"):
        box.sync()
    (tmp_path / "away").rename(segment)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")))
    box.close()
    assert synced == [str(segment), box.folder, str(tmp_path)]


def test_a_box_whose_folder_was_removed_ends_without_a_word(tmp_path: Path) -> None:
    """There is nothing left to remove, and no file of it stays open."""
    box = Box.create(str(tmp_path))
    box.append(LINES[0])
    drained(box)
    shutil.rmtree(box.folder)
    box.close()
    assert open_files(tmp_path) == []


def test_a_removal_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    """An empty folder is the rest of a removal; one with anything in it that is no box's is never touched."""
    (tmp_path / "rest").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").touch()
    assert Box.adopt(str(tmp_path / "rest")) is None
    assert Box.adopt(str(tmp_path / "other")) is None
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_box_whose_lock_was_removed_is_adopted_by_one(tmp_path: Path) -> None:
    """Somebody thought it a stale one: the events behind it are sent all the same, from where they were left."""
    box = Box.create(str(tmp_path))
    for line in LINES:
        box.append(line)
    box.acknowledge(box.read(4, 512_000))
    Path(abandoned(box), "lock").unlink()
    adopted = Box.adopt(box.folder)
    assert adopted is not None
    assert Box.adopt(box.folder) is None
    assert drained(adopted) == LINES[4:]
    adopted.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_a_removal_that_was_interrupted_repeats_no_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: int
) -> None:
    """However many files are gone, and in whatever order the folder names them: what is left knows what is done."""
    box = Box.create(str(tmp_path))
    box.append(LINES[0])
    drained(box)
    names, unlink, left = os.listdir, os.unlink, iter(range(removed))

    def interrupted(path: str) -> None:
        if next(left, None) is None:
            raise OSError("killed, or a disk that fails")
        unlink(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", lambda folder: sorted(names(folder), reverse=True))
        patched.setattr(os, "unlink", interrupted)
        with pytest.raises(OSError, match="killed"):
            box.close()
    adopted = Box.adopt(box.folder)
    assert adopted is not None
    assert drained(adopted) == []
    adopted.close()
    assert list(tmp_path.iterdir()) == []


def test_a_spool_adopts_the_oldest_box_of_its_own_write_key(tmp_path: Path) -> None:
    """Boxes of another source are not touched: its events would be sent with the wrong key."""
    first, second, other = (Spool(str(tmp_path), key, 10_000) for key in ("key", "key", "other"))
    for spool, line in zip((first, second, other), LINES, strict=False):
        spool.append(line)
        spool.forget()
    spool = Spool(str(tmp_path), "key", 10_000)
    spool.append(LINES[9])
    adopted = [box for box in (spool.adopt(), spool.adopt(), spool.adopt()) if box is not None]
    assert [drained(box) for box in adopted] == [LINES[:1], LINES[1:2]]


def test_boxes_that_were_let_go_take_turns(tmp_path: Path) -> None:
    """One that can never be read does not keep another one that can be read by now."""
    for line in LINES[:2]:
        ended = Spool(str(tmp_path), "key", 10_000)
        ended.append(line)
        ended.forget()
    spool = Spool(str(tmp_path), "key", 10_000)
    taken = []
    for _ in range(6):
        box = spool.adopt()
        assert box is not None
        taken += box.read(1, 100)
        spool.put_off(box)
    assert taken == LINES[:2] * 3


def test_a_first_call_in_the_middle_of_the_first_call_has_the_same_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a signal handler, while the box is made: its event is not left in a box that nobody reads."""
    spool = Spool(str(tmp_path), "key", 10_000)
    create = Box.create

    def interrupted(directory: str) -> Box:
        monkeypatch.setattr(Box, "create", create)
        spool.append(LINES[0])
        return create(directory)

    monkeypatch.setattr(Box, "create", interrupted)
    spool.append(LINES[1])
    assert spool.box is not None
    assert drained(spool.box) == LINES[:2]
    assert len(list(tmp_path.glob("*/*"))) == 1


def test_a_call_may_be_ended_where_it_begins_a_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes when its file is there: it is nothing that keeps later calls from beginning one."""
    box = Box.create(str(tmp_path))

    def interrupted(path: str) -> Segment:
        Segment(path).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(box_module, "Segment", interrupted)
    with pytest.raises(KeyboardInterrupt):
        box.append(LINES[0])
    monkeypatch.setattr(box_module, "Segment", Segment)
    box.append(LINES[1])
    adopted = Box.adopt(abandoned(box))
    assert adopted is not None
    assert drained(adopted) == LINES[1:2]


def test_a_call_in_the_middle_of_one_that_begins_a_segment_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a signal handler: both events are kept, in one segment."""
    box = Box.create(str(tmp_path))

    def interrupted(path: str) -> Segment:
        segment = Segment(path)
        monkeypatch.setattr(box_module, "Segment", Segment)
        box.append(LINES[0])
        return segment

    monkeypatch.setattr(box_module, "Segment", interrupted)
    box.append(LINES[1])
    box.append(LINES[2])
    assert drained(box) == LINES[:3]


def test_a_spool_has_a_bound(tmp_path: Path) -> None:
    """Beyond its bytes a spool takes nothing more, until events are acknowledged."""
    spool = Spool(str(tmp_path), "key", 50)
    spool.append(b"a" * 40)
    with pytest.raises(OSError, match="wait in it already"):
        spool.append(b"b" * 40)
    assert spool.box is not None
    drained(spool.box)
    spool.append(b"c" * 40)


def test_boxes_that_were_never_finished_go_after_an_hour(tmp_path: Path) -> None:
    """A process killed while it made its box leaves a hidden folder: an old one is removed, a young one is not."""
    spool = Spool(str(tmp_path), "key", 50)
    spool.append(LINES[0])
    assert spool.box is not None
    old, young = (Path(spool.box.folder).parent / name for name in (".new-old", ".new-young"))
    for folder in (old, young):
        folder.mkdir()
        (folder / "lock").touch()
    os.utime(old, (0, time.time() - INFANT_SECONDS_MAX - 60))
    assert spool.adopt() is None
    assert (old.exists(), young.exists()) == (False, True)


def test_sync_is_done_once_and_survives_removed_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every segment written since the last sync is brought to the disk, with the names; an idle sync costs nothing."""
    synced: list[str] = []

    def recorded(file: int) -> None:
        path = os.readlink(f"/proc/self/fd/{file}")
        if path.startswith(str(tmp_path)):  # a client of another test may still end
            synced.append(path)

    monkeypatch.setattr(os, "fsync", recorded)
    monkeypatch.setattr(box_module, "SEGMENT_BYTES", 40)
    box = Box.create(str(tmp_path))
    for line in LINES[:4]:
        box.append(line)
    box.sync()
    assert len(synced) == 2 + 2
    box.sync()
    assert len(synced) == 4
    box.append(LINES[4])
    drained(box)
    box.sync()
    assert len(synced) == 4 + 3
