"""Each event once: what is covered is skipped, what a crash left is taken away, no number is taken twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from hookline.kinds.files import manifests as manifests_module
from hookline.kinds.files.manifests import SEAL_LATE, SEALED, Covered, Manifests, covers_of
from hookline.kinds.files.sink import FilesSink
from hookline.kinds.files.store import FolderStore
from hookline.kinds.sink import SinkFailed
from hookline.telemetry.crashpoints import CRASH_POINTS
from tests.unit.kinds.files.place import (
    NOON_MS,
    all_files,
    context,
    event,
    folder_sink,
    manifests,
    named_files,
    offsets_in,
)

WRITE_POINTS = [name for name in CRASH_POINTS if name.startswith("files.") and not name.startswith("files.eras")]

KILLED = """
import sys
from pathlib import Path
from tests.unit.kinds.files.place import event, folder_sink
sink = folder_sink(Path(sys.argv[1]), format=sys.argv[2])
events = [event(o, name=f"e{o % 3}", user="u1" if o % 2 else "u2") for o in range(int(sys.argv[3]), int(sys.argv[4]))]
if len(sys.argv) > 5:
    events.append(event(int(sys.argv[4]), type="delete", user=sys.argv[5]))
sink.write(events)
"""


def killed_at(point: str, folder: Path, first: int, end: int, *erase: str, format: str = "ndjson") -> None:
    """Write in a process that is killed at a point."""
    command = [sys.executable, "-c", KILLED, str(folder), format, str(first), str(end), *erase]
    ended = subprocess.run(command, env={**os.environ, "HOOKLINE_CRASH_POINT": point}, check=False)
    assert ended.returncode == -signal.SIGKILL, point


def test_what_is_covered_is_not_written_again(tmp_path: Path) -> None:
    """The same events, cut otherwise and together with new ones: only the new ones are written."""
    sink = folder_sink(tmp_path)
    sink.write([event(offset) for offset in range(10)])
    verdicts = sink.write([event(offset) for offset in range(5, 15)])
    assert all(verdict.accepted for verdict in verdicts)
    assert offsets_in(all_files(tmp_path)) == [(0, offset) for offset in range(15)]
    assert [manifest["rows"] for manifest in manifests(tmp_path)] == [10, 5]


def test_gaps_are_filled_later(tmp_path: Path) -> None:
    """What was left out, and comes by a retry, is written; what stands around it is not."""
    sink = folder_sink(tmp_path)
    sink.write([event(offset) for offset in range(0, 20, 2)])
    folder_sink(tmp_path).write([event(offset) for offset in range(20)])
    assert offsets_in(all_files(tmp_path)) == [(0, offset) for offset in range(20)]


@pytest.mark.parametrize("format", ["ndjson", "parquet"])
@pytest.mark.parametrize("point", WRITE_POINTS)
def test_a_kill_loses_and_doubles_nothing(tmp_path: Path, point: str, format: str) -> None:
    """Killed there and begun again with another cut: every event is in the named files once, and in all files too."""
    killed_at(point, tmp_path, 0, 60, format=format)
    sink = folder_sink(tmp_path, format=format)
    for first, end in ((0, 25), (25, 26), (26, 80)):
        sink.write([event(offset, name=f"e{offset % 3}") for offset in range(first, end)])
    expected = [(0, offset) for offset in range(80)]
    assert offsets_in(named_files(tmp_path)) == expected
    assert offsets_in(all_files(tmp_path)) == expected


def test_a_kill_in_the_middle_of_files_leaves_one(tmp_path: Path) -> None:
    """The crash points are where they claim: files are there, and no manifest."""
    killed_at("files.one_written:2", tmp_path, 0, 60)
    assert all_files(tmp_path)
    assert manifests(tmp_path) == []


def test_many_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    """Seeded kills one after the other, each at a later beginning and with another cut."""
    dice = random.Random(7)
    for _ in range(8):
        first = dice.randrange(40)
        killed_at(f"{dice.choice(WRITE_POINTS)}", tmp_path, first, first + dice.randrange(20, 40) + 1)
    folder_sink(tmp_path).write([event(offset, name=f"e{offset % 3}") for offset in range(90)])
    assert offsets_in(all_files(tmp_path)) == offsets_in(named_files(tmp_path)) == [(0, o) for o in range(90)]


def test_two_writers_share_a_place(tmp_path: Path) -> None:
    """Two processes with partitions of their own commit one after the other, and each sees what the other covered."""
    one, two = folder_sink(tmp_path), folder_sink(tmp_path)
    one.write([event(offset, partition=0) for offset in range(5)])
    two.write([event(offset, partition=1) for offset in range(5)])
    one.write([event(offset, partition=1) for offset in range(8)])
    assert offsets_in(all_files(tmp_path)) == [(0, o) for o in range(5)] + [(1, o) for o in range(8)]


def test_a_slow_writer_cannot_name_what_is_gone(tmp_path: Path) -> None:
    """A process that was taken for dead, and whose files were taken away, is refused its manifest and writes anew."""
    passed: list[int] = []

    class Unlocked(FolderStore):
        """As on two machines: nobody is kept out but by the fence."""

        def lock(self) -> AbstractContextManager[None]:
            return nullcontext()

    class Slow(Unlocked):
        """Stands still between its files and its manifest, until another has taken over."""

        def put_all(self, files: Mapping[str, bytes]) -> None:
            super().put_all(files)
            if not passed and any(path.startswith("source=") for path in files):
                passed.append(1)
                other = FilesSink(context(tmp_path), Unlocked(tmp_path, ""), "ndjson", "zstd")
                other._fresh([event(0)])  # it takes away what is left, and then is slow itself

    slow = FilesSink(context(tmp_path), Slow(tmp_path, ""), "ndjson", "zstd")
    slow.write([event(offset) for offset in range(10)])
    assert passed
    assert offsets_in(named_files(tmp_path)) == [(0, offset) for offset in range(10)]


def test_the_files_of_another_journal_are_not_continued(tmp_path: Path) -> None:
    """After the data folder was made anew offsets begin at 0 again: events are refused, not taken for written."""
    folder_sink(tmp_path).write([event(offset) for offset in range(10)])
    with pytest.raises(SinkFailed, match="choose another prefix"):
        folder_sink(tmp_path).write([event(3, at_ms=NOON_MS + 86_400_000)])


def test_a_place_belongs_to_one_destination(tmp_path: Path) -> None:
    """Two destinations have the same offsets: the second is refused, with what to do."""
    folder_sink(tmp_path, "lake").close()
    with pytest.raises(SinkFailed, match="'lake' writes its files there; choose another prefix"):
        folder_sink(tmp_path, "other")


@pytest.mark.parametrize("prefix", ["../out", "a/../../b", "/etc"])
def test_nothing_is_written_outside_the_folder(tmp_path: Path, prefix: str) -> None:
    """Whatever way the prefix is written, and whatever links are there."""
    allowed = tmp_path / "files"
    allowed.mkdir()
    if prefix == "/etc":
        (allowed / "etc").symlink_to(tmp_path)
    with pytest.raises(SinkFailed, match="outside"):
        folder_sink(allowed, prefix=prefix)


def test_thousands_of_manifests_are_remembered(tmp_path: Path) -> None:
    """Index objects list old manifests: a sink that is opened later knows all of them, and reads few."""
    sink = folder_sink(tmp_path)
    count = 2 * SEALED + SEAL_LATE + 5
    for offset in range(count):
        sink.manifests.commit(
            sink._manifest(rows=0, files=[], covers=covers_of([(0, offset, NOON_MS + offset)])),
        )
        sink.manifests.seal()
    reads: list[str] = []
    store = FolderStore(tmp_path, "")
    usual_get = store.get

    def get(path: str) -> bytes | None:
        reads.append(path)
        return usual_get(path)

    store.get = get  # type: ignore[method-assign]
    opened = Manifests(store, "test")
    assert len(reads) <= SEALED + 2 * SEAL_LATE
    received = {offset: NOON_MS + offset for offset in (0, 7, SEALED, count - 1)}
    assert opened.covered(0, received) == set(received)
    assert opened.covered(0, {count: NOON_MS + count}) == set()


def test_names_that_come_late_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fences two processes may take one number: the index lists what both wrote, also what was read late."""
    monkeypatch.setattr(manifests_module, "SEALED", 10)
    monkeypatch.setattr(manifests_module, "SEAL_LATE", 3)
    made = folder_sink(tmp_path)._manifest
    store = FolderStore(tmp_path, "unfenced")
    store.is_fenced = False
    one, two = Manifests(store, "aaaa"), Manifests(store, "bbbb")

    def commit(by: Manifests, offset: int) -> None:
        assert by.commit(made(rows=0, files=[], covers=covers_of([(0, offset, NOON_MS)])))

    for offset in range(8):
        commit(one, offset)
    two.refresh()
    for offset in range(8, 12):
        commit(one, offset)
    commit(two, 12)  # which takes the number of the ninth: it has not seen that one
    one.refresh()
    commit(one, 13)
    one.seal()
    assert all(opened.covered(0, {offset: NOON_MS}) for opened in (one, Manifests(store, "c")) for offset in range(14))


def test_covered_offsets_are_exact() -> None:
    """Any set of offsets comes back from its run lengths as it was."""
    dice = random.Random(3)
    for _ in range(200):
        offsets = {dice.randrange(300) for _ in range(dice.randrange(1, 120))}
        covered: Covered = covers_of([(4, offset, 1) for offset in offsets])[4]
        found = {offset for first, last in covered.runs() for offset in range(first, last + 1)}
        assert found == offsets
        assert covered.span == (min(offsets), max(offsets))


def test_the_context_folder_is_named_by_the_destination(tmp_path: Path) -> None:
    """A sub-folder is made within it."""
    folder_sink(tmp_path, prefix="a/b").write([event(1)])
    assert all_files(tmp_path / "a/b")
    assert context(tmp_path).folder == tmp_path
