"""``python -m tests.service.upgrade.write_folder NAME``: keep what this version writes, with work open.

It is kept three times: ended by kill -9 under load, by a clean stop under load, and with its databases in PostgreSQL
(as a dump beside the folder). Each archive has an inventory beside it, so that the test of a later version knows what
to look for. What is kept is never written anew: it is what an older version left.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
import threading
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.postgres import PostgresServer
from tests.service.client import basic, send
from tests.service.harness import SOURCE, Hookline, Receiver, Reply, Request, wait_until, webhook

FOLDERS = Path(__file__).with_name("folders")
DUMP = "dump.sql"
LEFT_OUT = ("run", "lock")
"""Of the data folder: what belongs to processes that are gone."""
BOOT_BYTES, CHECK_BYTES = 16, 4
"""At the end of the clock's file: which start of the machine it is of, and the check."""
# What was refused once still waits when the folder is opened; a disk that is too small by its settings is noticed.
SETTINGS = {"deliver.retry_first": "1h", "deliver.retry_max": "2h", "notices.disk_free": "1000000TB"}
SECRET = "s3cret-s3cret"
WEBHOOKS = ("crm", "strict", "down", "held")
"""One of each state: it answers, refuses, fails, or is paused."""
EVERYWHERE = (*WEBHOOKS, "api", "lake")
"""What gets the events of the source."""
PEOPLE = ("u1", "u2", "u3")
SUPPRESSED, DELETED, LEAVING = "u9", "u8", "u7"
DELIVERED = [f"delivered-{number}" for number in range(5)]
REFUSED = ["refused-1", "refused-2"]
RETRIED = ["retried-1", "retried-2"]
HELD = [*DELIVERED, *REFUSED, *RETRIED, "held-1"]
AGAIN = [f"again-{number}" for number in range(30)]
"""What the replays send that have not ended."""
API_SETTINGS = {"auth": {"type": "bearer", "token": "a-token-of-theirs"}}
LISTS = ("sources", "destinations", "audiences", "computed-traits", "tokens", "users", "notifications", "views")
LISTS_OF_WORK = ("suppressions", "deletion-requests", "replays", "dead-letters", "issues")
BULK = {"id": "bulk", "name": "Bulk", "type": "server", "writeKeys": ["wk_bulk", "wk_bulk_2"]}
BULK_BATCHES, BULK_EVENTS, BULK_CHARACTERS = 22, 15, 30_000
"""More than the first segment of the journal holds."""
LOAD_BATCHES_MIN = 10
BATCH_EVENTS = 20
ANSWER_SECONDS = 0.03
"""So that requests are under way when it ends."""
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


def mapping(url: str) -> list[dict[str, Any]]:
    """Return the one request of the destination ``api``, which takes several events at once."""
    body = {"id": {"@path": "$.messageId"}, "event": {"@path": "$.event"}}
    order = {"name": "all", "if": 'type = "track"', "url": url, "body": body, "batch": {"size": 10, "wait": 0.2}}
    return [order]


def destinations(url: str) -> list[dict[str, Any]]:
    """Return one of each state and of several kinds; calls have the receiver's path by its id."""
    made = [webhook(each, f"{url}/{each}", secret=SECRET) for each in WEBHOOKS]
    made[0]["filters"] = [{"if": 'event = "Noise"', "do": "drop"}]
    files = {"where": "folder", "batchSeconds": 0.2}
    chat = {"webhookUrl": "https://hooks.slack.com/services/T000/B000/XXXX", "events": ["Order Completed"]}
    return [
        *made,
        webhook("again", f"{url}/again", filters=[{"if": 'type = "track"', "do": "drop"}]),  # only replays
        {
            "id": "api",
            "name": "API",
            "kind": "http",
            "sources": ["site"],
            "settings": API_SETTINGS,
            "mapping": mapping(f"{url}/api"),
        },
        {"id": "lake", "name": "Lake", "kind": "files", "sources": ["site"], "settings": files},
        {"id": "chat", "name": "Chat", "kind": "slack", "sources": ["site"], "enabled": False, "settings": chat},
    ]


def respond(request: Request) -> Reply:
    """Answer as the destination in the path does."""
    name, id = request.path.rpartition("/")[2], request.message_id
    if name == "strict" and id in REFUSED:
        return Reply(422, b'{"error": "no such plan"}')
    return Reply(503, b"later") if name == "down" and id in RETRIED else Reply(delay_seconds=ANSWER_SECONDS)


