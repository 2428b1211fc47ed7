"""The role as a process of its own."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import pytest
from structlog.testing import capture_logs

from hookline.bench.service import free_port
from hookline.control import serve
from tests.unit.control.running import BEARER, TOKEN, WAIT_SECONDS, wait_until

PROGRAM = """
import sys
from pathlib import Path
from hookline.app import run_control
from hookline.settings import load
settings, _ = load(Path(sys.argv[1]))
connections = Path(sys.argv[2]) if sys.argv[2] else None
sys.exit(run_control(settings, connections, one_time_link=True))
"""


class Process:
    """Control started as the supervisor starts it."""

    def __init__(
        self,
        folder: Path,
        connections: str | None = None,
        descriptor: int | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.data = folder / "data"
        self.port = free_port()
        config = folder / "hookline.yaml"
        config.write_text(
            json.dumps(
                {
                    "data_dir": str(self.data),
                    "control": {"listen": f"127.0.0.1:{self.port}", "admin_token": TOKEN},
                    **(settings or {}),
                }
            )
        )
        path = folder / "connections.yaml"
        if connections is not None:
            path.write_text(connections)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")}
        if descriptor is not None:
            environment["HOOKLINE_SUPERVISOR_FD"] = str(descriptor)
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(config), str(path) if connections is not None else ""],
            cwd=folder,
            env=environment,
            stderr=subprocess.PIPE,
            pass_fds=() if descriptor is None else (descriptor,),
        )

    def get(self, path: str) -> http.client.HTTPResponse:
        """One request with the token; the connection stays open."""
        return self.ask("GET", path).getresponse()

    def ask(self, method: str, path: str, **headers: str) -> http.client.HTTPConnection:
        """Send one request with the token, and do not wait for its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        connection.request(method, path, headers={**BEARER, **headers})
        return connection

    def is_ready(self) -> bool:
        """Whether /readyz says so."""
        assert self.process.poll() is None, self.error()
        try:
            return self.get("/readyz").status == 200
        except OSError:
            return False

    def error(self) -> str:
        """What it wrote to standard error, once it has ended."""
        pipe: IO[bytes] | None = self.process.stderr
        return pipe.read().decode() if pipe else ""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for one installation."""
    return tmp_path


def test_a_watch_that_a_fault_has_ended_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin it anew: what it looks after does not wait for the next start of control."""
    monkeypatch.setattr(serve, "FAULT_SECONDS", 0)
    begun: list[int] = []

    async def watch() -> None:
        begun.append(len(begun))
        if len(begun) < 3:
            raise ValueError("a fault of ours")

    with capture_logs() as lines:
        asyncio.run(serve.kept_on("lane_watch", watch))
    assert begun == [0, 1, 2]
    assert [(line["event"], line["watch"]) for line in lines] == [("watch_failed", "lane_watch")] * 2


