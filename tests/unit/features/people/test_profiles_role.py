"""The profiles role in a process of its own, beside control, with people in files and in PostgreSQL: killed in the
middle of everything, it keeps, tells and erases what it should, once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec
import pytest

from hookline.bench.service import free_port
from hookline.database.connect import connect
from hookline.database.location import location_of
from hookline.database.open import ensure
from hookline.features.privacy.service import deletion_watch
from hookline.journal.local.partition_reader import LocalReader
from hookline.settings import Collect, Settings
from tests.unit.control.running import Running, destination, record, source, wait_until

ROLE = (
    "import msgspec, sys; from hookline import app; from hookline.settings import Settings; "
    "sys.exit(getattr(app, 'run_' + sys.argv[1])(msgspec.json.decode(sys.argv[2], type=Settings)))"
)
PEOPLE = 600
"""More than are told in one step."""
BUYERS: dict[str, Any] = {
    "id": "buyers",
    "name": "Buyers",
    "destinations": ["crm"],
    "syncEvery": 1,
    "condition": {"event": "Order"},
}


@contextmanager
def role(name: str, settings: Settings, crash_point: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A role's process, which ends with the block if it is there still."""
    environment = {**os.environ, "HOOKLINE_CRASH_POINT": crash_point} if crash_point else None
    command = [sys.executable, "-c", ROLE, name, msgspec.json.encode(settings).decode()]
    process = subprocess.Popen(command, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def service(control_on_both: Running) -> Iterator[Running]:
    """Control with an audience and people who bought something; collect takes what is told."""
    for path, body in (("/sources", source()), ("/destinations", destination()), ("/audiences", BUYERS)):
        assert control_on_both.api("POST", path, body).status == 201
    control_on_both.append(*(record(f"m{number}", "Order", userId=f"u{number}") for number in range(PEOPLE)))
    ensure(location_of(control_on_both.settings, "profiles"), "profiles")
    collect = Collect(listen=f"127.0.0.1:{free_port()}")
    with role("collect", msgspec.structs.replace(control_on_both.settings, collect=collect)):
        wait_until(control_on_both.settings.socket_path("collect.sock").exists)
        yield control_on_both


def told(service: Running) -> dict[str, set[str]]:
    """The messageIds of what was told about each user."""
    found: dict[str, set[str]] = {}
    with closing(LocalReader(service.data_path / "journal")) as journal:
        for group in journal.read(0, 0):
            for each in group.records:
                if each.origin == "audience":
                    found.setdefault(each.user_key, set()).add(each.message_id)
    return found


def answered(service: Running) -> list[tuple[int, int]]:
    """People and entries of each erasure that is done."""
    with closing(connect(location_of(service.settings, "profiles"), read_only=True)) as connection:
        query = "SELECT people, entries FROM erasures WHERE done_at IS NOT NULL"
        return [(people, entries) for people, entries in connection.execute(query)]


def test_killed_again_and_again_it_keeps_tells_and_erases(service: Running) -> None:
    """At its crash points and by SIGKILL: everybody is a member and told by one messageId, and who is to go, goes."""
    for point in ("profiles.before_commit", "profiles.after_commit", "profiles.judged", "profiles.appended:2"):
        with role("profiles", service.settings, point) as armed:
            assert armed.wait(60) == -signal.SIGKILL, point
    with role("profiles", service.settings):
        wait_until(lambda: len(told(service)) == PEOPLE)
        members = service.api("GET", "/audiences/buyers/members?limit=100").json["items"]
        assert len(members) == 100
    assert service.api("POST", "/deletion-requests", {"userId": "u7", "action": "delete"}).status == 201
    asyncio.run(deletion_watch(service.services).look())
    with role("profiles", service.settings, "profiles.erased_before_answer") as armed:
        assert armed.wait(60) == -signal.SIGKILL
    assert answered(service) == []
    with role("profiles", service.settings):
        wait_until(lambda: answered(service) == [(1, 1)])
    assert service.api("GET", "/people?userId=u7").json["code"] == "person_erased"
    assert service.api("GET", "/people?userId=u8").json["userId"] == "u8"
    assert all(len(ids) == 1 for ids in told(service).values())
