"""Appending from another role through the owner's socket."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hookline.journal.conformance import a_record
from hookline.journal.local.partition_reader import LocalReader
from hookline.journal.port import JournalFailed, JournalFull
from hookline.journal.record import Record
from hookline.journal.remote import CONNECTIONS_MAX, FRAME_BYTES_MAX, JournalUnreachable, RemoteAppender, serve_append
from tests.unit.journal.stored import stored_ids


class Refusing:
    """An appender that always answers with one error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def append(self, records: Sequence[Record]) -> None:
        raise self._error


def test_records_sent_are_durable_and_in_order(open_appender: Any, journal: Path, tmp_path: Path) -> None:
    """When the remote append returns, the records are in the journal; large calls go in several frames."""
    path = tmp_path / "collect.sock"

    async def run() -> None:
        appender = open_appender(segment_bytes=8 << 20)
        server = await serve_append(path, appender)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        remote = RemoteAppender(path)
        await remote.append([a_record(n, body=b"x" * 20_000) for n in range(600)])
        await asyncio.gather(*(remote.append([a_record(n)]) for n in range(600, 610)))
        assert appender.ends() == {0: 610}
        await remote.close()
        server.close()
        await appender.close()

    asyncio.run(run())
    assert stored_ids(journal) == [f"m{n}" for n in range(610)]


@pytest.mark.parametrize(
    ("error", "kind"),
    [(JournalFull("full"), JournalFull), (JournalFailed("failed"), JournalFailed), (ValueError("bad"), ValueError)],
)
def test_errors_arrive_as_what_they_are(tmp_path: Path, error: Exception, kind: type[Exception]) -> None:
    """The caller sees the owner's error and its sentence, and the connection goes on."""

    async def run() -> None:
        server = await serve_append(tmp_path / "s", Refusing(error))
        remote = RemoteAppender(tmp_path / "s")
        for _ in range(2):
            with pytest.raises(kind, match=str(error)):
                await remote.append([a_record(1)])
        await remote.close()
        server.close()

    asyncio.run(run())


def test_an_absent_owner_is_temporary(open_appender: Any, journal: Path, tmp_path: Path) -> None:
    """Without an owner, and after one went away, the call fails as temporary; the next one reaches the new owner."""
    path = tmp_path / "s"

    async def run() -> None:
        remote = RemoteAppender(path)
        with pytest.raises(JournalUnreachable):
            await remote.append([a_record(0)])
        appender = open_appender()
        for number in (1, 2):
            server = await serve_append(path, appender)
            await remote.append([a_record(number)])
            server.close()
            await remote.close()
        await appender.close()

    asyncio.run(run())
    assert stored_ids(journal) == ["m1", "m2"]


def test_a_frame_too_large_ends_the_connection(open_appender: Any, tmp_path: Path) -> None:
    """The owner reads no frame beyond its bound."""

    async def run() -> bytes:
        appender = open_appender()
        server = await serve_append(tmp_path / "s", appender)
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write((FRAME_BYTES_MAX + 1).to_bytes(4, "little"))
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        server.close()
        await appender.close()
        return answer

    assert asyncio.run(run()) == b""


def test_garbage_is_refused_and_stores_nothing(open_appender: Any, tmp_path: Path) -> None:
    """A frame that holds no records is answered as such."""

    async def run() -> bytes:
        appender = open_appender()
        server = await serve_append(tmp_path / "s", appender)
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write((3).to_bytes(4, "little") + b"abc")
        answer = await asyncio.wait_for(reader.readexactly(24), 30)
        assert appender.ends() == {0: 0}
        writer.close()
        server.close()
        await appender.close()
        return answer

    assert b"invalid_records" in asyncio.run(run())


def test_connections_are_bounded(open_appender: Any, tmp_path: Path) -> None:
    """Beyond the bound a connection is closed at once, the others go on."""

    async def run() -> None:
        appender = open_appender()
        server = await serve_append(tmp_path / "s", appender)
        kept = [RemoteAppender(tmp_path / "s") for _ in range(CONNECTIONS_MAX)]
        for number, remote in enumerate(kept):
            await remote.append([a_record(number)])
        with pytest.raises(JournalUnreachable):
            await RemoteAppender(tmp_path / "s").append([a_record(99)])
        await kept[0].append([a_record(100)])
        for remote in kept:
            await remote.close()
        server.close()
        await appender.close()

    asyncio.run(run())


def test_records_are_erased_and_orders_keep_their_place(open_appender: Any, journal: Path, tmp_path: Path) -> None:
    """An erasure from afar is durable when it returns; a refresh is done after everything appended before it."""
    path = tmp_path / "collect.sock"
    refreshed: list[dict[int, int]] = []

    async def run() -> None:
        appender = open_appender()

        async def refresh() -> None:
            refreshed.append(appender.ends())

        server = await serve_append(path, appender, refresh)
        remote = RemoteAppender(path)
        await remote.append([a_record(n) for n in range(600)])
        await remote.erase(0, list(range(1, 600)))
        waiting = asyncio.ensure_future(appender.append([a_record(600)]))
        await remote.refresh()
        assert appender.ends() == {0: 601}
        await waiting
        await remote.close()
        server.close()
        await appender.close()

    asyncio.run(run())
    assert len(refreshed) == 1
    reader = LocalReader(journal)
    records = [record for group in reader.read(0, 0) for record in group.records]
    reader.close()
    assert [record.erased for record in records] == [False, *[True] * 599, False]
