"""Data folders that older versions left, as ``write_folder`` made them: this version opens each and goes on with it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.crash.clock_jumps import faked, library

from tests.service.cli.conftest import command
from tests.service.client import bearer, send
from tests.service.files.place import ids_named
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.upgrade import write_folder as written
from tests.service.upgrade.write_folder import items, names, post, state_of

LATER_SECONDS = 300
"""From the writing of a folder to its opening. Retries wait, and are asked for; an open deletion is looked at again
after a twentieth of its age."""
UNDER_WAY_MAX = 64
"""Requests of a destination that a kill may have sent again."""
KEPT = sorted(path.name.removesuffix(".tar.xz") for path in written.FOLDERS.glob("*.tar.xz"))


@pytest.fixture(params=KEPT)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where the content of an archive lies, its inventory among it."""
    folder = tmp_path / "h0"
    shutil.unpack_archive(written.FOLDERS / f"{request.param}.tar.xz", folder)
    shutil.copy(written.FOLDERS / f"{request.param}.json", folder / "inventory.json")
    return folder


@pytest.fixture
def older(
    kept: Path, tmp_path: Path, request: pytest.FixtureRequest, new_hookline: Callable[..., Hookline]
) -> Iterator[Hookline]:
    """A service (not started) on an older folder and its connections, at a time soon after it was written."""
    at = (kept / "exported.yaml").stat().st_mtime
    connections = json.loads((kept / "connections.yaml").read_text())
    preload = library()
    assert preload is not None, "scripts/test-needs.sh installs faketime"
    ahead_seconds = int(at + LATER_SECONDS - time.time())
    clock = tmp_path / "clock"
    clock.write_text(f"{ahead_seconds:+d}")
    destinations, sources = connections.pop("destinations"), connections.pop("sources")
    environment = faked(clock, preload, ahead_seconds)
    more: dict[str, Any] = {"sources": sources, "definitions": connections, "environment": environment}
    if not (kept / written.DUMP).exists():
        yield new_hookline(*destinations, **more)
        return
    server = request.getfixturevalue("postgres")
    with server.database() as url:
        server.run(url, (kept / written.DUMP).read_text())
        yield new_hookline(*destinations, settings={"database.url": url}, **more)


def test_an_older_folder_goes_on(older: Hookline, receiver: Receiver) -> None:
    """Everything is there as it was left; what waited, was to be tried again, replayed or deleted goes on, and nothing
    is sent again but what a kill cut off."""
    inventory = json.loads((older.folder / "inventory.json").read_text())
    with older as hookline:
        everything_is_there(hookline, inventory)
        go_on(hookline, receiver)
        accepted, arrived = inventory["accepted"], inventory["arrived"]
        newest = new_events_take_their_way(hookline)
        for name in set(arrived) - {"again"}:
            wanted = {*accepted, newest} - set(arrived[name]) - (set(written.REFUSED) if name == "strict" else set())
            wait_until(
                lambda name=name, wanted=wanted: wanted <= set(came(receiver, name)), what=f"what waited for {name}"
            )  # type: ignore[misc]
        for name, id in inventory.get("replays", {}).items():
            wait_until(lambda id=id: state_of(hookline, f"replays/{id}") == "done", what=f"the replay that was {name}")  # type: ignore[misc]
        if "again" in arrived:
            assert set(written.AGAIN) <= {*arrived["again"], *came(receiver, "again")}
            assert set(accepted) <= set(ids_named(hookline.data / "files" / "lake"))
        for id in inventory.get("deletionRequests", {}):
            wait_until(lambda id=id: state_of(hookline, f"deletion-requests/{id}") == "done", what="deleted")  # type: ignore[misc]
        for name, before in arrived.items():
            now = came(receiver, name)
            if name != "again":
                assert hookline.came_too_often((name, id) for id in now) == [], f"sent twice to {name}"
            asked_for = {"again": set(written.AGAIN), "down": set(written.RETRIED)}.get(name, set())
            again = set(before) & set(now) - asked_for
            assert len(again) <= (UNDER_WAY_MAX if inventory["how"] == "killed" else 0), (name, again)
    assert not problems(older)
    # Once for all roles: whoever comes second knows the folder of the first, however late it is.
    assert older.log.count("data_folder_moved") == 1


