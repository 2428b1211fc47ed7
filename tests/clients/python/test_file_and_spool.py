"""The ``file`` consumer with the uploader, and the spool, against a real Hookline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline_client import Client
from hookline_client.uploader.exit_code import ExitCode
from tests.clients.spool import segments
from tests.service.harness import WRITE_KEY, Hookline, Receiver, free_port, wait_until, webhook


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """A healthy receiver."""
    with Receiver() as running:
        yield running


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Hookline]:
    """A service that forwards to the receiver."""
    with Hookline(tmp_path_factory.mktemp("hookline"), [webhook("crm", receiver.url())]) as running:
        yield running


def uploader(log: Path, hookline: Hookline, key: str = WRITE_KEY) -> subprocess.Popen[str]:
    """Start ``hookline-upload`` as a scheduler does, with the write key in the environment."""
    command = [str(Path(sys.executable).with_name("hookline-upload")), "--file", str(log)]
    return subprocess.Popen(
        [*command, "--endpoint", f"http://127.0.0.1:{hookline.collect_port}"],
        env={**os.environ, "HOOKLINE_CLIENT_WRITE_KEY": key},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def write_events(log: Path, count: int) -> set[str]:
    """Write a log with so many events, and return their messageIds."""
    with Client(WRITE_KEY, consumer="file", filename=str(log)) as client:
        ids = {client.track(f"u{number}", "Event") for number in range(count)}
        assert client.stats.handed_over == count
    return {str(message_id) for message_id in ids}


def wait_for_once(receiver: Receiver, ids: set[str]) -> None:
    """Wait until all of these arrived, and see that none came twice."""
    wait_until(lambda: ids <= {request.message_id for request in receiver.requests}, what="all events")
    times = Counter(request.message_id for request in receiver.requests)
    assert {times[message_id] for message_id in ids} == {1}


def test_file_is_uploaded_and_removed(hookline: Hookline, receiver: Receiver, tmp_path: Path) -> None:
    """What calls wrote to the file arrives after one run, which removes the file and says nothing."""
    log = tmp_path / "app.log"
    ids = write_events(log, 30)
    run = uploader(log, hookline)
    assert (run.communicate(timeout=60)[0], run.returncode) == ("", ExitCode.DONE)
    wait_for_once(receiver, ids)
    assert [path.name for path in tmp_path.iterdir()] == ["app.log.lock"]


def test_uploaders_at_once_send_nothing_twice(hookline: Hookline, receiver: Receiver, tmp_path: Path) -> None:
    """Of four that are started together one uploads, or one after the other; each event arrives once."""
    log = tmp_path / "app.log"
    ids = write_events(log, 3_000)
    before = hookline.metric("hookline_deliver_duplicates_total")
    runs = [uploader(log, hookline) for _ in range(4)]
    assert {run.wait(60) for run in runs} <= {ExitCode.DONE, ExitCode.LATER}
    assert not log.exists()
    wait_for_once(receiver, ids)
    assert hookline.metric("hookline_deliver_duplicates_total") == before


def test_a_wrong_key_and_a_bad_line_have_their_codes(hookline: Hookline, receiver: Receiver, tmp_path: Path) -> None:
    """A wrong key keeps the file; with the right one all but the bad lines arrive, and those are in the side file."""
    log = tmp_path / "app.log"
    ids = write_events(log, 3)
    with log.open("a") as file:
        file.write(
            'half a line\n{"type":"track","userId":"u"}\n' + '{"type":"track","a":' + "[" * 150 + "]" * 150 + "}\n"
        )
    assert uploader(log, hookline, key="wk_wrong").wait(60) == ExitCode.REFUSED
    assert uploader(log, hookline).wait(60) == ExitCode.SET_ASIDE
    wait_for_once(receiver, ids)
    aside = [json.loads(line)["reason"] for line in log.with_name("app.log.rejected").read_text().splitlines()]
    assert sorted(aside) == ["invalid_json", "missing_event", "nesting_too_deep"]


def test_spool_outlives_the_process_and_an_endpoint_that_is_away(
    hookline: Hookline, receiver: Receiver, tmp_path: Path
) -> None:
    """Events of a process that ended while nobody answered are sent by the next, and the spool is empty then."""
    spool = tmp_path / "spool"
    first = Client(WRITE_KEY, endpoint=f"http://127.0.0.1:{free_port()}", spool=str(spool))
    ids = {str(first.track(f"u{number}", "Event")) for number in range(30)}
    assert first.flush(0.2).waiting == 30
    first.close(0.1)
    with Client(WRITE_KEY, endpoint=f"http://127.0.0.1:{hookline.collect_port}", spool=str(spool)) as second:
        ids.add(str(second.track("u", "Event")))
        second.flush()
        wait_for_once(receiver, ids)
        wait_until(lambda: len(segments(spool)) <= 1, what="the answer for what the first one left")
    assert [path for path in spool.rglob("*") if path.is_file()] == []