def post(hookline: Hookline, path: str, body: object = None) -> Any:
    """Ask for something to be made or done; return the answer."""
    answer = hookline.api("POST", path, body)
    assert answer.status in (200, 201), answer
    return answer.json


def items(hookline: Hookline, path: str) -> list[dict[str, Any]]:
    """Return what a list of the API has."""
    answer = hookline.api("GET", path)
    assert answer.status == 200, answer
    return list(answer.json["items"])


def names(hookline: Hookline, path: str) -> list[str]:
    """Return by what the API tells the items of a list apart."""
    found = items(hookline, f"{path}?limit=100")
    return sorted(next(str(each[key]) for key in ("id", "digest", "messageId") if key in each) for each in found)


def fill(hookline: Hookline) -> dict[str, Any]:
    """Leave something of everything, and return what there is to find."""
    token = make_for_people(hookline)
    hookline.track("Order", "deleted-1", userId=DELETED, properties={"total": 5})
    for each in EVERYWHERE:
        hookline.wait_status("deleted-1", each, "delivered")
    done = delete(hookline, DELETED)
    wait_until(lambda: state_of(hookline, f"deletion-requests/{done}") == "done", 60, "deleted")
    post(hookline, "destinations/held/pause")
    wait_until(lambda: hookline.api("GET", "destinations/held/metrics").json["state"] == "paused", what="paused")
    post(hookline, "deletion-requests", {"userId": SUPPRESSED, "action": "suppress"})
    for number in range(BULK_BATCHES):
        padded = {"type": "track", "event": "Bulk", "properties": {"padding": "x" * BULK_CHARACTERS}}
        batch = [{**padded, "userId": f"b{number}", "messageId": f"bulk-{number}-{n}"} for n in range(BULK_EVENTS)]
        assert send(hookline.collect_port, "POST", "/v1/batch", {"batch": batch}, basic("wk_bulk")).status == 200
    for number, id in enumerate(HELD):
        hookline.track("Order", id, userId=PEOPLE[number % len(PEOPLE)], properties={"total": 10})
    for id in AGAIN:
        hookline.track("Again", id, userId="u4")
    hookline.track("Noise", "noise-1")
    hookline.track("Left", "left-1", userId=LEAVING)
    for id in (*HELD, *AGAIN):
        hookline.wait_status(id, "crm", "delivered")
        hookline.wait_status(id, "held", "queued", reason="paused")
    for id in REFUSED:
        hookline.wait_status(id, "strict", "failed")
    for id in RETRIED:
        hookline.wait_status(id, "down", "retrying")
    wait_until(lambda: len(items(hookline, "audiences/buyers/members")) == len(PEOPLE), 60)
    wait_until(lambda: len(items(hookline, "computed-traits/spend/values")) == len(PEOPLE), 60)
    wait_until(lambda: items(hookline, "notices?state=open"), 60)
    issue = wait_until(lambda: next((i for i in items(hookline, "issues") if i["destination"] == "strict"), None), 60)
    post(hookline, f"issues/{issue['id']}/note", {"note": "Asked them on Monday."})
    waits = delete(hookline, LEAVING)  # for the destination that is paused
    replays = {name: replay(hookline, name) for name in ("done", "paused", "running")}
    wait_until(lambda: state_of(hookline, f"deletion-requests/{waits}") == "waiting", 60, "waits")
    return {
        "token": token,
        "lists": {path: names(hookline, path) for path in (*LISTS, *LISTS_OF_WORK)},
        "note": {"id": issue["id"], "note": "Asked them on Monday."},
        "deletionRequests": {done: "done", waits: "waiting"},
        "replays": replays,
    }


def make_for_people(hookline: Hookline) -> str:
    """Make accounts, a token, a rule of notifications and views, and a secret in rotation; return the token's text."""
    post(hookline, "users", {"name": "vera@example.com"})
    post(hookline, "users", {"name": "ada@example.com", "role": "editor"})
    post(hookline, "views", {"name": "Failing", "path": "/dead-letters", "query": "destination=strict", "shared": True})
    rule = {"id": "oncall", "name": "On call", "when": ["dead_letters"], "to": {"email": ["oncall@example.com"]}}
    post(hookline, "notifications", rule)
    post(hookline, "destinations/crm/rotate-secret", {"overlap": "720h", "secret": "s3cret-newer"})
    return str(post(hookline, "tokens", {"name": "Deploy pipeline", "scope": "read"})["text"])


