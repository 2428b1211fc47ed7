"""Files in a folder, by the real service: kills at the worst moments, deletions, replays, and what people are told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service.files.place import BATCH, files, ids_named, ids_there, manifests, send_batch
from tests.service.harness import Hookline, wait_until

NewHookline = Callable[..., Hookline]
POINTS = ["files.noted", "files.one_written", "files.all_written", "files.committed"]
SETTLE_SECONDS = 60.0


def root_of(hookline: Hookline) -> Path:
    return hookline.data / "files" / "lake"


def wait_for(hookline: Hookline, sent: list[str]) -> None:
    wait_until(lambda: len(ids_named(root_of(hookline))) >= len(sent), SETTLE_SECONDS, what="all events in files")


@pytest.mark.slow
@pytest.mark.parametrize("format", ["ndjson", "parquet"])
def test_kills_in_the_middle_lose_and_double_nothing(new_hookline: NewHookline, format: str) -> None:
    """Killed with -9 at each point of a write, and everything with it: every acknowledged event is a row, once."""
    hookline = new_hookline(files(format=format))
    sent: list[str] = []
    for count, point in enumerate(POINTS, 1):
        hookline.environment["HOOKLINE_CRASH_POINT"] = f"{point}:2"
        hookline.start()

        def killed(count: int = count) -> bool:
            sent.extend(send_batch(hookline))
            return hookline.log.count("deliver ended by SIGKILL") >= count

        wait_until(killed, SETTLE_SECONDS, what=f"deliver killed at {point}")
        hookline.kill9()
    del hookline.environment["HOOKLINE_CRASH_POINT"]
    hookline.start()
    sent += send_batch(hookline)
    wait_for(hookline, sent)
    hookline.stop()
    assert ids_named(root_of(hookline)) == sorted(sent)
    assert ids_there(root_of(hookline)) == sorted(sent)


def test_files_of_a_source_that_is_gone_are_searched_too(new_hookline: NewHookline) -> None:
    """A destination keeps rows of sources that it is no longer connected to."""
    site, app = ({"id": id, "name": id, "type": "server", "writeKeys": [f"wk_{id}"]} for id in ("site", "app"))
    with new_hookline(files(), sources=[site, app]) as hookline:
        gone, kept = send_batch(hookline, "anna"), send_batch(hookline, "bert")
        wait_for(hookline, [*gone, *kept])
        changed = {**files(), "sources": ["app"]}
        assert hookline.api("PUT", "destinations/lake", changed).status == 200
        asked = hookline.api("POST", "deletion-requests", {"userId": "anna", "action": "delete"}).json["id"]

        def done() -> bool:
            return bool(hookline.api("GET", f"deletion-requests/{asked}/evidence").json["complete"])

        wait_until(done, SETTLE_SECONDS, what="the request done")
        assert sorted(ids_there(root_of(hookline))) == sorted(kept)


def test_a_deletion_request_reaches_the_files(new_hookline: NewHookline) -> None:
    """The person's rows are gone, others' are there, and the destination has accepted the message only then; the
    request's evidence counts rows and files."""
    with new_hookline(files()) as hookline:
        anna, bert = send_batch(hookline, "anna"), send_batch(hookline, "bert")
        wait_for(hookline, anna + bert)
        answer = hookline.api("POST", "deletion-requests", {"userId": "anna", "action": "delete"})
        assert answer.status in (200, 201, 202), answer
        wait_until(lambda: ids_named(root_of(hookline)) == sorted(bert), SETTLE_SECONDS, what="anna is gone")
        wait_until(lambda: bool(manifests(root_of(hookline))[-1].get("requests")), what="the evidence")
        evidence = manifests(root_of(hookline))[-1]
        assert evidence["rowsErased"] == BATCH
        request = f"deletion-requests/{answer.json['id']}"
        wait_until(lambda: hookline.api("GET", request).json["state"] == "done", SETTLE_SECONDS, what="it is done")
        report = hookline.api("GET", f"{request}/evidence").json
        (acknowledgement,) = report["people"][0]["sources"][0]["destinations"]
        written = len(evidence["erased"])
        assert acknowledgement["status"] == "delivered"
        assert acknowledgement["remark"] == (
            f"{BATCH} rows erased, {written} file{'' if written == 1 else 's'} written anew"
        )
        line = [sys.executable, "-m", "hookline", "deletion-requests", "evidence", answer.json["id"]]
        done = subprocess.run([*line, "--data-dir", str(hookline.data)], capture_output=True, text=True, check=True)
        assert f"lake: delivered {acknowledgement['at']} {acknowledgement['remark']}" in done.stdout


def test_a_replay_doubles_nothing(new_hookline: NewHookline) -> None:
    """What is written already is accepted and left as it is."""
    with new_hookline(files()) as hookline:
        sent = send_batch(hookline)
        wait_for(hookline, sent)
        answer = hookline.api("POST", "replays", {"destination": "lake", "from": "2020-01-01T00:00:00Z"})
        assert answer.status in (200, 201, 202), answer
        id = answer.json["id"]
        wait_until(lambda: hookline.api("GET", f"replays/{id}").json["state"] == "done", SETTLE_SECONDS, what="done")
        assert ids_there(root_of(hookline)) == sorted(sent)


def test_events_wait_as_long_as_the_settings_say(new_hookline: NewHookline) -> None:
    """A batch of the settings' size leaves at once, what is less waits: so files are as large as somebody wants."""
    with new_hookline(files(batchSeconds=60, batchEvents=BATCH)) as hookline:
        sent = send_batch(hookline)
        wait_for(hookline, sent)
        assert [each["rows"] for each in manifests(root_of(hookline))] == [BATCH]
        late = hookline.track()
        hookline.wait_status(late, "lake", "queued")
        assert ids_named(root_of(hookline)) == sorted(sent)


def test_why_names_what_a_person_can_do(new_hookline: NewHookline) -> None:
    """A place that belongs to another destination: the status says so, and to choose another prefix."""
    hookline = new_hookline(files())
    root = root_of(hookline) / "_hookline"
    root.mkdir(parents=True)
    (root / "owner.json").write_text('{"destination": "other"}')
    with hookline:
        id = hookline.track()

        def says_so() -> bool:
            return "choose another prefix" in str(hookline.event(id))

        wait_until(says_so, SETTLE_SECONDS, what="the reason")