@pytest.mark.parametrize(("work_seconds", "gives_back"), [(0.0, True), (1e9, False)], ids=["busy", "at rest"])
def test_freed_memory_is_given_back_while_there_is_work(
    monkeypatch: pytest.MonkeyPatch, work_seconds: float, gives_back: bool
) -> None:
    """Keep nothing of what a look at a journal on Kafka leaves behind: it came to a hundred megabytes."""
    given_back: list[int] = []
    looks = 0

    async def rest(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks > 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(serve, "WORK_SECONDS", work_seconds)
    monkeypatch.setattr(serve, "give_back", lambda: given_back.append(looks))
    monkeypatch.setattr(serve.asyncio, "sleep", rest)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(serve.give_back_forever())
    assert bool(given_back) is gives_back


def test_sigterm_ends_it_at_once_with_a_stream_open(folder: Path) -> None:
    """With somebody watching the live stream a stop does not wait for them, and is a clean exit."""
    running = Process(folder)
    wait_until(running.is_ready)
    stream = running.get("/api/v1/events/stream")
    assert stream.readline()
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(WAIT_SECONDS) == 0
    stream.read()  # ended, not cut


def test_a_request_that_a_stop_does_not_wait_for_is_told_so(folder: Path) -> None:
    """Collect hangs, and with it a request: it gets an answer that says what to do, and the log no fault. Whether it
    was done is open, so its idempotency key does not begin it again."""
    with socket.socket() as hanging:
        hanging.bind(("127.0.0.1", 0))
        hanging.listen()
        collect = {"listen": f"127.0.0.1:{hanging.getsockname()[1]}"}
        source = '{"sources": [{"id": "site", "name": "Site", "writeKeys": ["wk_site"]}]}'
        running = Process(folder, source, settings={"collect": collect})
        wait_until(running.is_ready)
        once = {"Idempotency-Key": "k1"}
        asked = running.ask("POST", "/api/v1/sources/site/test-event", **once)
        with hanging.accept()[0] as met:
            met.recv(1)
            running.process.send_signal(signal.SIGTERM)
            answer = asked.getresponse()
            told = json.load(answer)
            assert running.process.wait(WAIT_SECONDS) == 0
        assert (answer.status, told["code"], answer.headers["Retry-After"]) == (503, "stopping", "5")
        after = Process(folder, source, settings={"collect": collect})
        wait_until(after.is_ready)
        again = after.ask("POST", "/api/v1/sources/site/test-event", **once).getresponse()
        assert (again.status, json.load(again)["code"]) == (409, "idempotency_outcome_unknown")
        after.process.send_signal(signal.SIGTERM)
        assert after.process.wait(WAIT_SECONDS) == 0
    assert "check before you repeat it" in told["detail"]
    assert "Traceback" not in running.error()


def test_it_ends_when_its_supervisor_is_gone(folder: Path) -> None:
    """The inherited pipe closes with the supervisor, however it ended, and control follows."""
    reading, writing = os.pipe()
    running = Process(folder, descriptor=reading)
    os.close(reading)
    wait_until(running.is_ready)
    os.close(writing)
    assert running.process.wait(WAIT_SECONDS) == 0


def test_the_connections_file_is_in_force_when_it_is_ready(folder: Path) -> None:
    """/readyz answers 200 only once the file's objects are there; the one-time link is printed for the right port."""
    running = Process(folder, '{"sources": [{"id": "site", "name": "Site"}]}')
    wait_until(running.is_ready)
    assert json.load(running.get("/api/v1/sources"))["items"][0]["id"] == "site"
    link = (running.data / "run" / "one-time-link").read_text()
    assert link.startswith(f"http://127.0.0.1:{running.port}/open/")
    running.process.terminate()
    assert running.process.wait(WAIT_SECONDS) == 0
    assert not (running.data / "run" / "one-time-link").exists()


@pytest.mark.parametrize(
    ("connections", "sentence"),
    [
        ('{"sources": [{"id": "site", "nmae": "Site"}]}', "nmae"),
        ('{"destinations": [{"id": "a", "name": "A", "sources": ["x"], "settings": {"webhooks": []}}]}', "webhooks"),
        ("sources: [", "not valid YAML"),
    ],
)
def test_a_wrong_connections_file_stops_the_start(folder: Path, connections: str, sentence: str) -> None:
    """It ends with the code that says trying again is useless, one sentence and no traceback."""
    refused = Process(folder, connections)
    assert refused.process.wait(WAIT_SECONDS) == 2
    error = refused.error()
    assert "connections.yaml" in error
    assert sentence in error
    assert "Traceback" not in error


def test_a_taken_address_is_said_plainly(folder: Path) -> None:
    """A second control on the same port ends with a sentence that names the address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = folder / "hookline.yaml"
        config.write_text(json.dumps({"data_dir": str(folder / "data"), "control": {"listen": f"127.0.0.1:{port}"}}))
        refused = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(config), ""], capture_output=True, text=True, timeout=60, check=False
        )
    assert refused.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in refused.stderr
    assert "Traceback" not in refused.stderr
