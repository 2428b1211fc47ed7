"""What collect keeps of the connections on the disk."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from hookline.collect import before_opening
from hookline.collect.before_opening import FILE, JournalEnds, KeptConnections
from hookline.collect.role import CollectRole
from hookline.connections.model import Destination, Snapshot, Source, Webhook, WebhookSettings
from hookline.privacy.id_digest import IdDigests
from hookline.privacy.suppressions import Suppressed
from hookline.settings import Settings
from hookline.whole_file import write_whole

KEY = b"k" * 32
SITE = Source(id="site", name="Site", write_keys=("wk_site",))


def suppressing(*ids: str) -> Suppressed:
    """A list of these people."""
    of = IdDigests(KEY)
    return Suppressed([of.of(id) for id in ids], of)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    """The sources and who is suppressed; nobody else may read it, and no destination is in it."""
    crm = Destination(
        id="crm", name="CRM", settings=WebhookSettings(webhooks=(Webhook(url="https://crm.example.com/"),))
    )
    KeptConnections(tmp_path).write(Snapshot(version=7, sources=(SITE,), destinations=(crm,)), suppressing("gone"))
    found = KeptConnections(tmp_path).read()
    assert found is not None
    snapshot, suppressed = found
    assert (snapshot.version, snapshot.sources, snapshot.destinations) == (7, (SITE,), ())
    assert suppressed is not None
    assert "gone" in suppressed
    assert "here" not in suppressed
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_who_is_suppressed_no_more_is_forgotten(tmp_path: Path) -> None:
    """The newest list counts."""
    kept = KeptConnections(tmp_path)
    kept.write(Snapshot(version=1), suppressing("gone"))
    kept.write(Snapshot(version=2), None)
    found = KeptConnections(tmp_path).read()
    assert found is not None
    assert found[1] is None


@pytest.mark.parametrize("content", [b"", b"\xff\xff", b"\x81\xa6format\x01"])
def test_what_cannot_be_read_is_as_if_it_were_not_there(tmp_path: Path, content: bytes) -> None:
    """Then collect waits for the database, as without it."""
    (tmp_path / FILE).write_bytes(content)
    assert KeptConnections(tmp_path).read() is None


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    """It is tried with the next change."""
    kept = KeptConnections(tmp_path / "missing")
    kept.write(Snapshot(version=1), None)
    (tmp_path / "missing").mkdir()
    kept.write(Snapshot(version=1), None)
    assert kept.read() is not None


def test_of_two_changes_in_one_moment_the_later_one_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control asks for a look at the list while the connections are being kept: the file had the list of before."""
    written: list[bytes] = []
    first, second = threading.Event(), threading.Event()

    def write(path: Path, content: bytes) -> None:
        written.append(content)
        if len(written) == 1:
            first.set()
            second.wait(0.5)
        write_whole(path, content)
        if len(written) > 1:
            second.set()

    async def run() -> None:
        (tmp_path / "run").mkdir()
        role = CollectRole(Settings(data_dir=str(tmp_path)), None, JournalEnds({}))
        role._snapshot, role._knows_suppressed = Snapshot(version=1), True
        connections = asyncio.create_task(role._keep())
        await asyncio.to_thread(first.wait)
        role._suppressed = suppressing("gone")
        await asyncio.gather(connections, role._keep())
        await role.appender.close()

    monkeypatch.setattr(before_opening, "write_whole", write)
    asyncio.run(run())
    found = KeptConnections(tmp_path).read()
    assert found is not None
    assert found[1] is not None
    assert "gone" in found[1]
