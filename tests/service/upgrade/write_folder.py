"""``python -m tests.service.upgrade.write_folder NAME``: keep a data folder as this version writes it, with work open.

What it holds is named here, so that the test of a later version knows what to look for. A folder that is kept is never
written anew: it is what an older version left.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.service.harness import Hookline, Receiver, Reply, Request, wait_until, webhook

FOLDERS = Path(__file__).with_name("folders")
LEFT_OUT = ("run", "lock")
"""Of the data folder: what belongs to processes that are gone."""
BOOT_BYTES, CHECK_BYTES = 16, 4
"""At the end of the clock's file: which start of the machine it is of, and the check."""
SETTINGS = {"deliver.retry_first": "1h", "deliver.retry_max": "2h"}
"""So that what was refused once still waits when the folder is opened."""
PEOPLE = ("u1", "u2", "u3")
SUPPRESSED = "u9"
DELIVERED = [f"delivered-{number}" for number in range(5)]
REFUSED = ["refused-1", "refused-2"]
RETRIED = ["retried-1", "retried-2"]
HELD = [*DELIVERED, *REFUSED, *RETRIED, "held-1"]
DEFINITIONS = {
    "audiences": [
        {"id": "buyers", "name": "Buyers", "destinations": ["crm"], "syncEvery": 1, "condition": {"event": "Order"}}
    ],
    "computedTraits": [
        {
            "id": "spend",
            "name": "Spend",
            "event": "Order",
            "aggregate": "sum",
            "property": "properties.total",
            "destinations": ["crm"],
            "syncEvery": 1,
        }
    ],
}


def destinations(url: str) -> list[dict[str, Any]]:
    """Return one of each state: it answers, refuses, fails, or is paused; calls have the receiver's path by its id."""
    return [webhook(each, f"{url}/{each}", secret="s3cret-s3cret") for each in ("crm", "strict", "down", "held")]


def respond(request: Request) -> Reply:
    """Answer as the destination in the path does."""
    name, id = request.path.rpartition("/")[2], request.message_id
    if name == "strict" and id in REFUSED:
        return Reply(422, b'{"error": "no such plan"}')
    return Reply(503, b"later") if name == "down" and id in RETRIED else Reply()


def fill(hookline: Hookline) -> None:
    """Leave something of everything: deliveries, retries, dead letters, what waits, a replay, people, notices."""
    assert hookline.api("POST", "destinations/held/pause").status == 200
    wait_until(lambda: hookline.api("GET", "destinations/held/metrics").json["state"] == "paused", what="paused")
    assert hookline.api("POST", "deletion-requests", {"userId": SUPPRESSED, "action": "suppress"}).status == 201
    for number, id in enumerate(HELD):
        hookline.track("Order", id, userId=PEOPLE[number % len(PEOPLE)], properties={"total": 10})
    for id in HELD:
        hookline.wait_status(id, "crm", "delivered")
        hookline.wait_status(id, "held", "queued", reason="paused")
    for id in REFUSED:
        hookline.wait_status(id, "strict", "failed")
    for id in RETRIED:
        hookline.wait_status(id, "down", "retrying")
    wait_until(lambda: len(hookline.api("GET", "audiences/buyers/members").json["items"]) == len(PEOPLE), 60)
    replay = hookline.api("POST", "replays", {"destination": "crm", "messageIds": DELIVERED[:1]})
    assert replay.status == 201, replay
    wait_until(lambda: hookline.api("GET", f"replays/{replay.json['id']}").json["state"] == "done", 60)
    wait_until(lambda: hookline.api("GET", "notices?state=open").json["items"], 60)


def write(target: Path) -> None:
    """Run a service, fill it, stop it, and keep its data folder, its connections file, and what it exports."""
    with tempfile.TemporaryDirectory() as folder, Receiver() as receiver:
        receiver.respond = respond
        # A disk that is too small by its settings is noticed everywhere.
        settings = {**SETTINGS, "notices.disk_free": "1000000TB"}
        hookline = Hookline(Path(folder), destinations(receiver.url()), definitions=DEFINITIONS, settings=settings)
        with hookline:
            fill(hookline)
            exported = _run(hookline, "export")
        (hookline.folder / "exported.yaml").write_text(exported)
        _forget_boot(hookline.data / "steady-clock")
        _pack(hookline.folder, target)


def _run(hookline: Hookline, *command: str) -> str:
    line = [sys.executable, "-m", "hookline.cli.main", *command, "--config", str(hookline.folder / "hookline.yaml")]
    return subprocess.run(line, capture_output=True, text=True, check=True, timeout=120).stdout


def _forget_boot(clock: Path) -> None:
    """Make the clock of the service that of a machine that was started anew since: wherever the folder is opened, the
    wall clock says how much time has passed."""
    record = clock.read_bytes()[: -BOOT_BYTES - CHECK_BYTES] + bytes(BOOT_BYTES)
    clock.write_bytes(record + crc32(record).to_bytes(CHECK_BYTES, "little"))


def _pack(folder: Path, target: Path) -> None:
    def chosen(file: tarfile.TarInfo) -> tarfile.TarInfo | None:
        file.uid = file.gid = 0
        file.uname = file.gname = ""
        return None if file.name.split("/")[:2] in [["data", name] for name in LEFT_OUT] else file

    with tarfile.open(target, "w:xz") as archive:
        for name in ("data", "connections.yaml", "exported.yaml"):
            archive.add(folder / name, name, filter=chosen)


if __name__ == "__main__":
    FOLDERS.mkdir(exist_ok=True)
    write(FOLDERS / f"{sys.argv[1]}.tar.xz")
