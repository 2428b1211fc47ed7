"""Messages that other roles append through collect's socket: the delete notification, aimed."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from hookline.journal.record import FORMAT_VERSION, Record, fingerprint
from hookline.journal.remote import RemoteAppender
from tests.service.collect.conftest import Site
from tests.service.harness import new_id


def append(socket: Path, record: Record) -> None:
    """Append one record as another role does."""

    async def run() -> None:
        appender = RemoteAppender(socket)
        await appender.append([record])
        await appender.close()

    asyncio.run(run())


def test_a_delete_notification_holds_three_fields(site: Site) -> None:
    """type, userId and timestamp, nothing else, to the destination it is aimed at and to no other."""
    message_id, at = new_id(), "2026-11-20T07:00:00.123Z"
    body = json.dumps({"type": "delete", "userId": "u1", "properties": {"not": "forwarded"}}).encode()
    record = Record(
        *(FORMAT_VERSION, False, time.time_ns() // 1_000_000, "site", "delete", message_id),
        *(fingerprint("site", message_id), "u1", at, "deletion", body),
        to=("signed",),
    )
    append(site.hookline.data / "run" / "collect.sock", record)
    request = site.at("signed", message_id)
    assert request.body == b'{"type":"delete","userId":"u1","timestamp":"2026-11-20T07:00:00.123Z"}'
    assert "x-signature" in request.headers
    site.receiver.wait_for(site.hookline.track())
    assert [r.path for r in site.receiver.of(message_id)] == ["/signed"]
