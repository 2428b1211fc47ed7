"""A journal put back while PostgreSQL is away: no event gets an offset that the database knows for another one."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.service.client import send
from tests.service.harness import Hookline, Receiver, wait_until, webhook

EVENTS = 20


def rsync_back(data: Path, older: Path) -> None:
    """Leave files alone whose size and time are the same, as rsync does: the note of where the folder is, too."""
    for path in older.rglob("*"):
        there, status = data / path.relative_to(older), path.stat()
        if path.is_file() and not (
            there.exists() and (there.stat().st_size, there.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
        ):
            shutil.copy2(path, there.with_name("coming"))
            there.with_name("coming").replace(there)


def put_partition_back(data: Path, older: Path) -> None:
    """The records alone, and what files know of them; nothing that is beside them."""
    for part in ("journal/0", "index"):
        shutil.rmtree(data / part)
        shutil.copytree(older / part, data / part)
    shutil.copy2(older / "progress.ring", data / "progress.ring")


@pytest.mark.parametrize("put_back", [rsync_back, put_partition_back])
def test_what_is_taken_meanwhile_is_sent_or_not_taken(
    on_postgres: Callable[..., Hookline],
    server: PostgresServer,
    receiver: Receiver,
    tmp_path: Path,
    put_back: Callable[[Path, Path], None],
) -> None:
    """Whatever collect acknowledges before and after the server is back arrives, and is not held for a lost one."""
    hookline = on_postgres(webhook("crm", receiver.url()))
    with hookline:
        receiver.wait_for(hookline.track())
    older = tmp_path / "older"
    shutil.copytree(hookline.data, older, ignore=shutil.ignore_patterns("run", "lock"))
    with hookline:
        for message_id in [hookline.track() for _ in range(EVENTS)]:
            receiver.wait_for(message_id)
    put_back(hookline.data, older)
    server.stop(signal.SIGQUIT)
    hookline.launch()
    wait_until(lambda: _says(hookline), what="collect knows what to do")
    sent = [hookline.track() for _ in range(EVENTS // 2)] if _answers(hookline) else []
    server.start()
    hookline.wait_ready()
    sent += [hookline.track() for _ in range(EVENTS // 2)]
    for message_id in sent:
        receiver.wait_for(message_id)
        hookline.wait_status(message_id, "crm", "delivered")
    hookline.stop()
    assert os.path.exists(hookline.data / "journal" / "lost.json")


def _says(hookline: Hookline) -> bool:
    return _answers(hookline) or "is not where it was" in hookline.log


def _answers(hookline: Hookline) -> bool:
    try:
        return send(hookline.collect_port, "GET", "/readyz").status == 200
    except OSError:
        return False
