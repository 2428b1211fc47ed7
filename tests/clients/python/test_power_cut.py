"""The power goes: the spool has what was brought to the disk, and an upload goes on without leaving anything out.

Needs root and loop devices.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from bench.crash import loop_disk
from bench.crash.loop_disk import LoopDisk

from hookline_client import Client
from hookline_client.answer import Answer
from hookline_client.receipts import Message
from hookline_client.testing import RecordingTransport
from hookline_client.uploader.exit_code import ExitCode
from hookline_client.uploader.report import Report
from hookline_client.uploader.uploader import Uploader
from tests.clients.spool import segments
from tests.service.harness import WRITE_KEY, free_port, wait_until

PROGRAM = Path(__file__).with_name("spooling_until_cut.py")
LINES = 6_000
SYNCS = 2


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    """A disk whose power can be cut."""
    if reason := loop_disk.unavailable():
        pytest.skip(reason)
    with LoopDisk(tmp_path) as mounted:
        yield mounted


class Cutting(RecordingTransport):
    """A service whose clients lose their power in the middle of a request."""

    def __init__(self, cut: Callable[[], None], batches_before: int) -> None:
        super().__init__()
        self._cut = cut
        self._batches_before = batches_before

    def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
        """Acknowledge some batches, then cut the power instead."""
        if len(self.batches) == self._batches_before:
            self._cut()
            return Answer(0, "connection_failed", "The power is gone.")
        return super().send(batch, timeout_seconds)


def test_a_spool_has_what_was_synced(disk: LoopDisk, tmp_path: Path) -> None:
    """Every event that was there when the last sync before the cut began is sent after it."""
    promised, synced = tmp_path / "promised", tmp_path / "synced"
    spool = disk.folder / "spool"
    arguments = [f"http://127.0.0.1:{free_port()}", str(spool), str(promised), str(synced)]
    program = subprocess.Popen([sys.executable, str(PROGRAM), *arguments])
    wait_until(lambda: synced.exists() and synced.read_text().count("\n") >= SYNCS, what="syncs")
    on_disk = synced.read_text().splitlines()
    disk.cut()
    program.kill()
    program.wait()
    disk.power_on()
    kept = promised.read_text().splitlines()[: int(on_disk[-1])]
    transport = RecordingTransport()
    with Client(WRITE_KEY, spool=str(spool), transport=transport) as client:
        client.flush(0)
        wait_until(lambda: not segments(spool), what="the spool emptied")
    assert len(kept) > 100
    assert set(kept) <= {event["messageId"] for event in transport.events}


@pytest.mark.parametrize("batches_before", [0, 2])
def test_an_upload_goes_on_after_a_power_cut(disk: LoopDisk, batches_before: int) -> None:
    """What was taken away is on disk before the first request: nothing is left out, nothing acknowledged repeats."""
    log = disk.folder / "app.log"
    lines = [json.dumps({"type": "track", "messageId": f"m{number}"}) for number in range(LINES)]
    log.write_text("\n".join(lines) + "\n")
    first, second = Cutting(disk.cut, batches_before), RecordingTransport()
    assert Uploader(str(log), first, Report(), retry_seconds=0).run() is ExitCode.LATER
    disk.power_on()
    assert Uploader(str(log), second, Report()).run() is ExitCode.DONE
    sent = [event["messageId"] for event in first.events + second.events]
    assert sent == [f"m{number}" for number in range(LINES)]