def delete(hookline: Hookline, user: str) -> str:
    """Ask for a person's deletion; return the request's id."""
    return str(post(hookline, "deletion-requests", {"userId": user, "action": "delete"})["id"])


def replay(hookline: Hookline, name: str) -> str:
    """Begin one: it ends at once, is paused in the middle, or runs for as long as this service does."""
    wanted = {"destination": "again", "messageIds": DELIVERED if name == "done" else AGAIN, "ignoreFilters": True}
    id = str(post(hookline, "replays", {**wanted, "rate": 100 if name == "done" else 1})["id"])
    if name == "done":
        wait_until(lambda: state_of(hookline, f"replays/{id}") == "done", 60, "replayed")
        return id
    wait_until(lambda: hookline.api("GET", f"replays/{id}").json["delivered"], 60, "it runs")
    if name == "paused":
        post(hookline, f"replays/{id}/pause")
        wait_until(lambda: state_of(hookline, f"replays/{id}") == "paused", 60, "paused")
    return id


def state_of(hookline: Hookline, path: str) -> str:
    """Return the state of what is there."""
    return str(hookline.api("GET", path).json["state"])


class Load(threading.Thread):
    """Batches one after another, until nobody answers."""

    def __init__(self, hookline: Hookline) -> None:
        super().__init__()
        self.hookline = hookline
        self.acknowledged: list[str] = []

    def run(self) -> None:
        """Send, and keep what was acknowledged."""
        number = 0
        while True:
            ids = [f"load-{number}-{n}" for n in range(BATCH_EVENTS)]
            batch = [{"type": "track", "event": "Load", "userId": f"l{number}", "messageId": id} for id in ids]
            try:
                if self.hookline.post("/v1/batch", {"batch": batch}).status == 200:
                    self.acknowledged += ids
            except OSError:
                return
            number += 1


def write(name: str, how: str, url: str = "local", server: PostgresServer | None = None) -> None:
    """Run a service, fill it, end it under load, and keep what it left with its connections file and an inventory."""
    with tempfile.TemporaryDirectory() as folder, Receiver() as receiver:
        receiver.respond = respond
        settings = {**SETTINGS, "database.url": url}
        hookline = Hookline(
            Path(folder),
            destinations(receiver.url()),
            sources=[SOURCE, BULK],
            definitions=DEFINITIONS,
            settings=settings,
        )
        with hookline:
            inventory = fill(hookline)
            (hookline.folder / "exported.yaml").write_text(_run(hookline, "export"))
            load = Load(hookline)
            load.start()
            wait_until(lambda: len(load.acknowledged) > LOAD_BATCHES_MIN * BATCH_EVENTS, what="load")
            (hookline.kill9 if how == "killed" else hookline.stop)()
            load.join()
        arrived = {each: sorted(_arrived(receiver, each)) for each in (*WEBHOOKS, "again", "api")}
        inventory |= {"how": how, "accepted": [*HELD, *load.acknowledged], "arrived": arrived}
        if server is not None:
            (hookline.folder / DUMP).write_text(server.dump(url))
        _forget_boot(hookline.data / "steady-clock")
        (FOLDERS / f"{name}-{how}.json").write_text(json.dumps(inventory) + "\n")
        _pack(hookline.folder, FOLDERS / f"{name}-{how}.tar.xz")


def _arrived(receiver: Receiver, name: str) -> set[str]:
    requests = [request for request in receiver.requests if request.path.endswith(f"/{name}")]
    if name == "api":
        return {each["id"] for request in requests for each in request.json}
    return {request.message_id for request in requests if request.json["type"] == "track"}


def _run(hookline: Hookline, *command: str) -> str:
    line = [sys.executable, "-m", "hookline.cli.main", *command, "--config", str(hookline.folder / "hookline.yaml")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr + hookline.log[-6000:]
    return done.stdout


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
        for name in ("data", "connections.yaml", "exported.yaml", DUMP):
            if (folder / name).exists():
                archive.add(folder / name, name, filter=chosen)


def main() -> None:
    """Keep all three."""
    FOLDERS.mkdir(exist_ok=True)
    name = sys.argv[1]
    write(name, "killed")
    write(name, "stopped")
    server = PostgresServer(in_memory=True)
    try:
        with server.database() as url:
            write(name, "postgresql", url, server)
    finally:
        server.remove()


if __name__ == "__main__":
    main()
