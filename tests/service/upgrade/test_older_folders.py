"""Data folders that older versions left, as ``write_folder`` made them: this version opens each and goes on with it."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.service.cli.conftest import command
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.service.upgrade import write_folder as written

LATER_SECONDS = 2 * 3_600
"""From the writing of a folder to its opening: retries are due, and their four hours have not ended."""


@pytest.fixture(params=sorted(path.name for path in written.FOLDERS.iterdir()))
def older(request: pytest.FixtureRequest, tmp_path: Path, new_hookline: Callable[..., Hookline]) -> Hookline:
    """A service (not started) on an older folder and its connections, at a time soon after it was written."""
    folder = tmp_path / "h0"
    shutil.unpack_archive(written.FOLDERS / request.param, folder)
    at = (folder / "exported.yaml").stat().st_mtime
    connections = json.loads((folder / "connections.yaml").read_text())
    preload = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    assert preload, "scripts/test-needs.sh installs faketime"
    clock = {
        "LD_PRELOAD": str(preload),
        "FAKETIME": f"{int(at + LATER_SECONDS - time.time()):+d}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    destinations, sources = connections.pop("destinations"), connections.pop("sources")
    return new_hookline(*destinations, sources=sources, definitions=connections, environment=clock)


def items(hookline: Hookline, path: str) -> list[dict[str, Any]]:
    """What a list of the API has."""
    return list(hookline.api("GET", path).json["items"])


def test_everything_of_an_older_folder_is_found(older: Hookline) -> None:
    """Connections, each event's way, dead letters, replays, members, suppressions and notices are as they were left."""
    with older as hookline:
        diff = command(hookline, "diff", str(hookline.folder / "exported.yaml"))
        assert subprocess.run(diff, capture_output=True, text=True, timeout=120).stdout == "nothing to change\n"
        for id in written.HELD:
            assert hookline.status_at(id, "crm")["status"] == "delivered"
            assert hookline.status_at(id, "held")["status"] not in ("delivered", "expired")
        refused = hookline.status_at(written.REFUSED[0], "strict")
        assert (refused["status"], refused["attempts"][0]["httpStatus"]) == ("failed", 422)
        assert {each["messageId"] for each in items(hookline, "dead-letters")} == set(written.REFUSED)
        assert hookline.status_at(written.RETRIED[0], "down")["status"] == "retrying"
        assert [(each["state"], each["delivered"]) for each in items(hookline, "replays")] == [("done", 1)]
        assert {each["userId"] for each in items(hookline, "audiences/buyers/members")} == set(written.PEOPLE)
        assert hookline.api("GET", "deletion-requests").json["items"][0]["action"] == "suppress"
        assert len(items(hookline, "suppressions")) == 1
        assert "disk_nearly_full" in {each["kind"] for each in items(hookline, "notices?state=resolved")}


def test_an_older_folder_goes_on(older: Hookline, receiver: Receiver) -> None:
    """What waited and what was to be tried again arrives, once; who is suppressed stays so; new events take their
    way."""
    with older as hookline:
        for name in ("crm", "strict", "down", "held"):
            change = {"settings": webhook(name, receiver.url(f"/{name}"))["settings"]}
            assert hookline.api("PATCH", f"destinations/{name}", change).status == 200
        assert hookline.api("POST", "destinations/held/resume").status == 200
        for id in written.HELD:
            hookline.wait_status(id, "held", "delivered")
        for id in written.RETRIED:
            hookline.wait_status(id, "down", "delivered")
        suppressed = hookline.track(userId=written.SUPPRESSED)
        hookline.track("Order", written.DELIVERED[0], userId=written.PEOPLE[0], properties={"total": 10})
        newest = hookline.track("Order", userId="u4", properties={"total": 1})
        for name in ("crm", "strict", "down", "held"):
            hookline.wait_status(newest, name, "delivered")
        assert hookline.event(suppressed) is None
        wait_until(lambda: len(items(hookline, "audiences/buyers/members")) == len(written.PEOPLE) + 1, 60)
    sent = [(request.path, request.message_id) for request in receiver.requests if request.json["type"] == "track"]
    assert len(sent) == len(set(sent))
    assert [id for path, id in sent if path.endswith("crm")] == [newest]