def problems(hookline: Hookline) -> list[str]:
    """What ``hookline doctor`` finds wrong with the folder, its databases and its journal, at the service's time."""
    environment = {**os.environ, **hookline.environment}
    line = [sys.executable, "-m", "hookline.cli.main", "doctor", "--config", str(hookline.folder / "hookline.yaml")]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120)
    # Not of roles: their reports have the machine's time, and the service another one.
    return [line for line in done.stdout.splitlines() if re.search("fail +(data_folder|database|journal|lanes) ", line)]


def everything_is_there(hookline: Hookline, inventory: dict[str, Any]) -> None:
    """Check connections, lists, each event's way, members and values, notes, tokens."""
    diff = command(hookline, "diff", str(hookline.folder / "exported.yaml"))
    assert subprocess.run(diff, capture_output=True, text=True, timeout=120).stdout == "nothing to change\n"
    for path, before in inventory["lists"].items():
        assert set(before) <= set(names(hookline, path)), path
    for id in written.HELD:
        assert hookline.status_at(id, "crm")["status"] == "delivered"
        assert hookline.status_at(id, "held")["status"] not in ("delivered", "expired")
    refused = hookline.status_at(written.REFUSED[0], "strict")
    assert (refused["status"], refused["attempts"][0]["httpStatus"]) == ("failed", 422)
    assert {each["messageId"] for each in items(hookline, "dead-letters")} == set(written.REFUSED)
    assert hookline.status_at(written.RETRIED[0], "down")["status"] == "retrying"
    assert {each["userId"] for each in items(hookline, "audiences/buyers/members")} == set(written.PEOPLE)
    values = items(hookline, "computed-traits/spend/values")
    assert {each["userId"]: each["value"] for each in values} == {"u1": 40, "u2": 30, "u3": 30}
    assert len(items(hookline, "suppressions")) == 1
    assert "disk_nearly_full" in {each["kind"] for each in items(hookline, "notices?state=resolved")}
    if "token" in inventory:
        sources = "/api/v1/sources"
        assert send(hookline.control_port, "GET", sources, headers=bearer(inventory["token"])).status == 200
        note = inventory["note"]
        assert hookline.api("GET", f"issues/{note['id']}").json["note"] == note["note"]


def go_on(hookline: Hookline, receiver: Receiver) -> None:
    """Have a receiver where the destinations send, and let go what was paused."""
    there = set(names(hookline, "destinations"))
    for name in there & {*written.WEBHOOKS, "again"}:
        change: dict[str, Any] = {"settings": webhook(name, receiver.url(f"/{name}"))["settings"]}
        assert hookline.api("PATCH", f"destinations/{name}", change).status == 200
    if "api" in there:
        change = {"settings": written.API_SETTINGS, "mapping": written.mapping(receiver.url("/api"))}
        assert hookline.api("PATCH", "destinations/api", change).status == 200
    post(hookline, "destinations/held/resume")
    for each in items(hookline, "replays"):
        if each["state"] == "paused":
            post(hookline, f"replays/{each['id']}/resume")
        if each["state"] in ("paused", "running"):
            assert hookline.api("PATCH", f"replays/{each['id']}", {"rate": 100}).status == 200
    for name in there - {"chat"}:
        hookline.api("POST", f"destinations/{name}/try")


def new_events_take_their_way(hookline: Hookline) -> str:
    """Send what is dropped, because the person is suppressed or the event known, and a new one; return that."""
    suppressed = hookline.track(userId=written.SUPPRESSED)
    hookline.track("Order", written.DELIVERED[0], userId=written.PEOPLE[0], properties={"total": 10})
    newest = hookline.track("Order", userId="u5", properties={"total": 1})
    hookline.wait_status(newest, "crm", "delivered")
    assert hookline.event(suppressed) is None
    wait_until(lambda: len(items(hookline, "audiences/buyers/members")) == len(written.PEOPLE) + 1, 60)
    return newest


def came(receiver: Receiver, name: str) -> list[str]:
    """The messageIds of track events that came to a destination."""
    requests = [request for request in receiver.requests if request.path.endswith(f"/{name}")]
    if name == "api":
        return [each["id"] for request in requests for each in request.json]
    return [request.message_id for request in requests if request.json["type"] == "track"]
