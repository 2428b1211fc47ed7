"""Roles of this version beside tables of a newer one, as in a rolling upgrade: they go on, or stand by and say so.

Not every pair of a database and a role has its own run here; with ``HOOKLINE_UPGRADE_TABLE=whole`` every one has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import get_args

import pytest
from zlib_ng.zlib_ng import crc32

from hookline.database.location import WRITTEN_BY, Which
from hookline.database.migrate import HEADS
from hookline.journal.local.segment import SEGMENT_HEADER_BYTES
from tests.service.harness import Hookline, Receiver, is_ready, wait_until, webhook
from tests.service.upgrade.conftest import newer
from tests.service.upgrade.test_connections_unread import kill

ROLES = ("collect", "deliver", "profiles", "control")
PAIRS = [([which], [role]) for which in get_args(Which) for role in ROLES]
AT_ONCE = [(list(get_args(Which)), list(ROLES))]
VERSION_AT = 8
"""In the head of a segment, four bytes; the last four are its checksum."""
SPEND = {"id": "spend", "name": "Spend", "event": "Test", "aggregate": "count"}


def standing_by(hookline: Hookline, role: str) -> int:
    """How often a role has said that it stands by."""
    lines = [json.loads(line) for line in hookline.log.splitlines() if line.startswith("{")]
    return sum(line["event"] == "standing_by" and line["role"] == role for line in lines)


@pytest.mark.parametrize(
    ("databases", "roles"), PAIRS if os.environ.get("HOOKLINE_UPGRADE_TABLE") == "whole" else AT_ONCE
)
def test_roles_go_on_or_stand_by(
    service: Callable[..., Hookline], receiver: Receiver, databases: Sequence[Which], roles: Sequence[str]
) -> None:
    """All calls are answered 200, all events arrive, and nothing ends but what is killed; who would write stands by."""
    with service(webhook("crm", receiver.url()), definitions={"computedTraits": [SPEND]}) as hookline:
        receiver.wait_for(hookline.track())
        wait_until(lambda: '"event": "following"' in hookline.log, what="profiles has opened its database")
        with ExitStack() as upgraded:
            for which in databases:
                table = "ALTER TABLE alembic_version"
                upgraded.enter_context(
                    newer(hookline, which, f"{table} ADD COLUMN more TEXT", f"{table} DROP COLUMN more")
                )
            receiver.wait_for(hookline.track())
            sent = []
            for role in roles:
                kill(hookline, role)
                wait_until(lambda: is_ready(hookline.collect_port), what="events are taken")
                sent.append(hookline.track())
                if set(WRITTEN_BY.get(role, ())) & set(databases):
                    wait_until(lambda role=role: standing_by(hookline, role) == 1, what=f"{role} stands by")  # type: ignore[misc]
            sent.append(hookline.track())
        hookline.wait_ready()
        for message in sent:
            receiver.wait_for(message)
        assert "ended with code" not in hookline.log


def test_an_older_version_leaves_a_newer_folder_as_it_is(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """One machine whose databases or journal are of a newer version does not start, a role by itself stands by or does
    not start either; each says which version to start, and no byte is changed, but that a control goes on counting for
    the charts beside a newer ``control.db``."""
    with new_hookline(webhook("crm", receiver.url()), definitions={"computedTraits": [SPEND]}) as hookline:
        receiver.wait_for(hookline.track())
        wait_until(lambda: '"event": "following"' in hookline.log, what="profiles has opened its database")
    for which in get_args(Which):
        with newer(hookline, which, "SELECT 1", "SELECT 1"):
            before = content(hookline)
            assert hookline.launch().wait(30) == 2
            sentence = f"{which}.db was written by a newer Hookline (schema 99, this one knows {HEADS[which]}); start"
            assert sentence in hookline.log
            role = next((role for role, written in WRITTEN_BY.items() if written[:1] == (which,)), "")
            if not role:  # control has had its turn
                continue
            with alone(hookline, role) as process:
                assert process.stdout is not None
                assert sentence in next(line for line in process.stdout if "standing_by" in line)
                process.terminate()
                assert process.wait(30) == 0
            charts = {str(hookline.data / "insights.db")} if role == "control" else set()
            assert {path for path, _ in content(hookline).items() ^ before.items()} <= charts
    segment = sorted(hookline.data.glob("journal/0/*.seg"))[-1]
    head = segment.read_bytes()[:SEGMENT_HEADER_BYTES]
    newest = head[:VERSION_AT] + (99).to_bytes(4, "little") + head[VERSION_AT + 4 : -4]
    with segment.open("r+b") as file:
        file.write(newest + crc32(newest).to_bytes(4, "little"))
    before = content(hookline)
    assert hookline.launch().wait(30) == 2
    assert ".seg was written by a newer Hookline (format 99, this one knows 1); start that version" in hookline.log
    for role in ROLES:
        with alone(hookline, role) as process:
            assert process.wait(30) == 2
            assert process.stdout is not None
            assert "start that version again, or restore a backup made by this one" in process.stdout.read()
    assert content(hookline) == before


@contextmanager
def alone(hookline: Hookline, role: str) -> Iterator[subprocess.Popen[str]]:
    """A role by itself on the data folder."""
    line = [sys.executable, "-m", "hookline.cli.main", role, "--config", str(hookline.folder / "hookline.yaml")]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def content(hookline: Hookline) -> dict[str, str]:
    """A checksum of every file but what processes have beside them: locks, sockets, and what reading needs."""
    files = [path for path in hookline.data.rglob("*") if path.is_file() and path.parent.name != "run"]
    beside = ("lock", "-shm", "-wal")
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in files if not path.name.endswith(beside)}
